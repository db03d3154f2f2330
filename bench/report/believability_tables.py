"""Tables of transfer and realism in docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.report.cost_table import SHARED_TITLE, with_training
from bench.report.markdown import table
from bench.report.results_store import Results, Row
from bench.report.targets.believable import COMMAND, mean_figure

_COLUMNS = {
    "dataset": "data set",
    "method": "method",
    "n": "instances",
    "seeds": "seeds",
    "flip_rate": "flip rate",
    "mean_edits": "edits",
    "mean_ratio": "ratio",
    "na": "NA",
    "nafr": "NAFR",
    "c2st": "C2ST",
    "unseen": "unseen",
    "gnn_evaluations": "GNN evaluations",
    "cpu_seconds": "CPU s per answer",
    "shared": SHARED_TITLE,
}
_FIGURES = (
    *("flip_rate", "mean_edits", "mean_ratio", "na", "nafr", "c2st"),
    *("gnn_evaluations", "cpu_seconds"),
)
_INTERVALS = ("na", "nafr", "c2st")
_JUDGE_COLUMNS = {
    "dataset": "data set",
    "judges": "judges per seed",
    "accuracy": "validation accuracy",
    "agreement": "agreement with the GNN",
    "untouched": "C2ST of untouched graphs",
}


def believability_tables(results: Results) -> list[str]:
    """All methods of each data set, and the judges."""
    lines = [
        _line(results, dataset, method)
        for dataset in results.datasets(COMMAND)
        for method in _methods(results, dataset)
    ]
    judges = [_judges(results, dataset) for dataset in results.datasets(COMMAND)]
    return [
        table(lines, _COLUMNS),
        "\nJudges, lowest and highest of each set, and the control:\n",
        table(judges, _JUDGE_COLUMNS),
    ]


def _methods(results: Results, dataset: str) -> list[str]:
    """`search` is there to be compared with `d4`, so it is left out without it."""
    methods = list(dict.fromkeys(row["method"] for row in results.rows(COMMAND, dataset)))
    return [method for method in methods if method != "search" or "d4" in methods]


def _line(results: Results, dataset: str, method: str) -> dict[str, Any]:
    rows = [row for row in results.rows(COMMAND, dataset) if row["method"] == method]
    keys = (*_FIGURES, "train_seconds")
    figures: dict[str, Any] = {key: mean_figure(results, dataset, method, key) for key in keys}
    for key in _INTERVALS:
        figures[key] = _with_range(rows, key, figures[key])
    seeds = ", ".join(str(row["seed"]) for row in rows)
    counts = " + ".join(str(row["n"]) for row in rows)
    name = f"`{method}`"
    return {
        **{"dataset": dataset, "method": name, "n": counts, "seeds": seeds, **figures},
        "unseen": _unseen(rows),
        "shared": with_training(figures),
    }


def _unseen(rows: Sequence[Row]) -> str | None:
    """Answers with an unseen degree or edge, of all answers; None if a row predates the count."""
    if any("unseen_answers" not in row for row in rows):
        return None
    unseen, answers = (sum(row[key] for row in rows) for key in ("unseen_answers", "answers"))
    return f"{unseen} of {answers}"


def _with_range(rows: Sequence[Row], key: str, value: float | None) -> str | None:
    """One seed: its 95 % interval over instances. Several: the lowest and the highest seed."""
    if value is None:
        return None
    measured = [row for row in rows if row.get(key) is not None]
    values = [row[key] for row in measured]
    low, high = min(values), max(values)
    if len(measured) == 1:
        low, high = measured[0][f"{key}_low"], measured[0][f"{key}_high"]
    return f"{value:.3f} ({low:.2f} to {high:.2f})"


def _judges(results: Results, dataset: str) -> dict[str, Any]:
    rows = results.rows(COMMAND, dataset)
    panels = {row["seed"]: row["judges"] for row in rows}
    judges = [judge for panel in panels.values() for judge in panel]
    return {
        "dataset": dataset,
        "judges": " + ".join(str(len(panel)) for panel in panels.values()),
        "accuracy": _range([judge["validation_accuracy"] for judge in judges]),
        "agreement": _range([judge["agreement"] for judge in judges]),
        "untouched": mean_figure(results, dataset, rows[0]["method"], "c2st_untouched"),
    }


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.3f} to {max(values):.3f}"
