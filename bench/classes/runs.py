"""Run class explainers on one GNN; the cached denoiser and answers make a run resumable.

The cache key covers the GNN, the budget, the seed and the code that decides answers.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from bench.classes.methods import Answers, ClassMethod, ClassTask, answers
from bench.counterfactuals.instances import CPU
from bench.gnns.target_gnns import CACHE, TargetGnn
from bench.progress import OnProgress
from bench.report.provenance import code_digest, provenance
from d4explain.gnn.graphs import Graph
from models.diffusion.denoiser import Denoiser
from models.diffusion.recipes import Objective, recipe_for
from models.training.trainer import Trainer

_TIMED_STEPS = 20
_DECIDING = (
    *("models/**/*.py", "d4explain/gnn/**/*.py"),
    *("bench/classes/methods.py", "bench/classes/runs.py"),
)


@dataclass(frozen=True)
class ClassResult:
    """A method's answers and their cost."""

    answers: Answers
    cpu_seconds: float
    train_seconds: float  # 0 if the method needs no denoiser
    provenance: dict[str, Any]


class ClassRun:
    def __init__(
        self,
        target: TargetGnn,
        training: Sequence[Graph],
        *,
        budget: float,
        explanations: int,
        seed: int,
        on_progress: OnProgress,
        cache: Path = CACHE,
    ) -> None:
        self._target = target
        self._training = training
        self._budget = budget
        self._explanations = explanations
        self._seed = seed
        self._on_progress = on_progress
        key = json.dumps([target.folder.name, budget, explanations, seed, code_digest(_DECIDING)])
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        self.folder = cache / "classes" / f"{target.folder.name}-{digest}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def explain(
        self, method: ClassMethod, reference: Sequence[Graph], label: int, nodes: int
    ) -> ClassResult:
        file = self.folder / f"{method.key}-class{label}-n{nodes}.json"
        if not file.is_file():
            task = ClassTask(self._target.gnn, reference, label, nodes)
            denoiser, train_seconds = (None, 0.0) if method.sampler is None else self._denoiser()
            started = time.process_time()
            found = answers(method, task, denoiser, self._explanations, self._seed)
            document = {
                "graphs": [_document(graph) for graph in found.graphs],
                "shares": found.shares,
                "cpu_seconds": time.process_time() - started,
                "train_seconds": train_seconds,
                "provenance": provenance(self._seed),
            }
            aside = file.with_suffix(".partial")
            aside.write_text(json.dumps(document) + "\n")
            os.replace(aside, file)
        kept = json.loads(file.read_text())
        return ClassResult(
            Answers([_graph(one) for one in kept["graphs"]], kept["shares"]),
            kept["cpu_seconds"],
            kept["train_seconds"],
            kept["provenance"],
        )

    def _denoiser(self) -> tuple[Denoiser, float]:
        """Load or train the class denoiser; the step count fits the budget of CPU seconds."""
        file = self.folder / "denoiser.safetensors"
        recipe = recipe_for(Objective.CLASS)
        if not file.is_file():
            gnn = self._target.gnn
            trial = Trainer(self._training, gnn, recipe, seed=self._seed, device=CPU)
            # CPU time, so that other load does not shorten the training.
            began = time.process_time()
            *_, last = trial.run(
                until=_TIMED_STEPS,
                should_stop=lambda: time.process_time() - began > self._budget / 10,
            )
            steps = max(1, round(self._budget * last.step / (time.process_time() - began)))
            timed = recipe_for(Objective.CLASS, steps=steps)
            trainer = Trainer(self._training, gnn, timed, seed=self._seed, device=CPU)
            for last in trainer.run():
                self._on_progress("training the class denoiser", last.step, steps)
            aside = file.with_suffix(".partial")
            metadata = {"seconds": str(last.seconds)}
            save_file(dict(trainer.denoiser().state_dict()), aside, metadata=metadata)
            os.replace(aside, file)
        with safe_open(file, framework="pt") as opened:
            metadata = opened.metadata()
        first = self._training[0]
        shape = recipe.shape(first.features.shape[1], marked=first.target is not None)
        denoiser = Denoiser(shape)
        denoiser.load_state_dict(load_file(file))
        return denoiser.eval(), float(metadata["seconds"])


def _document(graph: Graph) -> dict[str, Any]:
    return {"x": graph.features.tolist(), "edges": graph.edges.tolist(), "target": graph.target}


def _graph(document: dict[str, Any]) -> Graph:
    edges = torch.tensor(document["edges"], dtype=torch.int64).view(2, -1)
    return Graph(torch.tensor(document["x"]), edges, document["target"])
