"""Judges histories and sums them up."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.history import (
    Answer,
    Ended,
    Fault,
    FaultKind,
    History,
    Read,
    Recovery,
    Run,
    read_history,
)
from tests.chaos.judge import Violation, judge

_SHOWN = 20  # violations of one history
_STRIKES = {FaultKind.KILL_CHILD, FaultKind.KILL_WORKER, FaultKind.STOP_WORKER}


def report_lines(paths: Sequence[Path]) -> tuple[list[str], bool]:
    """The text about these histories, and whether they keep all promises."""
    lines, broken = [], 0
    for path in paths:
        history = read_history(path)
        violations = judge(history)
        broken += len(violations)
        lines += [f"{path}: {_summary(history)}", *_violation_lines(violations)]
    lines.append(f"{len(paths)} histories, {broken} broken promises")
    return lines, broken == 0


def fault_counts(history: History) -> Counter[FaultKind]:
    """How often each fault happened; strikes count only if the worker was working."""
    faults = [record for record in history if isinstance(record, Fault)]
    return Counter(
        fault.what for fault in faults if fault.was_working or fault.what not in _STRIKES
    )


def _summary(history: History) -> str:
    counts = Counter(type(record) for record in history)
    ended = [record for record in history if isinstance(record, Ended)]
    accepted = {
        record.job for record in history if isinstance(record, Answer) and record.job is not None
    }
    waits = [record.seconds for record in history if isinstance(record, Recovery)]
    recovery = (
        f"recovery of an idle system {statistics.median(waits):.1f} s (max {max(waits):.1f} s)"
        if waits
        else "no recovery measured"
    )
    faults = ", ".join(f"{count} x {kind}" for kind, count in fault_counts(history).items())
    run = next((record for record in history if isinstance(record, Run)), None)
    head = f"{run.database}, seed {run.seed}, {run.date}, {run.commit}, " if run else ""
    return (
        f"{head}{len(accepted)} accepted, {len(ended)} jobs, {counts[Answer]} answers, "
        f"{counts[Read]} reads, {history[-1].at:.0f} s; {faults}; {recovery}"
    )


def _violation_lines(violations: Sequence[Violation]) -> list[str]:
    shown = [f"  {one.broken}: {one.subject}: {one.detail}" for one in violations[:_SHOWN]]
    left = len(violations) - len(shown)
    return [*shown, f"  and {left} more"] if left else shown
