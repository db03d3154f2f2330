"""Verdicts as Markdown tables, with one column that marks those reached post hoc."""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.markdown import table
from bench.report.missed_targets import is_post_hoc
from bench.report.targets.verdict import TargetKey, Verdict

_WORDS = {True: "reached", False: "**missed**", None: "undecided"}


def verdict_table(verdicts: Sequence[Verdict], missed: set[TargetKey]) -> str:
    """One line per target and verdict; the cases of class explanations have one per data set."""
    grouped: dict[tuple[str, str, str], list[Verdict]] = {}
    for verdict in verdicts:
        word, post_hoc = _WORDS[verdict.reached], _post_hoc(verdict, missed)
        key = (verdict.target, word, post_hoc)
        if verdict.case:
            key = (verdict.target, verdict.dataset, "")
        grouped.setdefault(key, []).append(verdict)
    order = list(dict.fromkeys(verdict.target for verdict in verdicts))
    groups = sorted(grouped.values(), key=lambda group: order.index(group[0].target))
    lines = [
        _case_line(group, missed) if group[0].case else _line(group, missed) for group in groups
    ]
    has_cases = bool(verdicts[0].case)
    columns = {
        "target": "target",
        "dataset": "data set",
        "figures": "missed cases" if has_cases else "figures",
        "verdict": "verdict",
        "post_hoc": "post hoc",
    }
    return table(lines, columns)


def _post_hoc(verdict: Verdict, missed: set[TargetKey]) -> str:
    return "post hoc" if is_post_hoc(verdict, missed) else ""


def _line(verdicts: Sequence[Verdict], missed: set[TargetKey]) -> dict[str, str]:
    """Data sets with the same verdict on one target."""
    figures = [
        ("" if verdict.dataset == "-" else f"{verdict.dataset}: ")
        + "; ".join(filter(None, (verdict.figures, verdict.remark)))
        for verdict in verdicts
    ]
    return {
        "target": verdicts[0].target,
        "figures": "<br>".join(figures),
        "verdict": _WORDS[verdicts[0].reached],
        "post_hoc": _post_hoc(verdicts[0], missed),
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
