"""Results as tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from bench.classes.figures import ClassRow
from bench.counterfactuals.figures import CounterfactualRow, EditDetail
from bench.robustness.comparison import RobustnessRow
from bench.speed import section

_COUNTERFACTUAL_COLUMNS = {
    "method": "method",
    "auc_strict": "AUC strict",
    "auc_one_edit": "AUC one-edit",
    "fidelity_auc": "flips' fidelity AUC",
    "mean_edits": "edits",
    "flip_rate": "flips ≤ .3",
    "mmd_heldout": "MMD held-out",
    "alternatives3": "≥ 3 answers",
    "share_not_minimal": "not minimal",
    "gnn_evaluations": "GNN evals",
    "gnn_gradients": "GNN gradients",
    "cpu_seconds": "CPU s",
    "train_seconds": "train s",
}

_CLASS_COLUMNS = {
    "method": "method",
    "confidence": "confidence",
    "paper_confidence": "paper",
    "possible_confidence": "possible",
    "density": "density",
    "density_heldout": "held-out",
    "connected": "connected",
    "valence_broken": "valence broken",
    "unique": "unique",
    "effective": "effective",
    "recurrence": "recurs",
    "motif_rate": "motif",
    "motif_rate_random": "random",
    "motif_rate_distinct": "distinct",
    "mmd_heldout": "MMD held-out",
    "mmd_floor": "floor",
    "seconds": "s per 100",
}


def speed_table(measured: section.Table) -> Table:
    table = Table(title=measured.title)
    for place, column in enumerate(measured.columns):
        table.add_column(column, justify="right" if place else "left")
    for row in measured.rows:
        table.add_row(*map(section.format_cell, row))
    return table


def gnn_table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="target GNNs")
    table.add_column("data set")
    for title in (
        *("test accuracy", "paper", "validation", "train", "test", "skipped", "epochs"),
        "seconds",
    ):
        table.add_column(title, justify="right")
    for one in rows:
        keys = ("test_accuracy", "paper_accuracy", "validation_accuracy")
        table.add_row(
            one["dataset"],
            *(_cell(one[key]) for key in keys),
            f"{one['train_count']} {one['counted']}",
            *(str(one[key]) for key in ("test_count", "skipped", "epochs")),
            f"{one['seconds']:.0f}",
        )
    return table


def counterfactual_tables(results: Sequence[tuple[CounterfactualRow, EditDetail]]) -> list[Table]:
    first = results[0][0]
    main = Table(
        title=f"{first.dataset}, {first.n} instances; ceiling {first.ceiling:.3f}, "
        f"MMD floor {first.mmd_floor:.3f}"
    )
    for title in _COUNTERFACTUAL_COLUMNS.values():
        is_name = title == "method"
        main.add_column(title, justify="left" if is_name else "right", no_wrap=is_name)
    more = Table(title="details of the same answers")
    more.add_column("method", no_wrap=True)
    for title in (
        *("of ceiling", "flips ≤ .05", "≤ .1", "added : removed", "connected", "before"),
        *("answers", "MMD to input", "degree", "clustering", "spectrum"),
    ):
        more.add_column(title, justify="right")
    for one, detail in results:
        values = asdict(one)
        main.add_row(*(_cell(values[key]) for key in _COUNTERFACTUAL_COLUMNS))
        parts = detail.mmd
        more.add_row(
            one.method,
            _cell(one.auc_strict / one.ceiling if one.ceiling else None),
            *(_cell(value) for value in (one.flip_rate_005, one.flip_rate_01)),
            f"{detail.added} : {detail.removed}",
            *(_cell(value) for value in (detail.connected, detail.connected_before)),
            *(_cell(value) for value in (one.alternatives, one.mmd_sum)),
            *(
                _cell(value)
                for value in (
                    (parts.degree, parts.clustering, parts.spectrum) if parts else (None,) * 3
                )
            ),
        )
    return [main, more]


def robustness_table(rows: Sequence[RobustnessRow]) -> Table:
    """One line per method, one column per noise level."""
    first = rows[0]
    table = Table(
        title=f"{first.dataset}, {first.n} held-out graphs: Top-{first.k} accuracy by noise"
    )
    table.add_column("method", no_wrap=True)
    noises = list(dict.fromkeys(row.noise for row in rows))
    for title in (*(f"{noise:.0%}" for noise in noises), "flips"):
        table.add_column(title, justify="right")
    for method in dict.fromkeys(row.method for row in rows):
        own = [row for row in rows if row.method == method]
        flips = sum(row.flips for row in own) / len(own)
        table.add_row(method, *(_cell(row.top_k_accuracy) for row in own), _cell(flips))
    kept = [row.kept for row in rows if row.method == first.method]
    table.add_row("unchanged class", *map(_cell, kept), "")
    return table


def class_tables(rows: Sequence[ClassRow]) -> list[Table]:
    """One table per data set, class and size."""
    tables: dict[tuple[str, int, int], Table] = {}
    for one in rows:
        about = (one.dataset, one.label, one.nodes)
        if about not in tables:
            title = f"{one.dataset}, class {one.label}, {one.nodes} nodes"
            tables[about] = Table(title=title)
            for name in _CLASS_COLUMNS.values():
                is_name = name == "method"
                tables[about].add_column(
                    name, justify="left" if is_name else "right", no_wrap=is_name
                )
        values = asdict(one)
        if one.k is not None:
            values["method"] = f"{one.method} K={one.k} T={one.t}"
        tables[about].add_row(*(_cell(values[key]) for key in _CLASS_COLUMNS))
    return list(tables.values())


def _cell(value: str | float | None) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3f}"
