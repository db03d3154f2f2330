"""Prints runs and their sum, and writes the table in docs/reliability.md."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.chaos.history import FaultKind
from tests.chaos.judge import Violation
from tests.chaos.summary import Summary, summaries_in, total_faults

PAGE = Path(__file__).parents[2] / "docs/reliability.md"
_TABLE = re.compile(r"(?<=<!-- runs -->\n).*?(?=<!-- end of runs -->)", re.DOTALL)
_SHOWN = 20  # violations of one history
_NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
_HEAD = (
    "| run | accepted | `kill -9` of working workers | broker, of these without file | API, of "
    "these with the leading dispatcher | stopped past the lease | full disk | connection cut after "
    "COMMIT | broken promises | recovery, idle |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|\n"
)
_AIM = "| aim, over five seeds | 1,000 | 100 | 20 | 10 | | | | 0 | at most 8 s |\n"


def report_lines(paths: Sequence[Path]) -> tuple[list[str], bool]:
    """The text about these histories or summaries, and whether they keep all promises."""
    summaries = [one for path in paths for one in summaries_in(path)]
    lines = [line for one in summaries for line in [_line(one), *_violation_lines(one.broken)]]
    broken = sum(len(one.broken) for one in summaries)
    faults = ", ".join(f"{count} x {kind}" for kind, count in total_faults(summaries).items())
    accepted = sum(one.accepted for one in summaries)
    lines.append(f"{len(summaries)} runs, {accepted} accepted, {broken} broken promises; {faults}")
    return lines, broken == 0


def page_with_table(page: str, summaries: Sequence[Summary]) -> str:
    """The page with the table of these runs."""
    table = _HEAD + "".join(_rows(summaries)) + _AIM
    changed, count = _TABLE.subn(lambda _: table, page)
    if count != 1:
        raise ValueError("the page has no place for the table of runs")
    return changed


def _rows(summaries: Sequence[Summary]) -> Iterator[str]:
    for database, name in _NAMES.items():
        found = sorted((s for s in summaries if s.run.database == database), key=_order)
        for one in found:
            run = one.run
            title = f"{name}, seed {run.seed}, {run.jobs:,} jobs, {run.commit}, {run.date[:10]}"
            yield _row(title + (", two programs" if run.has_older_program else ""), [one])
        if found:
            yield _row(f"**{name}, all {len(found)}**", found)


def _order(summary: Summary) -> tuple[int, str]:
    return summary.run.seed, summary.run.date


def _row(title: str, several: Sequence[Summary]) -> str:
    def count(*kinds: FaultKind) -> str:
        return f"{sum(one.count(*kinds) for one in several):,}"

    waits = [seconds for one in several for seconds in one.recoveries]
    recovery = (
        f"median {statistics.median(waits):.1f} s, max {max(waits):.1f} s" if waits else "none"
    )
    cells = [
        title,
        f"{sum(one.accepted for one in several):,}",
        count(FaultKind.KILL_CHILD, FaultKind.KILL_WORKER),
        f"{count(FaultKind.KILL_BROKER, FaultKind.LOSE_BROKER)}, {count(FaultKind.LOSE_BROKER)}",
        f"{count(FaultKind.KILL_API, FaultKind.KILL_DISPATCHER)}, "
        f"{count(FaultKind.KILL_DISPATCHER)}",
        count(FaultKind.STOP_WORKER),
        count(FaultKind.FILL_DISK),
        count(FaultKind.CUT_COMMIT),
        f"{sum(len(one.broken) for one in several)}",
        recovery,
    ]
    return f"| {' | '.join(cells)} |\n"


def _line(one: Summary) -> str:
    waits = one.recoveries
    recovery = (
        f"recovery of an idle system {statistics.median(waits):.1f} s (max {max(waits):.1f} s)"
        if waits
        else "no recovery measured"
    )
    faults = ", ".join(f"{count} x {kind}" for kind, count in one.faults.items())
    run = one.run
    return (
        f"{run.database}, seed {run.seed}, {run.date}, {run.commit}, {one.accepted} accepted, "
        f"{one.jobs} jobs, {one.answers} answers, {one.reads} reads, {one.seconds:.0f} s; "
        f"{faults}; {recovery}"
    )


def _violation_lines(violations: Sequence[Violation]) -> list[str]:
    shown = [f"  {one.broken}: {one.subject}: {one.detail}" for one in violations[:_SHOWN]]
    left = len(violations) - len(shown)
    return [*shown, f"  and {left} more"] if left else shown
