"""Run the methods on one GNN; cached denoisers and answers make a run resumable.

The cache key of answers covers the GNN, the instances, the budget, the seed and the code that
decides answers. The cache key of a denoiser covers the code that trains it, but not the code that
uses it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file, save_file

from bench.counterfactuals.figures import MethodResult, toggle_pairs
from bench.counterfactuals.instances import CPU, EditableInstance, fewest_edits, is_covered
from bench.counterfactuals.methods import (
    DIFFUSION_METHODS,
    DenoiserKind,
    Edits,
    Method,
    diffusion_method,
    plain_method,
)
from bench.gnns.target_gnns import CACHE, TargetGnn
from bench.progress import OnProgress
from bench.report.provenance import code_digest, imported_by, provenance
from d4explain.gnn.graphs import Graph
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.graphs.neighbourhoods import verify_on_whole
from models.training.trainer import Trainer

_TIMED_STEPS = 20


class CounterfactualRun:
    def __init__(
        self,
        target: TargetGnn,
        reference: Sequence[Graph],
        instances: Sequence[EditableInstance],
        *,
        budget: float,
        seed: int,
        on_progress: OnProgress,
        whole: Graph | None = None,
        cache: Path = CACHE,
    ) -> None:
        """`whole` is the graph of the node instances; answers must also flip the node there."""
        self.target = target
        self.instances = list(instances)
        self.budget = budget
        self.seed = seed
        self._reference = reference
        self._on_progress = on_progress
        self._whole = whole
        self._denoisers = cache / "denoisers"
        self._denoisers.mkdir(parents=True, exist_ok=True)
        name = self._cache_name(len(self.instances), code_digest())
        self.folder = cache / "counterfactual" / name
        self.folder.mkdir(parents=True, exist_ok=True)

    def answers(self, name: str) -> tuple[list[MethodResult], float, dict[str, Any]]:
        """The answers for every instance, the training seconds and the provenance."""
        file = self.folder / f"{name}.json"
        if not file.is_file():
            _write_json(file, self._compute_answers(name))
        kept = json.loads(file.read_text())
        answers = [
            MethodResult(
                instance,
                tuple(tuple((a, b) for a, b in edits) for edits in one["found"]),
                one["gnn_evaluations"],
                one["gnn_gradients"],
                one["cpu_seconds"],
                one["refuted"],
            )
            for instance, one in zip(self.instances, kept["answers"], strict=True)
        ]
        return answers, kept["train_seconds"], kept["provenance"]

    def fewest(self) -> list[int | None]:
        """Fewest edits by exhaustive search to two edits; None if more or not covered."""
        file = self.folder / "exhaustive.json"
        if not file.is_file():
            found = []
            for place, instance in enumerate(self.instances):
                covered = is_covered(instance)
                found.append(fewest_edits(self.target.gnn, instance) if covered else None)
                self._on_progress("exhaustive search to two edits", place + 1, len(self.instances))
            _write_json(file, found)
        kept: list[int | None] = json.loads(file.read_text())
        return kept

    def _compute_answers(self, name: str) -> dict[str, Any]:
        method, train_seconds = self._method(name)
        answers = []
        for place, instance in enumerate(self.instances):
            started = time.process_time()
            answer = method(instance, self.seed + place)
            seconds = time.process_time() - started
            held = self._valid_on_whole_graph(instance, answer.found)
            answers.append(
                {
                    "found": held,
                    "gnn_evaluations": answer.gnn_evaluations,
                    "gnn_gradients": answer.gnn_gradients,
                    "cpu_seconds": seconds,
                    "refuted": len(answer.found) - len(held),
                }
            )
            self._on_progress(name, place + 1, len(self.instances))
        return {
            "answers": answers,
            "train_seconds": train_seconds,
            "provenance": provenance(self.seed),
        }

    def _valid_on_whole_graph(
        self, instance: EditableInstance, found: Sequence[Edits]
    ) -> list[Edits]:
        """The answers that also flip the node in the whole graph; all answers for a graph task."""
        if instance.node is None or self._whole is None:
            return list(found)
        gnn, node, whole = self.target.gnn, instance.node, self._whole
        before = int(verify_on_whole(gnn, whole, node, node.graph, CPU).argmax())
        return [
            edits
            for edits in found
            if int(verify_on_whole(gnn, whole, node, toggle_pairs(node.graph, edits), CPU).argmax())
            != before
        ]

    def _method(self, name: str) -> tuple[Method, float]:
        if name not in DIFFUSION_METHODS:
            return plain_method(self.target.gnn, name), 0.0
        diffusion = DIFFUSION_METHODS[name]
        denoiser, seconds = self.denoiser(diffusion.denoiser)
        return diffusion_method(self.target.gnn, denoiser, diffusion.config), seconds

    def denoiser(self, kind: DenoiserKind) -> tuple[Denoiser, float]:
        """Load or train a denoiser; the step count fits the budget of CPU seconds."""
        training = code_digest(imported_by("models/training/trainer.py"))
        name = self._cache_name(repr(kind.recipe()), len(self._reference), training)
        file = self._denoisers / f"{name}-{kind.value}.safetensors"
        if not file.is_file():
            gnn = self.target.gnn
            trial = Trainer(self._reference, gnn, kind.recipe(), seed=self.seed, device=CPU)
            # CPU time, so that other load does not shorten the training.
            began = time.process_time()
            *_, last = trial.run(
                until=_TIMED_STEPS,
                should_stop=lambda: time.process_time() - began > self.budget / 10,
            )
            steps = max(1, round(self.budget * last.step / (time.process_time() - began)))
            recipe = kind.recipe(steps)
            trainer = Trainer(self._reference, gnn, recipe, seed=self.seed, device=CPU)
            for last in trainer.run():
                self._on_progress(f"training the denoiser, recipe {kind.value}", last.step, steps)
            aside = file.with_suffix(".partial")
            denoiser = trainer.denoiser()
            metadata = {"shape": json.dumps(asdict(denoiser.shape)), "seconds": str(last.seconds)}
            save_file(dict(denoiser.state_dict()), aside, metadata=metadata)
            os.replace(aside, file)
        with safe_open(file, framework="pt") as opened:
            metadata = opened.metadata()
        denoiser = Denoiser(DenoiserShape(**json.loads(metadata["shape"])))
        denoiser.load_state_dict(load_file(file))
        return denoiser.eval(), float(metadata["seconds"])

    def _cache_name(self, *key_parts: object) -> str:
        """A folder or file name with a digest of the GNN, budget, seed and the given values."""
        key = json.dumps([self.target.folder.name, self.budget, self.seed, *key_parts])
        return f"{self.target.folder.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _write_json(file: Path, document: object) -> None:
    aside = file.with_suffix(".partial")
    aside.write_text(json.dumps(document) + "\n")
    os.replace(aside, file)
