"""Tables of class explanations: by data set and class, and the paper's two tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.report.markdown import table
from bench.report.paper_figures import CLASS_GRID, CLASS_GRID_SIZES
from bench.report.results_store import Results, Row
from bench.report.targets.classes import default_rows

_COLUMNS = {
    "dataset": "data set",
    "label": "class",
    "nodes": "N",
    "seeds": "seeds",
    "motif": "shows the class",
    "motif mined": "shows the class, `mined`",
    "class_support": "in class",
    "other_support": "elsewhere",
    "effect": "effect",
    "contrast mined": "contrast, `mined`",
    "effect mined": "effect, `mined`",
    "confidence_alone": "alone",
    "from_denoiser": "by a chain",
    "seconds": "CPU s",
}
_FIGURES = {
    "confidence_alone": "alone",
    "density": "density",
    "class_support": "in class",
    "contrast": "contrast",
    "effect": "effect",
    "motif": "shows the class",
}
_PAPER_KEYS = {"confidence_alone": "paper_confidence", "density": "paper_density"}
_METHODS = ("d4_paper", "d4", "mined", "xgnn", "hill_climbing")


def class_tables(results: Results) -> list[str]:
    return [*_by_class(results), *class_table_by_size(results), *_by_setting(results)]


def _by_class(results: Results) -> list[str]:
    """One line per data set, class and size with several seeds."""
    lines = []
    for ours in default_rows(results):
        if ours["seeds"] == 1:
            continue
        case = {name: ours[name] for name in ("dataset", "label", "nodes")}
        mined: Row = results.row("classes", **case, method="mined") or {}
        lines.append(
            {
                **ours,
                "nodes": "chosen" if ours["nodes"] is None else ours["nodes"],
                **{f"{key} mined": mined.get(key) for key in ("motif", "contrast", "effect")},
            }
        )
    return [table(lines, _COLUMNS)] if lines else []


def class_table_by_size(results: Results) -> list[str]:
    """The paper's first table, transposed lines: one per figure and method, a column per size."""
    rows = [row for row in results.rows("classes") if row["paper_confidence"] is not None]
    cases = list(dict.fromkeys((row["dataset"], row["nodes"]) for row in rows))
    if not cases:
        return []
    columns = {"figure": "figure", "method": "method"}
    columns |= {_case_key(*case): f"{case[0]}, N = {case[1]}" for case in cases}
    lines = []
    for figure, title in _FIGURES.items():
        measured = [method for method in _METHODS if any(row["method"] == method for row in rows)]
        sources = [(f"`{method}`", method, figure) for method in measured]
        if figure in _PAPER_KEYS:
            sources.insert(1, ("paper", "d4_paper", _PAPER_KEYS[figure]))
            if "xgnn" in measured:
                sources.append(("paper's XGNN", "xgnn", _PAPER_KEYS[figure]))
        for name, method, key in sources:
            line: dict[str, object] = {"figure": title, "method": name}
            for dataset, nodes in cases:
                own = [
                    row
                    for row in _at_paper_setting(rows, method)
                    if (row["dataset"], row["nodes"]) == (dataset, nodes)
                ]
                line[_case_key(dataset, nodes)] = _mean([row[key] for row in own])
            lines.append(line)
    caption = "\nThe paper's table by size N; `d4_paper` with K = 20, T = 50:\n"
    return [caption, table(lines, columns)]


def _by_setting(results: Results) -> list[str]:
    """The paper's second table: `d4_paper` by K and T."""
    rows = [row for row in results.rows("classes") if row["method"] == "d4_paper"]
    measured = [name for name in CLASS_GRID_SIZES if any(row["dataset"] == name for row in rows)]
    lines = []
    for (k, t), paper in CLASS_GRID.items():
        line: dict[str, object] = {"figure": f"K = {k}, T = {t}"}
        for dataset in measured:
            own = [
                row
                for row in rows
                if (row["dataset"], row["nodes"]) == (dataset, CLASS_GRID_SIZES[dataset])
                and (row["k"], row["t"]) == (k, t)
            ]
            for place, key in enumerate(_PAPER_KEYS):
                line[f"{dataset} {key}"] = _beside(
                    _mean([one[key] for one in own]), paper[dataset][place]
                )
        lines.append(line)
    columns = {"figure": "`d4_paper`"}
    for dataset in measured:
        for key in _PAPER_KEYS:
            title = f"{dataset}, N = {CLASS_GRID_SIZES[dataset]}, {_FIGURES[key]}"
            columns[f"{dataset} {key}"] = title
    caption = "\nThe paper's table by K and T; the paper's figures in brackets:\n"
    return [caption, table(lines, columns)] if measured else []


def _at_paper_setting(rows: Sequence[Row], method: str) -> list[Row]:
    own = [row for row in rows if row["method"] == method]
    return [row for row in own if (row["k"], row["t"]) == (20, 50)] if method == "d4_paper" else own


def _case_key(dataset: str, nodes: int) -> str:
    return f"{dataset} {nodes}"


def _beside(ours: float | None, paper: float) -> str:
    return f"{'-' if ours is None else f'{ours:.3f}'} ({paper:.3f})"


def _mean(values: Sequence[float | None]) -> float | None:
    """Over the classes; classes without an answer have no figures."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
