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

from bench.classes.methods import ClassMethod
from bench.counterfactuals.instances import CPU
from bench.denoiser_training import train_within
from bench.gnns.target_gnns import CACHE, TargetGnn
from bench.json_files import write_json
from bench.progress import OnProgress
from bench.report.provenance import code_digest, provenance
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import predict
from models.classes.explain import ClassPattern, explain_class
from models.diffusion.denoiser import Denoiser
from models.diffusion.recipes import Objective, recipe_for
from models.metrics.scores import density

_ANSWER_CODE = (
    *("models/classes/*.py", "models/graphs/*.py", "models/realism/*.py", "d4explain/gnn/**/*.py"),
    *("bench/classes/methods.py", "bench/classes/runs.py"),
)
# Code that decides a trained denoiser. Explainers may change without training it again.
_TRAINING_CODE = (
    *("models/diffusion/**/*.py", "models/training/**/*.py", "d4explain/gnn/**/*.py"),
    "bench/denoiser_training.py",
)


@dataclass(frozen=True)
class ClassAnswer:
    """A pattern and its figures."""

    graph: Graph
    alone: float  # confidence of the pattern alone
    density: float
    class_support: float
    other_support: float
    effect: float
    confidence: float | None
    from_denoiser: bool  # whether a chain visited it


@dataclass(frozen=True)
class ClassResult:
    """A method's answers for one seed, and their cost."""

    answers: list[ClassAnswer]
    cpu_seconds: float
    train_seconds: float  # 0 if the method needs no denoiser
    provenance: dict[str, Any]


class ClassRun:
    """Explanations of one GNN; `seed` is that of the denoiser, which all explanations share."""

    def __init__(
        self,
        target: TargetGnn,
        training: Sequence[Graph],
        *,
        budget: float,
        seed: int,
        on_progress: OnProgress,
        cache: Path = CACHE,
    ) -> None:
        self._target = target
        self._training = training
        self._predicted = predict(target.gnn, training, CPU).argmax(dim=1)
        self._budget = budget
        self._seed = seed
        self._on_progress = on_progress
        self._folder = cache / "classes" / self._keyed(_ANSWER_CODE)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._denoiser_file = (
            cache / "class_denoisers" / f"{self._keyed(_TRAINING_CODE)}.safetensors"
        )
        self._denoiser_file.parent.mkdir(parents=True, exist_ok=True)

    def _keyed(self, code: Sequence[str]) -> str:
        name = self._target.folder.name
        key = json.dumps([name, self._budget, self._seed, code_digest(code)])
        return f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"

    def has_class(self, label: int) -> bool:
        """Whether the GNN gives some training graph the class, and some another one."""
        own = self._predicted == label
        return bool(own.any()) and not bool(own.all())

    def explain(self, method: ClassMethod, label: int, nodes: int | None, seed: int) -> ClassResult:
        size = "auto" if nodes is None else f"n{nodes}"
        file = self._folder / f"{method.key}-class{label}-{size}-seed{seed}.json"
        if not file.is_file():
            denoiser, train_seconds = self.denoiser() if method.uses_denoiser else (None, 0.0)
            started = time.process_time()
            patterns = explain_class(
                self._target.gnn,
                denoiser,
                self._training,
                (self._predicted == label).tolist(),
                method.config(label, nodes),
                seed=seed,
                device=CPU,
            ).patterns
            document = {
                "answers": [_document(pattern, label) for pattern in patterns],
                "cpu_seconds": time.process_time() - started,
                "train_seconds": train_seconds,
                "provenance": provenance(self._seed),
            }
            write_json(file, document)
        cached = json.loads(file.read_text())
        answers = [
            ClassAnswer(**{**one, "graph": _graph(one["graph"])}) for one in cached["answers"]
        ]
        return ClassResult(
            answers, cached["cpu_seconds"], cached["train_seconds"], cached["provenance"]
        )

    def denoiser(self) -> tuple[Denoiser, float]:
        """Load or train the class denoiser; return it with the seconds of its training."""
        file = self._denoiser_file
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


def _document(pattern: ClassPattern, label: int) -> dict[str, Any]:
    graph, evidence = pattern.graph, pattern.evidence
    return {
        "graph": {
            "x": graph.features.tolist(),
            "edges": graph.edges.tolist(),
            "target": graph.target,
        },
        "alone": float(pattern.probabilities[label]),
        "density": density(graph),
        "class_support": evidence.class_support,
        "other_support": evidence.other_support,
        "effect": evidence.effect.mean,
        "confidence": evidence.confidence,
        "from_denoiser": "denoiser" in pattern.sources,
    }


def _graph(document: dict[str, Any]) -> Graph:
    edges = torch.tensor(document["edges"], dtype=torch.int64).view(2, -1)
    return Graph(torch.tensor(document["x"]), edges, document["target"])
