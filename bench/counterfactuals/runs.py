"""Run the methods on one GNN; cached denoisers and answers make a run resumable.

The cache key of answers covers the GNN, the instances' graphs, the budget, the seed and the code
that decides answers, but not the judges or the discriminator. The cache key of a denoiser covers
the code that trains it, but not the code that uses it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from safetensors import safe_open
from safetensors.torch import load_file, save_file

from bench.counterfactuals.criteria import best_first
from bench.counterfactuals.figures import MethodResult, toggle_pairs
from bench.counterfactuals.instances import CPU, EditableInstance, fewest_edits, is_covered
from bench.counterfactuals.methods import (
    BELIEVABLE_METHODS,
    CHOSEN_METHODS,
    DELETES_ONLY,
    DIFFUSION_METHODS,
    BelievableMethod,
    ChosenMethod,
    DenoiserKind,
    Edits,
    Method,
    Step,
    diffusion_method,
    explainer_method,
)
from bench.counterfactuals.witnesses import load_panel
from bench.data.digests import graphs_digest
from bench.denoiser_training import train_within
from bench.gnns.target_gnns import CACHE, TargetGnn
from bench.json_files import write_json
from bench.progress import OnProgress
from bench.report.provenance import code_digest, imported_by, provenance
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.stored_denoisers import load_denoiser
from models.explainers.catalogue import ExplainerName, make_explainer
from models.graphs.neighbourhoods import verify_on_whole


class CounterfactualRun:
    def __init__(
        self,
        target: TargetGnn,
        reference: Sequence[Graph],
        instances: Sequence[EditableInstance],
        *,
        budget: float,
        seed: int,
        dataset: str = "",
        on_progress: OnProgress,
        whole: Graph | None = None,
        cache: Path = CACHE,
    ) -> None:
        """`dataset` decides the size of the paper's denoiser.

        `whole` is the graph of the node instances; answers must also flip the node there.
        """
        self.target = target
        self.instances = list(instances)
        self.budget = budget
        self.seed = seed
        self._dataset = dataset
        self.reference = reference
        self._on_progress = on_progress
        self._whole = whole
        self._cache = cache
        self._denoisers = cache / "denoisers"
        self._denoisers.mkdir(parents=True, exist_ok=True)
        graphs = graphs_digest([instance.graph for instance in self.instances])
        name = self._cache_name(graphs, code_digest())
        self.folder = cache / "counterfactual" / name
        self.folder.mkdir(parents=True, exist_ok=True)

    def answers(self, name: str) -> tuple[list[MethodResult], float, dict[str, Any]]:
        """The answers for every instance, the training seconds and the provenance."""
        file = self.folder / f"{name}.json"
        if not file.is_file():
            chosen = CHOSEN_METHODS.get(name)
            document = self._compute_answers(name) if chosen is None else self._chosen(chosen)
            write_json(file, document)
        cached = json.loads(file.read_text())
        answers = [
            MethodResult(
                instance,
                tuple(tuple((a, b) for a, b in edits) for edits in answer["found"]),
                answer["gnn_evaluations"],
                answer["gnn_gradients"],
                answer["cpu_seconds"],
                answer["refuted"],
                tuple(Step(edits, fidelity) for edits, fidelity in answer["steps"]),
            )
            for instance, answer in zip(self.instances, cached["answers"], strict=True)
        ]
        return answers, cached["train_seconds"], cached["provenance"]

    def _chosen(self, method: ChosenMethod) -> dict[str, Any]:
        """The answers of the base method in another order."""
        answers, seconds, _ = self.answers(method.base)
        denoiser, training_seconds = self.denoiser(DenoiserKind.OURS)
        if not method.base_trains_denoiser:
            seconds += training_seconds
        ordered = [
            best_first(answer, method.criterion, self.target.gnn, denoiser, self.seed + index)
            for index, answer in enumerate(answers)
        ]
        return {
            "answers": [
                {
                    "found": answer.found,
                    "gnn_evaluations": answer.gnn_evaluations,
                    "gnn_gradients": answer.gnn_gradients,
                    "cpu_seconds": answer.cpu_seconds,
                    "refuted": answer.refuted,
                    "steps": [],
                }
                for answer in ordered
            ],
            "train_seconds": seconds,
            "provenance": provenance(self.seed),
        }

    def fewest(self) -> list[int | None]:
        """Fewest edits by exhaustive search to two edits; None if more or not covered."""
        file = self.folder / "exhaustive.json"
        if not file.is_file():
            fewest = []
            for index, instance in enumerate(self.instances):
                covered = is_covered(instance)
                fewest.append(fewest_edits(self.target.gnn, instance) if covered else None)
                self._on_progress("exhaustive search to two edits", index + 1, len(self.instances))
            write_json(file, fewest)
        cached: list[int | None] = json.loads(file.read_text())
        return cached

    def _compute_answers(self, name: str) -> dict[str, Any]:
        """The answers so far are kept in a file, so that an interrupted method goes on."""
        method, train_seconds = self._method(name)
        partial = self.folder / f"{name}-partial.json"
        answers: list[dict[str, Any]] = json.loads(partial.read_text()) if partial.exists() else []
        for index, instance in list(enumerate(self.instances))[len(answers) :]:
            started = time.process_time()
            answer = method(instance, self.seed + index)
            seconds = time.process_time() - started
            valid = valid_on_whole_graph(self.target.gnn, self._whole, instance, answer.found)
            answers.append(
                {
                    "found": valid,
                    "gnn_evaluations": answer.gnn_evaluations,
                    "gnn_gradients": answer.gnn_gradients,
                    "cpu_seconds": seconds,
                    "refuted": len(answer.found) - len(valid),
                    "steps": [[step.edits, step.fidelity] for step in answer.steps],
                }
            )
            write_json(partial, answers)
            self._on_progress(name, index + 1, len(self.instances))
        return {
            "answers": answers,
            "train_seconds": train_seconds,
            "provenance": provenance(self.seed),
        }

    def _method(self, name: str) -> tuple[Method, float]:
        if name in BELIEVABLE_METHODS:
            return self._believable(BELIEVABLE_METHODS[name])
        if name not in DIFFUSION_METHODS:
            return self._explainer(name)
        diffusion = DIFFUSION_METHODS[name]
        denoiser, seconds = None, 0.0
        if diffusion.denoiser is not None:
            denoiser, seconds = self.denoiser(diffusion.denoiser)
        return diffusion_method(self.target.gnn, denoiser, diffusion.config), seconds

    def _explainer(self, name: str) -> tuple[Method, float]:
        """An explainer of `models.explainers`, and the CPU seconds of its training."""
        started = time.process_time()
        explainer = make_explainer(
            cast(ExplainerName, DELETES_ONLY.get(name, name)),
            self.target.gnn,
            self.reference,
            seed=self.seed,
            device=CPU,
        )
        seconds = time.process_time() - started
        return explainer_method(self.target.gnn, explainer, adds=name not in DELETES_ONLY), seconds

    def _believable(self, method: BelievableMethod) -> tuple[Method, float]:
        panel, seconds = load_panel(
            self.target.gnn,
            self.reference,
            self._cache / "witnesses" / self.target.folder.name,
            seed=self.seed,
            on_progress=self._on_progress,
        )
        return diffusion_method(self.target.gnn, None, method.config, method.panel(panel)), seconds

    def denoiser(self, kind: DenoiserKind) -> tuple[EdgeDenoiser, float]:
        """Load or train a denoiser; return it with the seconds of its training."""
        training_code = code_digest(imported_by("models/training/make_trainer.py"))
        recipe = kind.recipe(self._dataset)
        name = self._cache_name(repr(recipe), len(self.reference), training_code)
        file = self._denoisers / f"{name}-{kind.value}.safetensors"
        if not file.is_file():
            denoiser, seconds = train_within(
                self.budget,
                self.reference,
                self.target.gnn,
                lambda steps: kind.recipe(self._dataset, steps),
                seed=self.seed,
                label=f"training the denoiser, recipe {kind.value}",
                on_progress=self._on_progress,
            )
            partial = file.with_suffix(".partial")
            metadata = {"shape": json.dumps(denoiser.shape_document()), "seconds": str(seconds)}
            save_file(dict(denoiser.state_dict()), partial, metadata=metadata)
            partial.replace(file)
        with safe_open(file, framework="pt") as opened:
            metadata = opened.metadata()
        denoiser = load_denoiser(json.loads(metadata["shape"]), load_file(file))
        return denoiser, float(metadata["seconds"])

    def _cache_name(self, *key_parts: object) -> str:
        """A folder or file name with a digest of the GNN, budget, seed and the given values."""
        key = json.dumps([self.target.folder.name, self.budget, self.seed, *key_parts])
        return f"{self.target.folder.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def valid_on_whole_graph(
    gnn: Gnn, whole: Graph | None, instance: EditableInstance, answers: Sequence[Edits]
) -> list[Edits]:
    """The answers that also flip the node in the whole graph; all answers for a graph task."""
    if instance.node is None or whole is None:
        return list(answers)
    node = instance.node
    before = int(verify_on_whole(gnn, whole, node, node.graph, CPU).argmax())
    return [
        edits
        for edits in answers
        if int(verify_on_whole(gnn, whole, node, toggle_pairs(node.graph, edits), CPU).argmax())
        != before
    ]
