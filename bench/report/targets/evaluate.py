"""Check every target against the saved results."""

from __future__ import annotations

from collections.abc import Iterator

from bench.report.paper_figures import GNN_ACCURACY
from bench.report.results_store import NOT_MEASURED, Results
from bench.report.targets.believable import believable_verdicts
from bench.report.targets.classes import class_verdicts
from bench.report.targets.counterfactual import counterfactual_verdicts
from bench.report.targets.global_counterfactuals import global_verdicts
from bench.report.targets.robustness import robustness_verdicts
from bench.report.targets.typicality import typicality_verdicts
from bench.report.targets.verdict import TOLERANCE, Verdict, format_pair
from bench.speed.bounds import BOUNDS
from bench.speed.section import format_cell


def evaluate_targets(results: Results) -> list[Verdict]:
    return [
        *_gnn_verdicts(results),
        *counterfactual_verdicts(results),
        *believable_verdicts(results),
        *class_verdicts(results),
        *robustness_verdicts(results),
        *typicality_verdicts(results),
        *global_verdicts(results),
        *_speed_verdicts(results),
    ]


def _gnn_verdicts(results: Results) -> Iterator[Verdict]:
    for row in results.rows("gnns"):
        paper = GNN_ACCURACY.get(row["dataset"])
        if paper is not None:
            yield Verdict(
                "gnns",
                row["dataset"],
                "test accuracy ≥ paper - 0.02",
                format_pair(row["test_accuracy"], paper),
                row["test_accuracy"] >= paper - 0.02 - TOLERANCE,
            )


def _speed_verdicts(results: Results) -> Iterator[Verdict]:
    """One verdict per bound if anything was measured; `dataset` names the speed benchmark."""
    rows = results.rows("speed")
    for bound in BOUNDS if rows else ():
        row = next((row for row in rows if row.get(bound.key) is not None), None)
        if row is None:
            yield Verdict("speed", "-", bound.target, NOT_MEASURED, None)
        else:
            value = row[bound.key]
            figures = format_cell(value)
            yield Verdict("speed", row["dataset"], bound.target, figures, bound.holds(value))
