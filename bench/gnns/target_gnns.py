"""The GNN to explain of each benchmark: trained once, then cached."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from safetensors.torch import load_file

from bench.data.synthetic import LabelledGraphs
from bench.data.tasks import Task
from bench.gnns.node_training import node_accuracy, train_node_classifier
from bench.gnns.recipes import SECONDS, TargetRecipe, target_recipe
from bench.gnns.training import EpochReport, TrainedGnn, accuracy, train
from bench.report.paper_figures import GNN_ACCURACY
from bench.report.provenance import provenance
from d4explain.export.exporter import export
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import GnnSpec

CACHE = Path(".d4explain/bench")


@dataclass(frozen=True)
class TargetMetrics:
    test_accuracy: float
    validation_accuracy: float
    paper_accuracy: float | None
    counted: Literal["graphs", "nodes"]
    train_count: int
    test_count: int
    skipped: int  # rows of the data that are not graphs
    parameters: int
    epochs: int  # fewer than planned if the time limit was reached
    seconds: float
    provenance: dict[str, Any]  # of the training run


@dataclass(frozen=True)
class TargetGnn:
    gnn: Gnn
    metrics: TargetMetrics
    folder: Path
    cached: bool


def load_target_gnn(
    task: Task,
    seed: int,
    on_epoch: Callable[[EpochReport], None],
    *,
    seconds: float = SECONDS,
    cache: Path = CACHE,
) -> TargetGnn:
    """Load the task's GNN from the cache, or train and cache it."""
    recipe = target_recipe(task.name, seconds)
    spec = recipe.spec(task.features, task.classes)
    folder = cache / "gnns" / f"{task.name}-{_cache_key(spec, recipe, task, seed)}"
    if (folder / "metrics.json").is_file():
        metrics = TargetMetrics(**json.loads((folder / "metrics.json").read_text()))
        gnn = Gnn(spec)
        gnn.load_state_dict(load_file(folder / "weights.safetensors"))
        return TargetGnn(gnn.eval(), metrics, folder, cached=True)
    started = time.monotonic()
    gnn, epochs = _train(spec, recipe, task, seed, on_epoch)
    validation_accuracy, test_accuracy = _accuracies(gnn, task)
    metrics = TargetMetrics(
        test_accuracy=test_accuracy,
        validation_accuracy=validation_accuracy,
        paper_accuracy=GNN_ACCURACY.get(task.name),
        counted="graphs" if task.whole is None else "nodes",
        train_count=len(task.train.graphs),
        test_count=len(task.test.graphs),
        skipped=task.skipped,
        parameters=sum(parameter.numel() for parameter in gnn.parameters()),
        epochs=epochs,
        seconds=time.monotonic() - started,
        provenance=provenance(seed),
    )
    save_gnn(gnn, asdict(metrics), folder)
    return TargetGnn(gnn, metrics, folder, cached=False)


def _train(
    spec: GnnSpec,
    recipe: TargetRecipe,
    task: Task,
    seed: int,
    on_epoch: Callable[[EpochReport], None],
) -> TrainedGnn:
    if task.whole is not None:
        return train_node_classifier(spec, task.whole.data, recipe.training, seed, on_epoch)
    return train(
        spec,
        LabelledGraphs(task.train.graphs, task.train.labels),
        recipe.training,
        seed,
        on_epoch,
        validation=LabelledGraphs(task.validation.graphs, task.validation.labels),
    )


def _accuracies(gnn: Gnn, task: Task) -> tuple[float, float]:
    """Validation and test accuracy; nodes are classified in the whole graph."""
    if task.whole is not None:
        data = task.whole.data
        return node_accuracy(gnn, data, data.validation), node_accuracy(gnn, data, data.test)
    return (
        accuracy(gnn, task.validation.graphs, task.validation.labels),
        accuracy(gnn, task.test.graphs, task.test.labels),
    )


def _cache_key(spec: GnnSpec, recipe: TargetRecipe, task: Task, seed: int) -> str:
    # The metric names are part of the key, so metrics of earlier versions are not read.
    figures = [field.name for field in fields(TargetMetrics)]
    content = json.dumps([repr(spec), asdict(recipe), task.digest, seed, figures], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def save_gnn(gnn: Gnn, metrics: dict[str, Any], folder: Path) -> None:
    """Write all files to a temporary folder, then rename it, so that the cache is never partial."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".training-"))
    try:
        export(gnn, temporary)
        (temporary / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
        try:
            os.rename(temporary, folder)
        except OSError:
            # Another run finished first; its GNN is equivalent.
            if not (folder / "metrics.json").is_file():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
