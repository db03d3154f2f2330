"""How much of an explanation is still there when the graph is noisy: Top-K accuracy.

After the paper: the K most relevant edits of the explanation of G, and the share of them that are
in the explanation of a noisy G', both explanations ⌊ratio · |E|⌋ edits long. The paper speaks of
edges; here an edit is a pair with its direction, added or removed, since methods may do both. K is
the explanation's length where that is shorter, so that no noise means 1. Noisy graphs that the GNN
gives another class are left out and counted: there another explanation is the right one.

Methods that draw random numbers get a seed that belongs to the graph: the same one without noise,
an unrelated one with it. With one seed for both, random edits would be the most robust of all.

A ranking that ignores the GNN could be perfectly robust; `flips`, the share of all explanations
that do flip the GNN, says whether one is worth anything.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from bench.counterfactuals.instances import CPU, Explained
from bench.counterfactuals.methods import TrainedFor
from bench.counterfactuals.runs import Run
from bench.data.noise import noisy
from bench.progress import OnProgress
from bench.report.provenance import code_digest, provenance
from bench.robustness.edit_rankings import LEARNED, Edit, Ranking, is_flipped, ranking
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.graphs.edits import EditRules

NOISE = (0.0, 0.02, 0.04, 0.06, 0.08, 0.10)
DATASETS = ("bbbp", "mutagenicity", "nci1")  # those of the paper
NOISE_SEEDS = 5
TOP = 5  # K
RATIO = 0.2
_DECIDING = (
    *("models/**/*.py", "d4explain/gnn/**/*.py", "bench/robustness/*.py", "bench/data/noise.py"),
    *("bench/counterfactuals/instances.py", "bench/counterfactuals/runs.py"),
)


@dataclass(frozen=True)
class RobustnessRow:
    """The keys that the table's JSON has, besides where it comes from."""

    dataset: str
    method: str
    noise: float
    k: int
    ratio: float
    top_k_accuracy: float | None  # None if no noisy graph kept its class
    kept: float  # share of the noisy graphs that the GNN gives the same class
    flips: float  # share of the explanations of kept noisy graphs that flip the GNN
    n: int  # graphs; those whose ratio allows no edit are left out
    seeds: int  # noisy versions of each


@dataclass(frozen=True)
class Compared:
    """One method's explanations of one noisy graph and its original."""

    noise: float
    accuracy: float | None  # None: the GNN's answer changed with the noise
    flips: bool


def top_k_accuracy(original: Sequence[Edit], after_noise: Sequence[Edit], k: int) -> float:
    """Share of the first `k` edits of one ranking that are anywhere in the other."""
    first = original[:k]
    return sum(edit in after_noise for edit in first) / len(first)


def explainable(instances: Sequence[Explained]) -> list[Explained]:
    """The instances that have an edit within the ratio, which becomes theirs."""
    rules = [replace(instance.rules, max_ratio=RATIO) for instance in instances]
    return [
        replace(instance, rules=own)
        for instance, own in zip(instances, rules, strict=True)
        if own.budget(instance.graph.edge_count)
    ]


def compared(
    gnn: Gnn, rank: Ranking, graph: Graph, rules: EditRules, *, seed: int, noise_seeds: int
) -> list[Compared]:
    """One graph at every noise, with the same noisy versions for every method."""
    before = int(predict(gnn, [graph], CPU)[0].argmax())
    original = rank(graph, rules, seed_of(graph, seed))
    found: list[Compared] = []
    for share in NOISE:
        for noise_seed in range(noise_seeds if share else 1):
            generator = torch.Generator().manual_seed(noise_seeds * seed + noise_seed)
            changed = noisy(graph, share, generator)
            if int(predict(gnn, [changed], CPU)[0].argmax()) != before:
                found.append(Compared(share, None, False))
                continue
            edits = rank(changed, rules, seed_of(changed, seed))
            accuracy = top_k_accuracy(original, edits, TOP)
            found.append(Compared(share, accuracy, is_flipped(gnn, changed, edits)))
    return found


def seed_of(graph: Graph, seed: int) -> int:
    """The same for equal graphs, unrelated for different ones."""
    content = f"{seed} {sorted(graph.edges.T.tolist())}"
    return int.from_bytes(hashlib.sha256(content.encode()).digest()[:4])


class RobustnessRun:
    """The methods on the same noisy graphs; every graph's comparison is kept, to be resumed."""

    def __init__(self, run: Run, *, noise_seeds: int = NOISE_SEEDS) -> None:
        self._run = run
        self._noise_seeds = noise_seeds
        self.instances = explainable(run.instances)
        key = json.dumps([run.folder.name, noise_seeds, code_digest(_DECIDING)])
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        self.folder = run.folder / f"robustness-{digest}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def compared(
        self, name: str, on_progress: OnProgress
    ) -> tuple[list[list[Compared]], dict[str, Any]]:
        """Of every graph, and where it comes from."""
        rank: Ranking | None = None
        everything = []
        for place, instance in enumerate(self.instances):
            file = self.folder / f"{name}-{place}.json"
            if not file.is_file():
                rank = rank or self._ranking(name)
                found = compared(
                    self._run.target.gnn,
                    rank,
                    instance.graph,
                    instance.rules,
                    seed=self._run.seed + place,
                    noise_seeds=self._noise_seeds,
                )
                _write(file, [[one.noise, one.accuracy, one.flips] for one in found])
                on_progress(name, place + 1, len(self.instances))
            everything.append([Compared(*one) for one in json.loads(file.read_text())])
        origin = self.folder / f"{name}.json"
        if not origin.is_file():
            _write(origin, provenance(self._run.seed))
        return everything, json.loads(origin.read_text())

    def _ranking(self, name: str) -> Ranking:
        denoiser = self._run.denoiser(TrainedFor.OURS)[0] if name in LEARNED else None
        return ranking(name, self._run.target.gnn, denoiser)


def robustness_rows(
    dataset: str, method: str, graphs: Sequence[Sequence[Compared]], seeds: int
) -> list[RobustnessRow]:
    """One row per noise."""
    rows = []
    for share in NOISE:
        noisy_ones = [one for graph in graphs for one in graph if one.noise == share]
        kept = [one for one in noisy_ones if one.accuracy is not None]
        accuracies = [one.accuracy for one in kept if one.accuracy is not None]
        rows.append(
            RobustnessRow(
                dataset=dataset,
                method=method,
                noise=share,
                k=TOP,
                ratio=RATIO,
                top_k_accuracy=sum(accuracies) / len(accuracies) if accuracies else None,
                kept=len(kept) / len(noisy_ones),
                flips=sum(one.flips for one in kept) / len(kept) if kept else 0.0,
                n=len(graphs),
                seeds=seeds,
            )
        )
    return rows


def _write(file: Path, document: object) -> None:
    aside = file.with_suffix(".partial")
    aside.write_text(json.dumps(document) + "\n")
    os.replace(aside, file)
