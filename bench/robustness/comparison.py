"""Robustness of explanations to noise in the graph, measured by Top-K accuracy.

As in the paper: the share of the K most relevant edits of G that are also in the explanation of a
noisy G'. Both explanations have ⌊ratio · |E|⌋ edits. The paper compares edges; we compare pairs
with their direction (added or removed). A shorter explanation lowers K, so accuracy without noise
is 1. Noisy graphs with another predicted class are excluded and counted.

The random seed of a method depends on the graph. With one seed for both graphs, random edits would
look most robust.

A ranking that ignores the GNN could be perfectly robust, so `flips` reports the share of
explanations that flip the GNN.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from bench.counterfactuals.instances import CPU, EditableInstance
from bench.counterfactuals.methods import DenoiserKind
from bench.counterfactuals.runs import CounterfactualRun
from bench.data.noise import add_noise
from bench.json_files import write_json
from bench.progress import OnProgress
from bench.report.provenance import code_digest, provenance
from bench.robustness.edit_rankings import (
    WITH_DENOISER,
    Edit,
    Ranking,
    flips_gnn,
    make_ranking,
)
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.graphs.edits import EditRules

NOISE = (0.0, 0.02, 0.04, 0.06, 0.08, 0.10)
DATASETS = ("bbbp", "mutagenicity", "nci1")  # those of the paper
NOISE_SEEDS = 5
TOP_K = 5
RATIO = 0.2
_ANSWER_CODE = (
    *("models/**/*.py", "d4explain/gnn/**/*.py", "bench/robustness/*.py", "bench/data/noise.py"),
    "bench/denoiser_training.py",
    *("bench/counterfactuals/instances.py", "bench/counterfactuals/runs.py"),
)


@dataclass(frozen=True)
class RobustnessRow:
    """The figures of a saved row; provenance is added separately."""

    dataset: str
    method: str
    noise: float
    k: int
    ratio: float
    top_k_accuracy: float | None  # None if every noisy graph changes its class
    kept: float  # share of noisy graphs with unchanged class
    flips: float  # share of their explanations that flip the GNN
    n: int  # graphs whose ratio allows at least one edit
    seeds: int  # noisy versions of each graph


@dataclass(frozen=True)
class NoisyComparison:
    """One method's explanations of one noisy graph and its original."""

    noise: float
    accuracy: float | None  # None if the noise changes the predicted class
    flips: bool


def top_k_accuracy(original: Sequence[Edit], after_noise: Sequence[Edit], k: int) -> float:
    """Share of the first `k` edits of `original` that occur anywhere in `after_noise`."""
    first = original[:k]
    if not first:
        return float(not after_noise)  # an explainer without an answer
    return sum(edit in after_noise for edit in first) / len(first)


def instances_within_ratio(instances: Sequence[EditableInstance]) -> list[EditableInstance]:
    """Limit the instances to the ratio; drop those that then allow no edit."""
    rules = [replace(instance.rules, max_ratio=RATIO) for instance in instances]
    return [
        replace(instance, rules=limited)
        for instance, limited in zip(instances, rules, strict=True)
        if limited.budget(instance.graph.edge_count)
    ]


def compare_under_noise(
    gnn: Gnn, rank: Ranking, graph: Graph, rules: EditRules, *, seed: int, noise_seeds: int
) -> list[NoisyComparison]:
    """Compare rankings of one graph at every noise level; all methods see the same noisy graphs."""
    before = int(predict(gnn, [graph], CPU)[0].argmax())
    original = rank(graph, rules, graph_seed(graph, seed))
    comparisons: list[NoisyComparison] = []
    for share in NOISE:
        for noise_seed in range(noise_seeds if share else 1):
            generator = torch.Generator().manual_seed(noise_seeds * seed + noise_seed)
            noisy = add_noise(graph, share, generator)
            if int(predict(gnn, [noisy], CPU)[0].argmax()) != before:
                comparisons.append(NoisyComparison(share, None, False))
                continue
            edits = rank(noisy, rules, graph_seed(noisy, seed))
            accuracy = top_k_accuracy(original, edits, TOP_K)
            comparisons.append(NoisyComparison(share, accuracy, flips_gnn(gnn, noisy, edits)))
    return comparisons


def graph_seed(graph: Graph, seed: int) -> int:
    """A seed derived from the edges: equal graphs share it, others do not."""
    content = f"{seed} {sorted(graph.edges.T.tolist())}"
    return int.from_bytes(hashlib.sha256(content.encode()).digest()[:4])


class RobustnessRun:
    """Runs the methods on the same noisy graphs; cached comparisons make a run resumable."""

    def __init__(self, run: CounterfactualRun, *, noise_seeds: int = NOISE_SEEDS) -> None:
        self._run = run
        self._noise_seeds = noise_seeds
        self.instances = instances_within_ratio(run.instances)
        key = json.dumps([run.folder.name, noise_seeds, code_digest(_ANSWER_CODE)])
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        self.folder = run.folder / f"robustness-{digest}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def compare(
        self, name: str, on_progress: OnProgress
    ) -> tuple[list[list[NoisyComparison]], dict[str, Any]]:
        """The comparisons of every graph, and the provenance."""
        rank: Ranking | None = None
        by_graph = []
        for index, instance in enumerate(self.instances):
            file = self.folder / f"{name}-{index}.json"
            if not file.is_file():
                rank = rank or self._ranking(name)
                comparisons = compare_under_noise(
                    self._run.target.gnn,
                    rank,
                    instance.graph,
                    instance.rules,
                    seed=self._run.seed + index,
                    noise_seeds=self._noise_seeds,
                )
                write_json(file, [[one.noise, one.accuracy, one.flips] for one in comparisons])
                on_progress(name, index + 1, len(self.instances))
            by_graph.append([NoisyComparison(*values) for values in json.loads(file.read_text())])
        provenance_file = self.folder / f"{name}.json"
        if not provenance_file.is_file():
            write_json(provenance_file, provenance(self._run.seed))
        return by_graph, json.loads(provenance_file.read_text())

    def _ranking(self, name: str) -> Ranking:
        denoiser = self._run.denoiser(DenoiserKind.OURS)[0] if name in WITH_DENOISER else None
        run = self._run
        return make_ranking(name, run.target.gnn, denoiser, run.reference, run.seed)


def robustness_rows(
    dataset: str, method: str, graphs: Sequence[Sequence[NoisyComparison]], seeds: int
) -> list[RobustnessRow]:
    """One row per noise level."""
    rows = []
    for share in NOISE:
        at_level = [one for graph in graphs for one in graph if one.noise == share]
        unchanged = [one for one in at_level if one.accuracy is not None]
        accuracies = [one.accuracy for one in unchanged if one.accuracy is not None]
        rows.append(
            RobustnessRow(
                dataset=dataset,
                method=method,
                noise=share,
                k=TOP_K,
                ratio=RATIO,
                top_k_accuracy=sum(accuracies) / len(accuracies) if accuracies else None,
                kept=len(unchanged) / len(at_level),
                flips=sum(one.flips for one in unchanged) / len(unchanged) if unchanged else 0.0,
                n=len(graphs),
                seeds=seeds,
            )
        )
    return rows
