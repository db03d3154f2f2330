"""Results as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from bench.classes.figures import ClassRow
from bench.counterfactuals.c2st import Distinguishability
from bench.counterfactuals.figures import CounterfactualRow, EditDetail
from bench.counterfactuals.paired import PairedAuc
from bench.robustness.comparison import RobustnessRow
from bench.speed import section

_COUNTERFACTUAL_COLUMNS = {
    "method": "method",
    "auc_strict": "AUC strict",
    "auc_one_edit": "AUC one-edit",
    "fidelity_auc": "fidelity AUC of flips",
    "mean_edits": "edits",
    "mean_ratio": "ratio",
    "flip_rate": "flips ≤ 0.3",
    "mmd_heldout": "MMD held-out",
    "alternatives3": "≥ 3 alternatives",
    "share_not_minimal": "not minimal",
    "gnn_evaluations": "GNN evaluations",
    "gnn_gradients": "GNN gradients",
    "cpu_seconds": "CPU s",
    "train_seconds": "training s",
}

_CLASS_COLUMNS = {
    "method": "method",
    "seeds": "seeds",
    "n": "answers",
    "motif": "shows the class",
    "class_support": "in class",
    "other_support": "elsewhere",
    "contrast": "contrast",
    "effect": "effect",
    "confidence": "confidence",
    "confidence_alone": "alone",
    "paper_confidence": "alone, paper",
    "density": "density",
    "paper_density": "density, paper",
    "from_denoiser": "by a chain",
    "seconds": "CPU s",
}

GLOBAL_COLUMNS = {
    "dataset": "data set",
    "source_class": "class",
    "test_accuracy": "GNN test accuracy",
    "asked": "graphs of the class",
    "too_large": "too large",
    "count": "counterfactuals",
    "radius": "radius",
    "coverage": "coverage",
    "gcf": "GCFExplainer",
    "first": "coverage of the first",
    "median_distance": "median distance",
    "mean_cost": "mean edits of covered",
    "cpu_seconds": "CPU s",
    "evaluations": "GNN evaluations",
}
_TYPICALITY_COLUMNS = {
    "calibration": "calibration",
    "ranked": "third part",
    "uniform_splits": "uniform splits",
    "splits": "of",
    "uniform_share": "further",
    "median_p": "median p",
    "smallest_p": "smallest p",
    "auc_1": "AUC 1 %",
    "auc_2": "2 %",
    "auc_10": "10 %",
    "low": "low, unedited",
    "detected_1": "low, 1 %",
    "detected_2": "2 %",
    "detected_10": "10 %",
}


def speed_table(result: section.Table) -> Table:
    table = Table(title=result.title)
    for position, column in enumerate(result.columns):
        table.add_column(column, justify="right" if position else "left")
    for row in result.rows:
        table.add_row(*map(section.format_cell, row))
    return table


def gnn_table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="Target GNNs")
    table.add_column("data set")
    for title in (
        *("test accuracy", "paper", "validation", "train", "test", "skipped", "epochs"),
        "seconds",
    ):
        table.add_column(title, justify="right")
    for row in rows:
        accuracies = ("test_accuracy", "paper_accuracy", "validation_accuracy")
        table.add_row(
            row["dataset"],
            *(_cell(row[key]) for key in accuracies),
            f"{row['train_count']} {row['counted']}",
            *(str(row[key]) for key in ("test_count", "skipped", "epochs")),
            f"{row['seconds']:.0f}",
        )
    return table


def counterfactual_tables(results: Sequence[tuple[CounterfactualRow, EditDetail]]) -> list[Table]:
    first = results[0][0]
    main = Table(
        title=f"{first.dataset}, {first.n} instances; ceiling {first.ceiling:.3f}, "
        f"MMD floor {first.mmd_floor:.3f}"
    )
    _add_columns(main, _COUNTERFACTUAL_COLUMNS.values())
    details = Table(title="Details of the same answers")
    details.add_column("method", no_wrap=True)
    for title in (
        *("AUC / ceiling", "flips ≤ 0.05", "≤ 0.1", "added : removed"),
        *("connected", "connected before", "alternatives", "MMD to input"),
        *("MMD degree", "MMD clustering", "MMD spectrum"),
    ):
        details.add_column(title, justify="right")
    for row, detail in results:
        values = asdict(row)
        main.add_row(*(_cell(values[key]) for key in _COUNTERFACTUAL_COLUMNS))
        mmd = detail.mmd
        details.add_row(
            row.method,
            _cell(row.auc_strict / row.ceiling if row.ceiling else None),
            *map(_cell, (row.flip_rate_005, row.flip_rate_01)),
            f"{detail.added} : {detail.removed}",
            *map(_cell, (detail.connected, detail.connected_before)),
            *map(_cell, (row.alternatives, row.mmd_sum)),
            *map(_cell, (mmd.degree, mmd.clustering, mmd.spectrum) if mmd else (None,) * 3),
        )
    return [main, details]


def believability_table(
    rows: Sequence[dict[str, Any]], untouched: Distinguishability | None
) -> Table:
    """NA, NAFR and C2ST of each method, with their intervals; untouched graphs as control."""
    table = Table(title="Believability of the first answers, with 95 % intervals")
    titles = ("NA", "NAFR", "flips ≤ 0.3", "edits", "ratio", "C2ST", "instances", "unseen", "CPU s")
    _add_columns(table, ["method", *titles])
    for row in rows:
        table.add_row(
            row["method"],
            *(_interval(row[key], row[f"{key}_low"], row[f"{key}_high"]) for key in ("na", "nafr")),
            *(_cell(row[key]) for key in ("flip_rate", "mean_edits", "mean_ratio")),
            _interval(row["c2st"], row["c2st_low"], row["c2st_high"]),
            "-" if row["c2st_n"] is None else str(row["c2st_n"]),
            f"{row['unseen_answers']} of {row['answers']}",
            _cell(row["cpu_seconds"]),
        )
    if untouched is not None:
        figures = _interval(untouched.auc, untouched.low, untouched.high)
        table.add_row("untouched", *["-"] * 5, figures, *["-"] * 3)
    return table


def paired_table(rows: Sequence[PairedAuc]) -> Table:
    table = Table(title="Strict AUC, with the 95 % interval of the paired change")
    _add_columns(table, ["method", "instances", "before", "after", "change"])
    for row in rows:
        change = f"{row.change:+.4f} ({row.low:+.4f} to {row.high:+.4f})"
        table.add_row(
            row.method, str(row.instances), f"{row.before:.4f}", f"{row.after:.4f}", change
        )
    return table


def judge_table(judges: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="Judges of NA and NAFR")
    table.add_column("architecture")
    for title in ("validation accuracy", "agreement with the GNN"):
        table.add_column(title, justify="right")
    for judge in judges:
        figures = (judge["validation_accuracy"], judge["agreement"])
        table.add_row(judge["architecture"], *map(_cell, figures))
    return table


def paper_table(rows: Sequence[dict[str, Any]]) -> Table:
    first = rows[0]
    table = Table(
        title=f"{first['dataset']}: {first['steps']} steps, {first['epochs']:.1f} epochs, "
        f"{first['cpu_seconds']:.0f} CPU s, {first['n']} instances"
    )
    keys = ("sampling", "auc_strict", "auc_one_edit", "ceiling", "flip_rate", "mean_edits")
    _add_columns(table, (*keys, "loss_dist", "loss_cf", "training_flip_rate", "explain_seconds"))
    for row in rows:
        table.add_row(*(_cell(row[str(column.header)]) for column in table.columns))
    return table


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
        method_rows = [row for row in rows if row.method == method]
        flips = sum(row.flips for row in method_rows) / len(method_rows)
        table.add_row(method, *(_cell(row.top_k_accuracy) for row in method_rows), _cell(flips))
    unchanged = [row.kept for row in rows if row.method == first.method]
    table.add_row("share with unchanged class", *map(_cell, unchanged), "")
    return table


def global_table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="Graphs of a class near to one of a few counterfactuals")
    measured = [name for name in GLOBAL_COLUMNS if name not in {"gcf", "first"}]
    for name in measured:
        table.add_column(GLOBAL_COLUMNS[name], justify="right")
    for row in rows:
        table.add_row(*(_cell(row[name]) for name in measured))
    return table


def typicality_table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="Typicality of unseen graphs and of graphs with random edits")
    table.add_column("data set")
    for title in _TYPICALITY_COLUMNS.values():
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(row["dataset"], *(_cell(row[key]) for key in _TYPICALITY_COLUMNS))
    return table


def class_tables(rows: Sequence[ClassRow]) -> list[Table]:
    """One table per data set, class and size."""
    tables: dict[tuple[str, int, int | None], Table] = {}
    for row in rows:
        case = (row.dataset, row.label, row.nodes)
        if case not in tables:
            size = "size chosen" if row.nodes is None else f"{row.nodes} nodes"
            tables[case] = Table(title=f"{row.dataset}, class {row.label}, {size}")
            _add_columns(tables[case], _CLASS_COLUMNS.values())
        values = asdict(row)
        if row.k is not None:
            values["method"] = f"{row.method} K={row.k} T={row.t}"
        tables[case].add_row(*(_cell(values[key]) for key in _CLASS_COLUMNS))
    return list(tables.values())


def _add_columns(table: Table, titles: Iterable[str]) -> None:
    for title in titles:
        is_name = title == "method"
        table.add_column(title, justify="left" if is_name else "right", no_wrap=is_name)


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return "-"
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def _cell(value: str | float | None) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "-"
    is_count = isinstance(value, int) or value >= 100
    return f"{value:.0f}" if is_count else f"{value:.3f}"
