"""One verdict: whether a target was reached, and the figures that decide it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.report.paper_figures import SETS
from bench.report.results_store import Row

TOLERANCE = 1e-9  # figures that differ by rounding only count as equal
MISSING = "missing"


class TargetKey(NamedTuple):
    """Identifies a target across runs."""

    command: str
    dataset: str
    case: str
    target: str


@dataclass(frozen=True)
class Verdict:
    """One target on one data set, or over several data sets (`dataset` is "all")."""

    command: str
    dataset: str
    target: str
    figures: str
    reached: bool | None  # None if rows are missing
    case: str = ""  # class and size of a class explanation
    remark: str = ""  # the best value that any method could reach

    @property
    def key(self) -> TargetKey:
        return TargetKey(self.command, self.dataset, self.case, self.target)


def format_number(value: float) -> str:
    return f"{value:.3f}"


def format_pair(ours: float, other: float) -> str:
    return f"{format_number(ours)} vs {format_number(other)}"


def compare_rows(
    command: str,
    dataset: str,
    target: str,
    rows: tuple[Row, Row | None],
    key: str,
    *,
    holds: Callable[[float, float], bool],
    case: str = "",
    remark: str = "",
) -> Verdict:
    """Compare one figure of two rows; `holds(ours, other)` decides."""
    ours, other = rows
    our_value, other_value = ours.get(key), None if other is None else other.get(key)
    if our_value is None or other_value is None:
        return Verdict(command, dataset, target, MISSING, None, case)
    return Verdict(
        command,
        dataset,
        target,
        format_pair(our_value, other_value),
        holds(our_value, other_value),
        case,
        remark,
    )


def check_bounds(
    command: str,
    dataset: str,
    target: str,
    value: float | None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    case: str = "",
) -> Verdict:
    """Compare a figure with constant bounds."""
    if value is None:
        return Verdict(command, dataset, target, MISSING, None, case)
    is_high_enough = at_least is None or value >= at_least - TOLERANCE
    is_low_enough = at_most is None or value <= at_most + TOLERANCE
    reached = is_high_enough and is_low_enough
    return Verdict(command, dataset, target, format_number(value), reached, case)


def count_datasets(
    command: str,
    target: str,
    reached_by_dataset: Sequence[bool],
    *,
    required: int,
    total: int = len(SETS),
    remark: str = "",
) -> Verdict:
    """A target that must hold on `required` of `total` data sets.

    Undecided as long as the unmeasured data sets could still make the difference.
    """
    reached_count = sum(reached_by_dataset)
    unmeasured = total - len(reached_by_dataset)
    reached: bool | None = reached_count >= required
    if not reached and reached_count + unmeasured >= required:
        reached = None
    figures = f"{reached_count} of {len(reached_by_dataset)} measured"
    name = f"{target}, on {required} of {total} data sets"
    return Verdict(command, "all", name, figures, reached, remark=remark)


def count_verdicts(verdicts: Iterable[Verdict]) -> str:
    """For example "3 reached, 1 missed, 2 undecided"; omits outcomes that do not occur."""
    outcomes = [verdict.reached for verdict in verdicts]
    words = {True: "reached", False: "missed", None: "undecided"}
    return ", ".join(
        f"{outcomes.count(outcome)} {word}"
        for outcome, word in words.items()
        if outcome in outcomes
    )
