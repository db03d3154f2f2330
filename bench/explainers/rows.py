"""The rows of the paper's tables: one per data set, method and seed, measured once and saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import pstdev
from typing import Any

from bench.counterfactuals.comparison import compare_methods
from bench.counterfactuals.figures import MethodResult
from bench.data.tasks import Task
from bench.gnns.target_gnns import TargetGnn
from bench.progress import OnProgress
from bench.report.results_store import Row

COMMAND = "explainers"
KEYS = ("method", "seed", "asked", "budget")
# The paper's rows in its order, then the plain searches.
PAPER_METHODS = (
    *("random", "gnnexplainer", "saliency", "gradcam", "integrated-gradients", "pgexplainer"),
    *("pgm-explainer", "cxplain", "cf-gnnexplainer", "d4"),
)
METHODS = (*PAPER_METHODS, "search", "greedy")
# The paper's, and BA-3Motif with constant features, whose GNN is right.
DATASETS = (
    *("ba_shapes", "tree_cycle", "tree_grids", "cornell"),
    *("ba3motif", "mutagenicity", "bbbp", "nci1"),
)


def missing_rows(
    task: Task,
    target: TargetGnn,
    methods: Sequence[str],
    saved: Sequence[Row],
    *,
    budget: float,
    test: int,
    seed: int,
    on_progress: OnProgress,
) -> Iterator[dict[str, Any]]:
    """Measures the methods that have no saved row; yields each row as soon as it is measured."""
    for name in methods:
        if _row(saved, name, budget=budget, test=test, seed=seed) is not None:
            continue
        comparison = compare_methods(
            task,
            target,
            [name],
            budget=budget,
            test=test,
            seed=seed,
            exhaustive=False,
            on_progress=on_progress,
        )
        (document,) = comparison.documents
        yield {
            **document,
            "asked": test,
            "gnn_accuracy": target.metrics.test_accuracy,
            "cpu_seconds_std": _standard_deviation(comparison.answers[name]),
        }


def _row(saved: Sequence[Row], method: str, *, budget: float, test: int, seed: int) -> Row | None:
    wanted = {"method": method, "budget": budget, "asked": test, "seed": seed}
    return next((row for row in saved if all(row[key] == wanted[key] for key in wanted)), None)


def _standard_deviation(answers: Sequence[MethodResult]) -> float:
    seconds = [answer.cpu_seconds for answer in answers]
    return pstdev(seconds)
