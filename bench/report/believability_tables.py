"""Tables of transfer and realism in docs/benchmarks.md; older rows lack these figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.report.markdown import table
from bench.report.results_store import Results, Row

_COMMAND = "counterfactual"
_MEASURES = {
    "na": "NA by method, with 95 % intervals",
    "nafr": "NAFR by method, with 95 % intervals",
    "c2st": "C2ST by method on shared flips, with 95 % intervals",
}
_JUDGE_COLUMNS = {
    "dataset": "data set",
    "judges": "judges",
    "accuracy": "validation accuracy",
    "agreement": "agreement with the GNN",
}


def believability_tables(results: Results) -> list[str]:
    """NA, NAFR and C2ST of every method, and the judges; empty if no row has them."""
    tables: list[str] = []
    for key, title in _MEASURES.items():
        rows = [row for row in results.rows(_COMMAND) if row.get(key) is not None]
        if rows:
            tables += [f"\n{title}:\n", _by_method(results, rows, key)]
    judged = [
        results.rows(_COMMAND, dataset)[0]
        for dataset in results.datasets(_COMMAND)
        if results.rows(_COMMAND, dataset)[0].get("judges")
    ]
    if judged:
        lines = [_judges(row) for row in judged]
        tables += ["\nJudges, lowest and highest of each set:\n", table(lines, _JUDGE_COLUMNS)]
    return tables


def _by_method(results: Results, measured: Sequence[Row], key: str) -> str:
    methods = dict.fromkeys(row["method"] for row in measured)
    columns = {"dataset": "data set", **{method: f"`{method}`" for method in methods}}
    if key == "c2st":
        columns |= {"c2st_untouched": "untouched graphs"}
    lines = []
    for dataset in results.datasets(_COMMAND):
        rows = results.rows(_COMMAND, dataset)
        line: dict[str, Any] = {"dataset": dataset}
        line |= {row["method"]: _with_interval(row, key) for row in rows}
        lines.append(line | {"c2st_untouched": rows[0].get("c2st_untouched")})
    return table(lines, columns)


def _with_interval(row: Row, key: str) -> str | None:
    if row.get(key) is None:
        return None
    return f"{row[key]:.3f} ({row[f'{key}_low']:.2f} to {row[f'{key}_high']:.2f})"


def _judges(row: Row) -> dict[str, Any]:
    return {
        "dataset": row["dataset"],
        "judges": len(row["judges"]),
        "accuracy": _range([judge["validation_accuracy"] for judge in row["judges"]]),
        "agreement": _range([judge["agreement"] for judge in row["judges"]]),
    }


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.3f} to {max(values):.3f}"
