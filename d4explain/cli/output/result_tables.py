"""Tables and summaries of results."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from d4explain.contracts.counterfactual_results import (
    Counterfactual,
    CounterfactualAnswer,
    CounterfactualResult,
)
from d4explain.contracts.job_states import Stage
from d4explain.contracts.probe_reports import ProbeReport
from d4explain.contracts.results import ClassResult, Edit, Mmd, Prediction, Typicality

MAX_EDITS_SHOWN = 8
MIN_EDITS_WIDTH = 16  # columns, in narrow terminals
NULL_QUANTILES = ("0.05", "0.5", "0.95")


def probe_table(report: ProbeReport) -> Table:
    table = Table("", "check", "result", box=None, pad_edge=False)
    for check in report.checks:
        symbol = "[green]✓" if check.passed else "[red]✗"
        table.add_row(symbol, escape(check.name), escape(check.detail))
    for warning in report.warnings:
        name, _, detail = warning.partition(": ")
        table.add_row("[yellow]!", escape(name), escape(detail))
    return table


def counterfactual_table(
    result: CounterfactualResult, class_names: Sequence[str] | None = None
) -> Table:
    """One row per graph or node: its best counterfactual, or none."""
    what = "Counterfactuals" if result.stage is Stage.FINAL else "Provisional counterfactuals"
    table = plain_table(f"{what} (+ edge added, - edge removed)")
    subject = "node" if any(answer.node for answer in result.answers) else "graph"
    table.add_column(subject, justify="right", no_wrap=True)
    table.add_column("class", overflow="fold")
    table.add_column("edits", min_width=MIN_EDITS_WIDTH, overflow="fold")
    has_typicality = any(
        best.typicality for answer in result.answers for best in answer.counterfactuals[:1]
    )
    for name in ("ratio", "confidence", *(["typicality"] if has_typicality else [])):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for position, answer in enumerate(result.answers):
        original = _class_name(answer.prediction, class_names)
        if not answer.counterfactuals:
            table.add_row(_subject(answer, position), original, "[yellow]none")
            continue
        best = answer.counterfactuals[0]
        table.add_row(
            _subject(answer, position),
            f"{original} → {_class_name(best.prediction, class_names)}",
            _edits(best),
            format_number(best.modification_ratio),
            format_number(best.confidence),
            *([_typicality(best.typicality)] if has_typicality else []),
            best.verdict,
        )
    return table


def reason_lines(result: CounterfactualResult) -> list[str]:
    """Why there is no counterfactual of a graph, and its smallest flip if there is one."""
    lines = []
    for position, answer in enumerate(result.answers):
        if not answer.counterfactuals:
            subject = f"{'node' if answer.node else 'graph'} {_subject(answer, position)}"
            lines.append(f"[yellow]{subject}: {escape(answer.reason or 'no counterfactual')}[/]")
            lines += [
                f"{subject}, the smallest flip ({flip.verdict}): {_edits(flip)}"
                for flip in answer.minimal[:1]
            ]
    return lines


def _subject(answer: CounterfactualAnswer, position: int) -> str:
    return escape(str(answer.node.id)) if answer.node else str(position)


def _typicality(typicality: Typicality | None) -> str:
    if typicality is None:
        return "-"
    number = format_number(typicality.value)
    return f"[yellow]{number} low" if typicality.low else number


def _class_name(prediction: Prediction, class_names: Sequence[str] | None) -> str:
    index = prediction.predicted_class
    return escape(class_names[index]) if class_names else str(index)


def _edits(counterfactual: Counterfactual) -> str:
    hidden = len(counterfactual.edits) - MAX_EDITS_SHOWN
    suffix = f" … {hidden} more" if hidden > 0 else ""
    return format_edits(counterfactual.edits[:MAX_EDITS_SHOWN]) + suffix


def stage_lines(result: CounterfactualResult | ClassResult) -> list[str]:
    """Says that an answer is provisional and what the final one will add."""
    if result.stage is Stage.FINAL:
        return []
    return [
        "[yellow]This answer is provisional: it was found before any training.",
        *(f"[yellow]The final answer will add {escape(what)}." for what in result.final_adds),
    ]


def summary_lines(result: CounterfactualResult) -> list[str]:
    summary = result.summary
    subjects = "nodes" if any(answer.node for answer in result.answers) else "graphs"
    asked = summary.graph_count - summary.already_count
    already = f"{summary.already_count} had the class already; " if summary.already_count else ""
    return [
        f"flipped {summary.found_count} of {asked} {subjects} "
        f"({format_number(summary.flip_rate, '.0%')}); {already}"
        f"mean edits {format_number(summary.mean_edits, '.1f')}, "
        f"ratio {format_number(summary.mean_modification_ratio)}, "
        f"fidelity {format_number(summary.mean_fidelity)}, "
        f"confidence {format_number(summary.mean_confidence)}",
        f"edits proposed by the denoiser {summary.edits_by_denoiser}, "
        f"found by the search {summary.edits_by_search}",
        *_verdict_lines(result),
    ]


def _verdict_lines(result: CounterfactualResult) -> list[str]:
    summary = result.summary
    if not summary.verdicts:  # a result of an earlier version
        return []
    if result.unjudged_reason is not None:
        return [f"nothing was judged: {escape(result.unjudged_reason)}"]
    counts = ", ".join(f"{verdict} {count}" for verdict, count in summary.verdicts.items())
    return [f"verdicts of other networks: {counts}"]


def class_table(results: Sequence[ClassResult], class_names: Sequence[str] | None = None) -> Table:
    """One row per class: its first pattern, or why there is none."""
    table = plain_table("Class explanations: the first pattern of each class")
    table.add_column("class")
    for name in ("nodes", "edges", "in class", "elsewhere", "effect", "alone", "found by"):
        table.add_column(name, justify="right")
    for result in results:
        target = class_names[result.target_class] if class_names else str(result.target_class)
        if not result.examples:
            table.add_row(escape(target), f"[yellow]none: {escape(result.reason or '')}")
            continue
        best = result.examples[0]
        table.add_row(
            escape(target),
            str(len(best.graph.nodes)),
            str(len(best.graph.edges)),
            format_number(best.support.in_class, ".0%"),
            format_number(best.support.elsewhere, ".0%"),
            format_number(best.effect.mean, "+.1f"),
            format_number(best.confidence_alone),
            ", ".join(best.found_by),
        )
    return table


def mmd_table(mmd: Mmd) -> Table:
    """The MMD to the reference set, next to its null distribution."""
    table = plain_table(
        f"MMD of {mmd.graph_count} graphs to the reference set of {mmd.reference_count}"
    )
    for name in ("degree", "clustering", "spectrum", "sum"):
        table.add_column(name, justify="right")
    quantiles = {
        name: mmd.null_quantiles[name] for name in NULL_QUANTILES if name in mmd.null_quantiles
    }
    for name in quantiles:
        table.add_column(f"null {float(name):.0%}", justify="right")
    table.add_column("p", justify="right")
    values = [mmd.degree, mmd.clustering, mmd.spectrum, mmd.sum, *quantiles.values()]
    table.add_row(*(f"{value:.3f}" for value in values), f"{mmd.p_value:.2f}")
    return table


def plain_table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)


def format_edits(edits: Sequence[Edit]) -> str:
    """+a:b for an added edge, -a:b for a removed one."""
    signs = {"add": "[green]+", "remove": "[red]-"}
    return " ".join(
        f"{signs[edit.action]}{escape(f'{edit.source}:{edit.target}')}[/]" for edit in edits
    )


def format_number(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else format(value, form)
