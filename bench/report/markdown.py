"""Rows as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.report.results_store import Row

_TEXT_COLUMNS = frozenset(
    {
        "dataset",
        "method",
        "variant",
        "figure",
        "target",
        "figures",
        "verdict",
        "post_hoc",
        "section",
    }
    | {"missed", "command", "commit", "date", "remark", "network"}
)


def table(rows: Sequence[Row], columns: Mapping[str, str]) -> str:
    """A table with the titles in `columns`, by key; omits columns that no row has."""
    keys = [key for key in columns if any(key in row for row in rows)]
    head = "| " + " | ".join(columns[key] for key in keys) + " |\n"
    rule = "|" + "|".join("---" if key in _TEXT_COLUMNS else "---:" for key in keys) + "|\n"
    lines = ["| " + " | ".join(_cell(row.get(key)) for key in keys) + " |" for row in rows]
    return "\n" + head + rule + "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3f}"
    return str(value)
