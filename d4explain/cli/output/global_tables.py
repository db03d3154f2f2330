"""Tables of global counterfactuals."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from d4explain.cli.output.result_tables import format_number, plain_table
from d4explain.cli.output.terminal import output
from d4explain.contracts.global_counterfactuals.results import GlobalResult
from d4explain.contracts.global_counterfactuals.words import rule_words, type_names

MAX_RULES_SHOWN = 8


def show_global(result: GlobalResult, class_names: Sequence[str] | None) -> None:
    console = output()
    source = _class_name(result.source_class, class_names)
    if result.reason is not None:
        console.print(f"[yellow]{escape(result.reason)}", soft_wrap=True)
    else:
        console.print(counterfactuals_table(result, class_names))
        console.print(curves_table(result))
        console.print(rules_table(result))
    console.print(
        f"{result.covered_count:,} of the {result.source_count:,} graphs that the GNN calls "
        f"{source} ({format_number(result.coverage, '.1%')}) are within theta {result.theta:g} of "
        f"one of them; mean edits {format_number(result.mean_cost, '.1f')}",
        soft_wrap=True,
    )
    for warning in result.warnings:
        console.print(f"[yellow]{escape(warning)}", soft_wrap=True)


def counterfactuals_table(result: GlobalResult, class_names: Sequence[str] | None) -> Table:
    table = plain_table("Global counterfactuals, in the order in which they were chosen")
    table.add_column("number", justify="right")
    table.add_column("class")
    for name in ("probability", "nodes", "edges", "near", "adds"):
        table.add_column(name, justify="right")
    for number, one in enumerate(result.counterfactuals):
        predicted = one.prediction.predicted_class
        table.add_row(
            str(number),
            _class_name(predicted, class_names),
            format_number(one.prediction.probabilities[predicted]),
            str(len(one.graph.nodes)),
            str(len(one.graph.edges)),
            format_number(one.covered_share, ".1%"),
            format_number(one.added_share, ".1%"),
        )
    return table


def curves_table(result: GlobalResult) -> Table:
    table = plain_table("Coverage by theta")
    for name in ("theta", "coverage", "mean edits"):
        table.add_column(name, justify="right")
    for curve in result.curves:
        table.add_row(
            f"{curve.theta:g}",
            format_number(curve.coverage[-1], ".1%"),
            format_number(curve.mean_cost[-1], ".1f"),
        )
    return table


def rules_table(result: GlobalResult) -> Table:
    table = plain_table("Edits that recur in the covered graphs")
    table.add_column("edit")
    for name in ("graphs", "share"):
        table.add_column(name, justify="right")
    names = type_names(result)
    for rule in result.rules[:MAX_RULES_SHOWN]:
        words = escape(rule_words(rule, names))
        table.add_row(words, str(rule.path_count), format_number(rule.share, ".0%"))
    return table


def _class_name(number: int, class_names: Sequence[str] | None) -> str:
    return escape(class_names[number]) if class_names else str(number)
