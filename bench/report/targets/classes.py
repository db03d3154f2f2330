"""Targets of class explanations, for each data set, class and size."""

from __future__ import annotations

from collections.abc import Iterator

from bench.report.results_store import Results, Row
from bench.report.targets.verdict import Verdict, check_bounds

_COMMAND = "classes"


def default_rows(results: Results) -> list[Row]:
    """The `d4` rows, one per case."""
    first: dict[tuple[str, int, int | None], Row] = {}
    for row in results.rows(_COMMAND):
        if row["method"] == "d4":
            first.setdefault((row["dataset"], row["label"], row["nodes"]), row)
    return list(first.values())


def class_verdicts(results: Results) -> Iterator[Verdict]:
    """Targets of the questions without a size, and of grids at 9 nodes."""
    for ours in default_rows(results):
        size = "" if ours["nodes"] is None else f", N = {ours['nodes']}"
        case = f"class {ours['label']}{size}"
        if ours["motif"] is not None and ours["seeds"] > 1:
            yield check_bounds(
                _COMMAND,
                ours["dataset"],
                "shows the class in 9 of 10 seeds",
                ours["motif"],
                at_least=0.9,
                case=case,
            )
        yield check_bounds(
            _COMMAND,
            ours["dataset"],
            "≤ 15 CPU s per class",
            ours["seconds"],
            at_most=15,
            case=case,
        )
