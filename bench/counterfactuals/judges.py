"""Judges: GNNs that decide whether a flip transfers; no search ever asks them.

They are trained on the true labels of the task's training part alone, so the same judges serve
validation and test instances.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from bench.data.synthetic import LabelledGraphs
from bench.data.tasks import Task
from bench.gnns.node_training import node_accuracy, train_node_classifier
from bench.gnns.recipes import JudgeRecipe, TargetRecipe, judge_recipes
from bench.gnns.target_gnns import CACHE, save_gnn
from bench.gnns.training import EpochReport, TrainedGnn, accuracy, train
from bench.progress import OnProgress
from bench.report.provenance import provenance
from d4explain.gnn.network import Gnn

_FIRST_SEED = 101  # plus the task's seed; far from the seeds of target GNNs
_TRAIN_SHARE = 0.85  # of the training part, about six sevenths; the rest selects the epoch


@dataclass(frozen=True)
class JudgeMetrics:
    validation_accuracy: float  # on the part of its training data that selects the epoch
    epochs: int
    seconds: float
    provenance: dict[str, Any]


@dataclass(frozen=True)
class Judge:
    architecture: str
    gnn: Gnn
    metrics: JudgeMetrics


def load_judges(
    task: Task, seed: int, on_progress: OnProgress, *, cache: Path = CACHE
) -> list[Judge]:
    """Load the task's five judges from the cache, or train and cache them."""
    recipes = judge_recipes(task.name, classifies_nodes=task.whole is not None)
    judges = []
    for position, recipe in enumerate(recipes):
        label = f"training judge {position + 1} of {len(recipes)}, {recipe.architecture}"

        def show(report: EpochReport, label: str = label) -> None:
            on_progress(label, report.epoch, report.epochs)

        judges.append(_load_judge(task, recipe, _FIRST_SEED + position + seed, show, cache))
    return judges


def _load_judge(
    task: Task,
    judge: JudgeRecipe,
    seed: int,
    on_epoch: Callable[[EpochReport], None],
    cache: Path,
) -> Judge:
    spec = judge.recipe.spec(task.features, task.classes)
    folder = cache / "judges" / f"{task.name}-{_cache_key(task, judge.recipe, seed)}"
    if not (folder / "metrics.json").is_file():
        started = time.monotonic()
        (gnn, epochs), validation_accuracy = _train(task, judge.recipe, seed, on_epoch)
        seconds = time.monotonic() - started
        metrics = JudgeMetrics(validation_accuracy, epochs, seconds, provenance(seed))
        save_gnn(gnn, asdict(metrics), folder)
    gnn = Gnn(spec)
    gnn.load_state_dict(load_file(folder / "weights.safetensors"))
    metrics = JudgeMetrics(**json.loads((folder / "metrics.json").read_text()))
    return Judge(judge.architecture, gnn.eval(), metrics)


def _train(
    task: Task, recipe: TargetRecipe, seed: int, on_epoch: Callable[[EpochReport], None]
) -> tuple[TrainedGnn, float]:
    """Train on the judge's own split of the training part; also return the accuracy on the rest."""
    spec = recipe.spec(task.features, task.classes)
    count = len(task.train.graphs)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    trained_on, held_back = order.tensor_split([round(_TRAIN_SHARE * count)])
    if task.whole is not None:
        data = task.whole.data
        own = replace(data, train=data.train[trained_on], validation=data.train[held_back])
        trained = train_node_classifier(spec, own, recipe.training, seed, on_epoch)
        return trained, node_accuracy(trained.gnn, own, own.validation)
    part, rest = task.train.select(trained_on), task.train.select(held_back)
    validation = LabelledGraphs(rest.graphs, rest.labels)
    data_of_judge = LabelledGraphs(part.graphs, part.labels)
    trained = train(spec, data_of_judge, recipe.training, seed, on_epoch, validation=validation)
    return trained, accuracy(trained.gnn, rest.graphs, rest.labels)


def _cache_key(task: Task, recipe: TargetRecipe, seed: int) -> str:
    # The metric names are part of the key, so metrics of earlier versions are not read.
    figures = [field.name for field in fields(JudgeMetrics)]
    spec = recipe.spec(task.features, task.classes)
    content = [repr(spec), asdict(recipe), task.digest, seed, _TRAIN_SHARE, figures]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
