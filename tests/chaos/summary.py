"""A run in one line: its faults, its broken promises and the digest of its history."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

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

RUNS = Path(__file__).with_name("runs.jsonl")  # of the runs in docs/reliability.md
_STRIKES = {FaultKind.KILL_CHILD, FaultKind.KILL_WORKER, FaultKind.STOP_WORKER}


class Summary(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    run: Run
    history_sha256: str
    seconds: float
    accepted: int
    jobs: int
    answers: int
    reads: int
    faults: dict[FaultKind, int]
    broken: list[Violation]
    recoveries: list[float]  # seconds, with an idle worker

    def count(self, *kinds: FaultKind) -> int:
        return sum(self.faults.get(kind, 0) for kind in kinds)


def summaries_in(path: Path) -> list[Summary]:
    """The summary of a history, or all those that a file contains."""
    with path.open("rb") as file:
        first = file.readline()
    if b'"history_sha256"' in first:
        return [Summary.model_validate_json(line) for line in path.read_text().splitlines()]
    return [summary_of(read_history(path), hashlib.sha256(path.read_bytes()).hexdigest())]


def summary_of(history: History, sha256: str) -> Summary:
    counts = Counter(type(record) for record in history)
    first = history[0]
    if not isinstance(first, Run):
        raise ValueError("a history begins with its run")
    return Summary(
        run=first,
        history_sha256=sha256,
        seconds=round(history[-1].at, 1),
        accepted=len({one.job for one in history if isinstance(one, Answer) and one.job}),
        jobs=counts[Ended],
        answers=counts[Answer],
        reads=counts[Read],
        faults=dict(fault_counts(history)),
        broken=judge(history),
        recoveries=[record.seconds for record in history if isinstance(record, Recovery)],
    )


def fault_counts(history: History) -> Counter[FaultKind]:
    """How often each fault happened; strikes count only if the worker was working."""
    faults = [record for record in history if isinstance(record, Fault)]
    return Counter(
        fault.what for fault in faults if fault.was_working or fault.what not in _STRIKES
    )


def total_faults(summaries: Sequence[Summary]) -> Counter[FaultKind]:
    return sum((Counter(summary.faults) for summary in summaries), Counter[FaultKind]())
