"""The class comparison: which data sets, classes and sizes, and the rows that come of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from bench.classes.figures import ClassRow, Measure
from bench.classes.methods import METHODS, grid
from bench.classes.runs import ClassRun
from bench.counterfactuals.instances import CPU
from bench.data.tasks import Task
from bench.gnns.target_gnns import TargetGnn
from bench.progress import OnProgress
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict

# Numbers of nodes as in the paper's tables, whose BA-3Motif has role features; a grid has 9 nodes,
# which is little room for more.
_SIZES = {
    "ba3motif": (5, 6, 7),
    "ba3motif_roles": (5, 6, 7),
    "mutagenicity": (6, 7, 8),
    "tree_grids": (8, 9, 10, 11, 12),
    "tree_cycle": (5, 6, 7),
}
DATASETS = tuple(_SIZES)
_OTHER_SIZES = (6, 8)
# Of the trees only the class that has a motif; the other one is the tree itself.
_LABELS = {"tree_grids": (1,), "tree_cycle": (1,)}
_GRID_NODES = {
    "ba3motif": 5,
    "ba3motif_roles": 5,
    "mutagenicity": 6,
    "tree_grids": 9,
    "tree_cycle": 6,
}  # of the table over K and T


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
    """Rows with where they come from; what was computed before is read."""
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
        reference = of_class(target.gnn, task.train.graphs, label)
        held_out = of_class(target.gnn, task.validation.graphs, label)
        if not reference or not held_out:
            continue
        for nodes in sizes:
            measure = Measure(
                task.name,
                label,
                nodes,
                gnn=target.gnn,
                reference=reference,
                held_out=held_out,
                seed=seed,
            )
            in_grid = full and nodes == _GRID_NODES.get(task.name, sizes[0])
            methods = METHODS + grid() if in_grid else METHODS
            for place, method in enumerate(methods):
                explained = run.explained(method, reference, label, nodes)
                on_progress(f"{task.name}, class {label}, {nodes} nodes", place + 1, len(methods))
                row = measure.row(
                    method.name,
                    explained.answers,
                    asked=explanations,
                    cpu_seconds=explained.cpu_seconds,
                    candidates=method.candidates,
                    steps=method.steps,
                )
                origin = explained.provenance | {"train_seconds": explained.train_seconds}
                yield row, {**asdict(row), **origin, "budget": budget}


def of_class(gnn: Gnn, graphs: Sequence[Graph], label: int) -> list[Graph]:
    """The graphs of a class as the GNN sees it: its errors are to be explained too."""
    predicted = predict(gnn, graphs, CPU).argmax(dim=1).tolist()
    return [graph for graph, said in zip(graphs, predicted, strict=True) if said == label]
