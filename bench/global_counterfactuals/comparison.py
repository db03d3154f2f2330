"""Measures how much of a class a few counterfactuals cover, with each path shown."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import torch

from bench.counterfactuals.instances import CPU
from bench.data.tasks import Task
from bench.global_counterfactuals.data import typed_task
from bench.gnns.training import EpochReport, LabelledGraphs, Training, accuracy, train
from bench.progress import OnProgress
from bench.report.provenance import provenance
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import (
    ActivationLayer,
    BatchNormLayer,
    GcnLayer,
    GnnSpec,
    Layer,
    LinearLayer,
    PoolLayer,
)
from models.global_counterfactuals.config import GlobalConfig
from models.global_counterfactuals.explain import explain_globally

# The class that GCFExplainer (Huang et al., WSDM 2023) calls undesired.
SOURCE_CLASSES = {"mutagenicity": 0, "nci1": 1, "proteins": 1}
_WIDTH = 20
TRAINING = Training(
    epochs=150, batch=128, learning_rate=5e-3, weight_decay=0.0, noisy_share=0.0, seconds=300,
    ema=0.99,
)  # fmt: skip


@dataclass(frozen=True)
class GlobalRow:
    """The figures of a saved row; provenance is added separately."""

    dataset: str
    source_class: int
    test_accuracy: float
    asked: int  # graphs that the GNN gives the class, training graphs included
    too_large: int  # of them; they count as not covered
    count: int  # counterfactuals that were asked for
    radius: float
    coverage: float  # share of the asked graphs within the radius of one of them
    curve: list[float]  # the same for the first 1, 2, …
    by_radius: dict[str, float]  # the same for other radii
    median_distance: float | None  # to the nearest counterfactual; None above the largest radius
    mean_cost: float  # edits of the covered graphs' paths
    cpu_seconds: float
    evaluations: int


def measure_global(
    task: Task,
    config: GlobalConfig,
    *,
    seed: int,
    on_progress: OnProgress,
    training: Training = TRAINING,
) -> dict[str, Any]:
    """A `GlobalRow` with its provenance, for a GNN of GCFExplainer's kind."""
    task = typed_task(task)
    gnn = _trained(task, training, seed, on_progress)
    graphs = [*task.train.graphs, *task.validation.graphs, *task.test.graphs]
    started = time.process_time()
    found = explain_globally(
        gnn,
        graphs,
        config,
        seed=seed,
        device=CPU,
        on_step=lambda step, steps: on_progress("counterfactuals", step, steps),
    )
    seconds = time.process_time() - started
    costs = [one.path.cost for one in found.covered]
    row = GlobalRow(
        dataset=task.name,
        source_class=config.source_class,
        test_accuracy=accuracy(gnn, task.test.graphs, task.test.labels),
        asked=len(found.asked),
        too_large=found.too_large,
        count=config.count,
        radius=config.radius,
        coverage=found.share,
        curve=found.coverage[config.radius],
        by_radius={f"{radius:g}": curve[-1] for radius, curve in found.coverage.items() if curve},
        median_distance=found.median_distance[-1] if found.median_distance else None,
        mean_cost=sum(costs) / len(costs) if costs else 0.0,
        cpu_seconds=seconds,
        evaluations=found.evaluations,
    )
    return {**asdict(row), **provenance(seed)}


def gcf_spec(features: int, classes: int) -> GnnSpec:
    """Three GCN layers of 20, batch norm, the maximum over nodes and a linear layer."""
    layers: list[Layer] = []
    for _ in range(3):
        layers += [GcnLayer(_WIDTH), BatchNormLayer(), ActivationLayer("relu")]
    return GnnSpec(features, classes, (*layers, PoolLayer("max"), LinearLayer(classes)))


def _trained(task: Task, training: Training, seed: int, on_progress: OnProgress) -> Gnn:
    def report(epoch: EpochReport) -> None:
        on_progress("training the GNN", epoch.epoch, epoch.epochs)

    torch.manual_seed(seed)
    return train(
        gcf_spec(task.features, task.classes),
        LabelledGraphs(task.train.graphs, task.train.labels),
        training,
        seed,
        report,
        validation=LabelledGraphs(task.validation.graphs, task.validation.labels),
    ).gnn
