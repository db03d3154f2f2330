"""Compare class explainers for each data set, class and size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from bench.classes.figures import ClassRow, class_row
from bench.classes.methods import ALONE, OURS, PAPER, PAPER_GRID, ClassMethod
from bench.classes.runs import ClassRun
from bench.data.tasks import Task
from bench.gnns.target_gnns import TargetGnn
from bench.progress import OnProgress
from bench.report.paper_figures import CLASS_GRID_SIZES

# Sizes of the paper's first table, on the data sets of its appendix.
_SIZES: dict[str, tuple[int, ...]] = {
    "ba3motif_roles": (5, 6, 7),
    "mutagenicity": (6, 7, 8),
    "tree_grids": (8, 9, 10),
    "tree_cycle": (5, 6, 7),
    # Not in the paper's tables.
    "ba3motif": (),
    "ba_shapes": (),
}
DATASETS = tuple(_SIZES)
_OTHER_SIZES = (6, 8)
# The paper's trees explain the motif; its tables do not name other classes.
_SIZED_LABELS = {"tree_grids": (1,), "tree_cycle": (1,)}
# Classes with a motif that only fits larger patterns: the 3 × 3 grid.
_LARGER = {("ba3motif", 1): (9,), ("ba3motif_roles", 1): (9,), ("tree_grids", 1): (9,)}
# What distinguishes the rows of a data set.
CLASS_KEYS = ("label", "nodes", "method", "k", "t")
# Classes that have a known truth.
_LABELS = {"ba_shapes": (1, 2, 3), "mutagenicity": (0,)}


def class_rows(
    task: Task,
    target: TargetGnn,
    *,
    budget: float,
    seeds: int,
    full: bool,
    labels: Sequence[int] | None = None,
    methods: Sequence[str] | None = None,
    seed: int,
    on_progress: OnProgress,
) -> Iterator[tuple[ClassRow, dict[str, Any]]]:
    """Yield each row, and the row to save with its provenance; cached answers are reused.

    All explanations share one GNN and one denoiser of `seed`; they have the seeds after it. Rows of
    a size, except that of the 3 × 3 grid, and those of the paper's grid have one seed. With no
    `seeds`, there are only those.
    """
    run = ClassRun(target, task.train.graphs, budget=budget, seed=seed, on_progress=on_progress)
    for label in labels or _LABELS.get(task.name) or range(task.classes):
        if not run.has_class(label):
            continue
        for nodes, method, count in _cases(task.name, label, seeds, full):
            if methods is not None and method.name not in methods:
                continue
            if not count:
                continue
            what = f"{task.name}, class {label}, {method.name}, N = {nodes or 'chosen'}"
            results = []
            for number in range(count):
                results.append(run.explain(method, label, nodes, seed + 1 + number))
                on_progress(what, number + 1, count)
            row = class_row(task.name, label, nodes, method, results)
            origin = results[0].provenance | {"train_seconds": results[0].train_seconds}
            yield row, {**asdict(row), **origin, "budget": budget}


def _cases(
    dataset: str, label: int, seeds: int, full: bool
) -> Iterator[tuple[int | None, ClassMethod, int]]:
    """Size, method and number of seeds of each row."""
    for method in OURS:
        yield None, method, seeds
    larger = _LARGER.get((dataset, label), ())
    for nodes in larger:
        for method in OURS:
            yield nodes, method, seeds
    if label not in _SIZED_LABELS.get(dataset, (label,)):
        return
    for nodes in _SIZES.get(dataset, _OTHER_SIZES):
        for method in (PAPER, *ALONE) if nodes in larger else (*OURS, PAPER, *ALONE):
            yield nodes, method, 1
    if full and dataset in CLASS_GRID_SIZES:
        for method in PAPER_GRID:
            yield CLASS_GRID_SIZES[dataset], method, 1
