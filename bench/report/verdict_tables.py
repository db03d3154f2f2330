"""Verdicts as Markdown tables, with one column that marks those reached post hoc."""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.markdown import table
from bench.report.missed_targets import is_post_hoc
from bench.report.targets.verdict import TargetKey, Verdict

_WORDS = {True: "reached", False: "**missed**", None: "undecided"}


def verdict_table(verdicts: Sequence[Verdict], missed: set[TargetKey]) -> str:
    """One line per data set and target; the cases of class explanations share a line."""
    grouped: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        grouped.setdefault((verdict.dataset, verdict.target), []).append(verdict)
    lines = [
        _line(group[0], missed) if not group[0].case else _case_line(group, missed)
        for group in grouped.values()
    ]
    subject = "benchmark" if verdicts[0].command == "speed" else "data set"
    columns = {
        "dataset": subject,
        "target": "target",
        "figures": "missed cases" if verdicts[0].case else "figures",
        "verdict": "verdict",
        "post_hoc": "post hoc",
    }
    return table(lines, columns)


def _line(verdict: Verdict, missed: set[TargetKey]) -> dict[str, str]:
    return {
        "dataset": verdict.dataset,
        "target": verdict.target,
        "figures": "; ".join(filter(None, (verdict.figures, verdict.remark))),
        "verdict": _WORDS[verdict.reached],
        "post_hoc": "post hoc" if is_post_hoc(verdict, missed) else "",
    }


def _case_line(verdicts: Sequence[Verdict], missed: set[TargetKey]) -> dict[str, str]:
    reached = [verdict for verdict in verdicts if verdict.reached]
    failed = [verdict for verdict in verdicts if verdict.reached is False]
    post_hoc = [verdict.case for verdict in verdicts if is_post_hoc(verdict, missed)]
    return {
        "dataset": verdicts[0].dataset,
        "target": verdicts[0].target,
        "figures": "; ".join(f"{verdict.case}: {verdict.figures}" for verdict in failed) or "-",
        "verdict": f"{len(reached)} of {len(verdicts)} reached",
        "post_hoc": f"post hoc: {'; '.join(post_hoc)}" if post_hoc else "",
    }
