"""Compare class explainers for each data set, class and size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from bench.classes.figures import ClassEvaluator, ClassRow
from bench.classes.methods import METHODS, parameter_grid
from bench.classes.runs import ClassRun
from bench.counterfactuals.instances import CPU
from bench.data.tasks import Task
from bench.gnns.target_gnns import TargetGnn
from bench.progress import OnProgress
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict

# Sizes of the paper's tables. Tree-Grids has two more, because the grid motif alone has 9 nodes.
_SIZES = {
    "ba3motif": (5, 6, 7),
    "ba3motif_roles": (5, 6, 7),
    "mutagenicity": (6, 7, 8),
    "tree_grids": (8, 9, 10, 11, 12),
    "tree_cycle": (5, 6, 7),
}
DATASETS = tuple(_SIZES)
_OTHER_SIZES = (6, 8)
# Only the class with a motif; the other class is the tree itself.
_LABELS = {"tree_grids": (1,), "tree_cycle": (1,)}
# The size at which K and T vary.
_GRID_NODES = {
    "ba3motif": 5,
    "ba3motif_roles": 5,
    "mutagenicity": 6,
    "tree_grids": 9,
    "tree_cycle": 6,
}


def class_rows(
    task: Task,
    target: TargetGnn,
    *,
    budget: float,
    explanations: int,
    full: bool,
    seed: int,
    on_progress: OnProgress,
) -> Iterator[tuple[ClassRow, dict[str, Any]]]:
    """Yield each row, and the row to save with its provenance; cached answers are reused."""
    run = ClassRun(
        target,
        task.train.graphs,
        budget=budget,
        explanations=explanations,
        seed=seed,
        on_progress=on_progress,
    )
    sizes = _SIZES.get(task.name, _OTHER_SIZES)
    for label in _LABELS.get(task.name, range(task.classes)):
        reference = graphs_of_class(target.gnn, task.train.graphs, label)
        held_out = graphs_of_class(target.gnn, task.validation.graphs, label)
        if not reference or not held_out:
            continue
        for nodes in sizes:
            evaluator = ClassEvaluator(
                task.name,
                label,
                nodes,
                gnn=target.gnn,
                reference=reference,
                held_out=held_out,
                seed=seed,
            )
            in_grid = full and nodes == _GRID_NODES.get(task.name, sizes[0])
            methods = METHODS + parameter_grid() if in_grid else METHODS
            for index, method in enumerate(methods):
                result = run.explain(method, reference, label, nodes)
                on_progress(f"{task.name}, class {label}, {nodes} nodes", index + 1, len(methods))
                row = evaluator.row(
                    method.name,
                    result.answers,
                    requested=explanations,
                    cpu_seconds=result.cpu_seconds,
                    candidates=method.candidates,
                    steps=method.steps,
                )
                origin = result.provenance | {"train_seconds": result.train_seconds}
                yield row, {**asdict(row), **origin, "budget": budget}


def graphs_of_class(gnn: Gnn, graphs: Sequence[Graph], label: int) -> list[Graph]:
    """The graphs that the GNN assigns to the class, errors included."""
    predicted = predict(gnn, graphs, CPU).argmax(dim=1).tolist()
    return [
        graph
        for graph, predicted_label in zip(graphs, predicted, strict=True)
        if predicted_label == label
    ]
