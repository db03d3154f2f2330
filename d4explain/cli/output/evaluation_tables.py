"""Prints the figures of evaluations and what moved between two of them."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from d4explain.cli.output.terminal import messages, output, print_line
from d4explain.contracts.evaluations.results import (
    ComparisonResult,
    EvaluationResult,
    Figure,
    Interval,
)

_ROWS = (
    ("validity", "validity"),
    ("flipped by one edit", "one_edit_share"),
    ("CF-ACC AUC", "cf_acc_auc"),
    ("… of its ceiling", "of_ceiling"),
    ("fidelity AUC", "fidelity_auc"),
    ("edits", "edits"),
    ("modification ratio", "modification_ratio"),
    ("NA", "na"),
    ("NAFR", "nafr"),
    ("brittle share", "brittle_share"),
    ("typicality of the originals", "typicality_before"),
    ("typicality of the answers", "typicality"),
    ("robustness of the originals", "robustness_before"),
    ("robustness of the answers", "robustness"),
    ("stability over seeds", "stability"),
    ("diversity", "diversity"),
    ("GNN evaluations", "gnn_evaluations"),
    ("CPU seconds", "cpu_seconds"),
)


def show_evaluation(result: EvaluationResult) -> None:
    """One column per explainer; figures that nobody measured are left out."""
    accuracy = "" if result.accuracy is None else f", accuracy {_shown(result.accuracy)}"
    print_line(f"{result.instances} instances{accuracy}")
    table = Table("", *(one.explainer for one in result.explainers), box=None)
    for title, name in _ROWS:
        figures = [getattr(one, name) for one in result.explainers]
        if any(figure is not None for figure in figures):
            table.add_row(title, *(_shown(figure) for figure in figures))
    if any(one.mmd is not None for one in result.explainers):
        sums = ["-" if one.mmd is None else f"{one.mmd.sum:.3g}" for one in result.explainers]
        table.add_row("MMD", *sums)
        limits = [
            "-" if one.mmd is None else f"{one.mmd.null_quantiles['0.95']:.3g}"
            for one in result.explainers
        ]
        table.add_row("… of the data, 95 % quantile", *limits)
    output().print(table)
    for warning in result.warnings:
        messages().print(f"warning: {escape(warning)}", style="yellow", soft_wrap=True)


def show_comparison(result: ComparisonResult) -> None:
    noise = (
        f"{result.trainings} trainings" if result.noise == "retraining" else "the instances alone"
    )
    print_line(f"{result.instances} instances; noise: {noise}; alpha {result.alpha:g}")
    table = Table("figure", "expected", "candidate", "effect", "p corrected", "", box=None)
    for moved in result.figures:
        effect = "-" if moved.effect is None else f"{moved.effect:+.2f}"
        verdict = "[red]worse" if moved.worse else "moved" if moved.moved else "[dim]not moved"
        table.add_row(
            moved.figure,
            f"{moved.expected:.4g}",
            f"{moved.candidate:.4g}",
            effect,
            f"{moved.corrected_p_value:.2g}",
            verdict,
        )
    output().print(table)
    for warning in result.warnings:
        messages().print(f"warning: {escape(warning)}", style="yellow", soft_wrap=True)


def _shown(figure: Figure | Interval | None) -> str:
    if figure is None:
        return "-"
    return f"{figure.value:.3g} ({figure.low:.3g} to {figure.high:.3g})"
