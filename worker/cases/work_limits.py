"""When the search on a case ends early: by the clock, or at the check where it ended before."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from d4explain.contracts.receipts.receipt import Cut

Condition = Callable[[], bool]
# Called with the case and the number of cases left; the limit is called at every check.
Limit = Callable[[int, int], Condition]


def by_clock(started: float, seconds: float | None) -> Limit:
    """Divides the remaining time equally among the remaining cases; None sets no limit."""
    if seconds is None:
        return lambda _case, _left: lambda: False
    end = started + seconds

    def limit(_: int, cases_left: int) -> Condition:
        now = time.monotonic()
        deadline = now + max(0.0, end - now) / cases_left
        return lambda: time.monotonic() >= deadline

    return limit


def as_recorded(cuts: Sequence[Cut]) -> Limit:
    """Ends the same cases at the same checks as a recorded search, whatever the time."""
    checks_of = {cut.case: cut.checks for cut in cuts}

    def limit(case: int, _: int) -> Condition:
        checks_left = checks_of.get(case)

        def is_over() -> bool:
            nonlocal checks_left
            if checks_left is None:
                return False
            checks_left -= 1
            return checks_left <= 0

        return is_over

    return limit


class WorkLimits:
    """Hands out one stop condition per case, and records at which checks they ended a search.

    A search asks its condition after each piece of work, so the number of checks says how much work
    was done, whatever time it took.
    """

    def __init__(self, limit: Limit, should_stop: Condition) -> None:
        self._limit = limit
        self._should_stop = should_stop  # the job was canceled, for example
        self._cases = 0
        self.cuts: list[Cut] = []

    def next_case(self, cases_left: int) -> Condition:
        case = self._cases
        self._cases += 1
        is_over = self._limit(case, cases_left)
        checks, is_cut = 0, False

        def should_stop() -> bool:
            nonlocal checks, is_cut
            if not is_cut:
                checks += 1
                is_cut = is_over()
                if is_cut:
                    self.cuts.append(Cut(case=case, checks=checks))
            return is_cut or self._should_stop()

        return should_stop

    def warnings(self, total: int, unit: str) -> list[str]:
        if not self.cuts:
            return []
        return [f"the time budget ended the search on {len(self.cuts)} of {total} {unit}"]
