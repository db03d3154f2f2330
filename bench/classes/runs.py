"""Run class explainers on one GNN; the cached denoiser and answers make a run resumable.

The cache key covers the GNN, the budget, the seed and the code that decides answers.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from bench.classes.methods import Answers, ClassMethod, ClassTask, answers
from bench.denoiser_training import train_within
from bench.gnns.target_gnns import CACHE, TargetGnn
from bench.json_files import write_json
from bench.progress import OnProgress
from bench.report.provenance import code_digest, provenance
from d4explain.gnn.graphs import Graph
from models.diffusion.denoiser import Denoiser
from models.diffusion.recipes import Objective, recipe_for

_ANSWER_CODE = (
    *("models/**/*.py", "d4explain/gnn/**/*.py", "bench/denoiser_training.py"),
    *("bench/classes/methods.py", "bench/classes/runs.py"),
)
# Code that decides a trained denoiser. Explainers may change without training it again.
_TRAINING_CODE = (
    *("models/diffusion/**/*.py", "models/training/**/*.py", "d4explain/gnn/**/*.py"),
    "bench/denoiser_training.py",
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
        code = code_digest(_ANSWER_CODE)
        key = json.dumps([target.folder.name, budget, explanations, seed, code])
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        self.folder = cache / "classes" / f"{target.folder.name}-{digest}"
        self.folder.mkdir(parents=True, exist_ok=True)
        trained = json.dumps([target.folder.name, budget, seed, code_digest(_TRAINING_CODE)])
        name = hashlib.sha256(trained.encode()).hexdigest()[:12]
        self._denoiser_file = cache / "class_denoisers" / f"{target.folder.name}-{name}.safetensors"

    def explain(
        self, method: ClassMethod, reference: Sequence[Graph], label: int, nodes: int
    ) -> ClassResult:
        file = self.folder / f"{method.key}-class{label}-n{nodes}.json"
        if not file.is_file():
            task = ClassTask(self._target.gnn, reference, label, nodes)
            denoiser, train_seconds = (None, 0.0) if method.sampler is None else self.denoiser()
            started = time.process_time()
            explanations = answers(method, task, denoiser, self._explanations, self._seed)
            document = {
                "graphs": [_document(graph) for graph in explanations.graphs],
                "shares": explanations.shares,
                "cpu_seconds": time.process_time() - started,
                "train_seconds": train_seconds,
                "provenance": provenance(self._seed),
            }
            write_json(file, document)
        cached = json.loads(file.read_text())
        return ClassResult(
            Answers([_graph(document) for document in cached["graphs"]], cached["shares"]),
            cached["cpu_seconds"],
            cached["train_seconds"],
            cached["provenance"],
        )

    def denoiser(self) -> tuple[Denoiser, float]:
        """Load or train the class denoiser; return it with the seconds of its training."""
        file = self._denoiser_file
        file.parent.mkdir(parents=True, exist_ok=True)
        recipe = recipe_for(Objective.CLASS)
        if not file.is_file():
            trained = train_within(
                self._budget,
                self._training,
                self._target.gnn,
                lambda steps: recipe_for(Objective.CLASS, steps=steps),
                seed=self._seed,
                label="training the class denoiser",
                on_progress=self._on_progress,
            )
            partial = file.with_suffix(".partial")
            metadata = {"seconds": str(trained.seconds)}
            save_file(dict(trained.denoiser.state_dict()), partial, metadata=metadata)
            partial.replace(file)
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
