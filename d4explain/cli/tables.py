"""Explanations as tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from d4explain.contracts.results import (
    ClassResult,
    Counterfactual,
    CounterfactualAnswer,
    CounterfactualResult,
    Edit,
    Mmd,
    Prediction,
    ProbeReport,
)

EDITS_SHOWN = 8
QUANTILES = ("0.05", "0.5", "0.95")


def probe_table(report: ProbeReport) -> Table:
    table = Table("", "check", "found", box=None, pad_edge=False)
    for check in report.checks:
        sign = "[green]✓" if check.passed else "[red]✗"
        table.add_row(sign, escape(check.name), escape(check.detail))
    return table


def counterfactual_table(
    result: CounterfactualResult, class_names: Sequence[str] | None = None
) -> Table:
    """One row per graph or node: its best counterfactual, or why there is none."""
    table = _table("Counterfactuals (+ edge added, - edge removed)")
    about = "node" if any(answer.node for answer in result.answers) else "graph"
    for name in (about, "edges"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("class", no_wrap=True)
    table.add_column("edits", ratio=1)
    for name in ("ratio", "confidence"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("found by", no_wrap=True)
    for position, answer in enumerate(result.answers):
        subject = escape(str(answer.node.id)) if answer.node else str(position)
        table.add_row(subject, str(len(answer.graph.edges)), *_best(answer, class_names))
    return table


def _best(answer: CounterfactualAnswer, class_names: Sequence[str] | None) -> tuple[str, ...]:
    before = _class(answer.prediction, class_names)
    if not answer.counterfactuals:
        return (before, f"[yellow]none: {escape(answer.reason or '')}", "", "", "")
    best = answer.counterfactuals[0]
    return (
        f"{before} → {_class(best.prediction, class_names)}",
        _edits(best),
        number(best.modification_ratio),
        number(best.confidence),
        best.found_by,
    )


def _class(prediction: Prediction, class_names: Sequence[str] | None) -> str:
    number_of_class = prediction.predicted_class
    return escape(class_names[number_of_class]) if class_names else str(number_of_class)


def _edits(found: Counterfactual) -> str:
    more = len(found.edits) - EDITS_SHOWN
    rest = f" … {more} more" if more > 0 else ""
    return edit_words(found.edits[:EDITS_SHOWN]) + rest


def summary_lines(result: CounterfactualResult) -> list[str]:
    summary = result.summary
    what = "nodes" if any(answer.node for answer in result.answers) else "graphs"
    return [
        f"flipped {summary.found_count} of {summary.graph_count} {what} ({summary.flip_rate:.0%}); "
        f"mean edits {number(summary.mean_edits, '.1f')}, "
        f"ratio {number(summary.mean_modification_ratio)}, "
        f"fidelity {number(summary.mean_fidelity)}, "
        f"confidence {number(summary.mean_confidence)}",
        f"edits put forward by the denoiser {summary.edits_by_denoiser}, "
        f"found by trying all pairs {summary.edits_by_search}",
    ]


def class_table(results: Sequence[ClassResult], class_names: Sequence[str] | None = None) -> Table:
    """One row per class: its most typical example, and how close all are to the reference."""
    table = _table("Class explanations")
    table.add_column("class")
    for name in ("share", "confidence", "nodes", "edges", "connected", "MMD", "null 95 %"):
        table.add_column(name, justify="right")
    for result in results:
        target = class_names[result.target_class] if class_names else str(result.target_class)
        if not result.examples:
            table.add_row(target, "[yellow]no example was found")
            continue
        best = result.examples[0]
        table.add_row(
            target,
            number(best.share, ".1%"),
            number(best.confidence, ".3f"),
            str(len(best.graph.nodes)),
            str(len(best.graph.edges)),
            "yes" if best.connected else "no",
            number(result.mmd.sum if result.mmd else None, ".3f"),
            number(result.mmd.null_quantiles.get("0.95") if result.mmd else None, ".3f"),
        )
    return table


def mmd_table(mmd: Mmd) -> Table:
    """The distance to the reference set beside what the reference has to itself."""
    table = _table(f"MMD of {mmd.graph_count} graphs to the reference set of {mmd.reference_count}")
    for name in ("degree", "clustering", "spectrum", "sum"):
        table.add_column(name, justify="right")
    quantiles = {name: mmd.null_quantiles[name] for name in QUANTILES if name in mmd.null_quantiles}
    for name in quantiles:
        table.add_column(f"null {float(name):.0%}", justify="right")
    table.add_column("p", justify="right")
    figures = [mmd.degree, mmd.clustering, mmd.spectrum, mmd.sum, *quantiles.values()]
    table.add_row(*(f"{figure:.3f}" for figure in figures), f"{mmd.p_value:.2f}")
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)


def edit_words(edits: Sequence[Edit]) -> str:
    """+a:b for an added edge, -a:b for a removed one."""
    signs = {"add": "[green]+", "remove": "[red]-"}
    return " ".join(
        f"{signs[edit.action]}{escape(f'{edit.source}:{edit.target}')}[/]" for edit in edits
    )


def number(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else format(value, form)
