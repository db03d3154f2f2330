"""Explanations as tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from d4explain.terminal import edit_words, number
from store.results import (
    ClassResult,
    Counterfactual,
    CounterfactualAnswer,
    CounterfactualResult,
    Mmd,
    ProbeReport,
)

EDITS_SHOWN = 8


def probe_table(report: ProbeReport) -> Table:
    table = Table("", "check", "found", box=None, title="Probe of the GNN", title_justify="left")
    for check in report.checks:
        table.add_row("[green]✓" if check.passed else "[red]✗", check.name, check.detail)
    return table


def counterfactual_table(result: CounterfactualResult) -> Table:
    """One row per graph: its best counterfactual, or why there is none."""
    table = Table(title="Counterfactuals", title_justify="left")
    for name in ("graph", "nodes", "edges"):
        table.add_column(name, justify="right")
    table.add_column("class")
    table.add_column("edits (+ added, - removed)")
    for name in ("ratio", "confidence", "likelihood"):
        table.add_column(name, justify="right")
    table.add_column("found by")
    for position, answer in enumerate(result.answers):
        size = (str(position), str(len(answer.graph.nodes)), str(len(answer.graph.edges)))
        table.add_row(*size, *_best(answer))
    return table


def _best(answer: CounterfactualAnswer) -> tuple[str, ...]:
    before = answer.prediction.predicted_class
    if not answer.counterfactuals:
        return (str(before), f"[yellow]none: {answer.reason}", "", "", "", "")
    best = answer.counterfactuals[0]
    return (
        f"{before} → {best.prediction.predicted_class}",
        _edits(best),
        number(best.modification_ratio),
        number(best.confidence),
        number(best.denoiser_likelihood),
        best.found_by,
    )


def _edits(found: Counterfactual) -> str:
    more = len(found.edits) - EDITS_SHOWN
    rest = f" … {more} more" if more > 0 else ""
    return edit_words(found.edits[:EDITS_SHOWN]) + rest


def summary_lines(result: CounterfactualResult) -> list[str]:
    summary = result.summary
    return [
        f"flipped {summary.found} of {summary.graphs} graphs ({summary.flip_rate:.0%}); "
        f"mean edits {number(summary.mean_edits, '.1f')}, "
        f"ratio {number(summary.mean_modification_ratio)}, "
        f"fidelity {number(summary.mean_fidelity)}, "
        f"confidence {number(summary.mean_confidence)}",
        f"edits proposed by the denoiser {summary.edits_by_denoiser}, "
        f"found by search {summary.edits_by_search}",
    ]


def mmd_line(mmd: Mmd) -> str:
    null = ", ".join(f"{quantile}: {value:.3f}" for quantile, value in mmd.null_quantiles.items())
    return (
        f"MMD to the reference set: degree {mmd.degree:.3f}, clustering {mmd.clustering:.3f}, "
        f"spectrum {mmd.spectrum:.3f}, sum {mmd.sum:.3f} "
        f"({mmd.n} graphs; the reference's own sums, by quantile: {null}; p = {mmd.p_value:.2f})"
    )


def class_table(results: Sequence[ClassResult]) -> Table:
    """One row per class: its best example, and how close all examples are to the reference."""
    table = Table(title="Class explanations", title_justify="left")
    for name in ("class", "confidence", "nodes", "edges", "density"):
        table.add_column(name, justify="right")
    table.add_column("connected")
    for name in ("likelihood", "MMD sum", "null 95 %", "seconds"):
        table.add_column(name, justify="right")
    for result in results:
        target = str(result.target_class)
        if not result.examples:
            table.add_row(target, "[yellow]no example was found")
            continue
        best = result.examples[0]
        table.add_row(
            target,
            number(best.confidence, ".3f"),
            str(len(best.graph.nodes)),
            str(len(best.graph.edges)),
            number(best.density),
            "yes" if best.connected else "no",
            number(best.denoiser_likelihood),
            number(result.mmd.sum if result.mmd else None, ".3f"),
            number(result.mmd.null_quantiles.get("0.95") if result.mmd else None, ".3f"),
            number(result.timings.explain_seconds, ".1f"),
        )
    return table


def mmd_table(mmd: Mmd) -> Table:
    """The distance to the reference set beside what the reference has to itself."""
    table = Table(title="MMD to the reference set", title_justify="left")
    for name in ("degree", "clustering", "spectrum", "sum"):
        table.add_column(name, justify="right")
    for quantile in mmd.null_quantiles:
        table.add_column(f"null {float(quantile):.0%}", justify="right")
    table.add_column("p", justify="right")
    figures = [mmd.degree, mmd.clustering, mmd.spectrum, mmd.sum, *mmd.null_quantiles.values()]
    table.add_row(*(f"{figure:.4f}" for figure in figures), f"{mmd.p_value:.2f}")
    return table
