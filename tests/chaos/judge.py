"""Finds broken promises in a history."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeVar

from d4explain.contracts.job_states import JobState
from tests.chaos.history import (
    Answer,
    AnyRecord,
    Claimed,
    Ended,
    Expected,
    Finished,
    History,
    Read,
    Recovery,
    Row,
    Run,
)

RECOVERY_SECONDS = 2.0  # after the end of the lease, with an idle worker
_ALLOWED_REFUSALS = {0, 429, 503, 507}  # no reply, or `Retry-After`

Some = TypeVar("Some", bound=AnyRecord)


class Broken(StrEnum):
    """The promises that a history can break."""

    INCOMPLETE = "the history has no end"
    LOST = "an accepted job does not exist"
    STUCK = "a job did not end"
    ENDED_TWICE = "a job ended more than once"
    DOUBLED = "there are more jobs than requests"
    NEVER_ACCEPTED = "a request was repeated and never accepted"
    SERVER_ERROR = "a request got an unexpected status"
    KEY_CHANGED = "one Idempotency-Key gave two resources"
    WENT_BACKWARDS = "a reader saw the state of a job go backwards"
    NO_RESULT = "a reader saw a success without its result"
    RESULT_CHANGED = "two readers saw different results of a job"
    ATTEMPT_FELL = "the attempt number of a job fell, or an ended job ran again"
    UNKNOWN_FORMAT = "a worker claimed a job of a format that it does not know"
    WRONG_ENDING = "a job ended otherwise than without faults"
    RESULT_DIFFERS = "a result differs from that of the run without faults"
    SLOW_RECOVERY = "a killed job waited too long although a worker was idle"


class Violation(NamedTuple):
    broken: Broken
    subject: str
    detail: str


@dataclass(frozen=True)
class _Case:
    """The records of a history by type, in their order."""

    history: History

    def of(self, kind: type[Some]) -> list[Some]:
        return [record for record in self.history if isinstance(record, kind)]

    def reads_by_job(self) -> dict[str, list[Read]]:
        """The reads that were answered with a job."""
        found = defaultdict(list)
        for read in self.of(Read):
            if read.state is not None:
                found[read.job].append(read)
        return found

    def works(self) -> dict[str, str]:
        """The work of each accepted job."""
        return {answer.job: answer.work for answer in self.of(Answer) if answer.job is not None}


def judge(history: History) -> list[Violation]:
    """Every broken promise, the most serious kinds first."""
    case = _Case(history)
    found = [violation for rule in _RULES for violation in rule(case)]
    order = list(Broken)
    return sorted(found, key=lambda violation: order.index(violation.broken))


def _has_end(case: _Case) -> Iterator[Violation]:
    for kind in (Run, Finished):
        if len(case.of(kind)) != 1:
            yield Violation(Broken.INCOMPLETE, kind.__name__, f"{len(case.of(kind))} records")


def _jobs_exist_and_end_once(case: _Case) -> Iterator[Violation]:
    ended = {record.job: record.states for record in case.of(Ended)}
    for job in case.works():
        if job not in ended:
            yield Violation(Broken.LOST, job, "no such job at the end")
    for job, states in ended.items():
        endings = [state for state in states if state.is_terminal]
        if not endings:
            yield Violation(Broken.STUCK, job, f"its last state is {states[-1:]}")
        elif len(endings) > 1 or not states[-1].is_terminal:
            yield Violation(Broken.ENDED_TWICE, job, ", ".join(states))


def _one_job_per_request(case: _Case) -> Iterator[Violation]:
    works = case.works()
    parts = Counter((record.part_of, record.kind) for record in case.of(Ended))
    for (accepted, kind), count in parts.items():
        if accepted not in works:
            yield Violation(Broken.DOUBLED, accepted, "no request was answered with this job")
        elif count > 1:
            yield Violation(Broken.DOUBLED, accepted, f"{count} {kind} jobs of one request")


def _answers(case: _Case) -> Iterator[Violation]:
    by_key = defaultdict(list)
    for answer in case.of(Answer):
        by_key[answer.key].append(answer)
    for key, answers in by_key.items():
        accepted = {(one.job, one.resource) for one in answers if 200 <= one.status < 300}
        if not accepted:
            yield Violation(Broken.NEVER_ACCEPTED, key, f"{len(answers)} attempts")
        if len(accepted) > 1:
            yield Violation(Broken.KEY_CHANGED, key, f"{sorted(map(str, accepted))}")
        for one in answers:
            if not 200 <= one.status < 300 and one.status not in _ALLOWED_REFUSALS:
                yield Violation(Broken.SERVER_ERROR, key, f"status {one.status}")


def _reads(case: _Case) -> Iterator[Violation]:
    for read in case.of(Read):
        if read.status not in {200, *_ALLOWED_REFUSALS}:
            yield Violation(Broken.SERVER_ERROR, read.job, f"a read got status {read.status}")
    for job, reads in case.reads_by_job().items():
        results = {read.result for read in reads if read.result is not None}
        if len(results) > 1:
            yield Violation(Broken.RESULT_CHANGED, job, f"{len(results)} results")
        for read in reads:
            if read.state is JobState.SUCCEEDED and read.result is None:
                yield Violation(Broken.NO_RESULT, job, f"read by {read.reader} at {read.at:.2f} s")
        yield from _backwards(job, reads)


def _backwards(job: str, reads: list[Read]) -> Iterator[Violation]:
    """Compares each read with those that were answered before it was asked."""
    answered = sorted(reads, key=lambda read: read.at)
    position, started, ending = 0, False, None
    for read in sorted(reads, key=lambda one: one.asked_at):
        while position < len(answered) and answered[position].at <= read.asked_at:
            earlier = answered[position]
            started = started or earlier.has_started
            ending = ending or (earlier.state if earlier.state.is_terminal else None)
            position += 1
        if (ending is not None and read.state is not ending) or (started and not read.has_started):
            seen = ending or "started"
            detail = f"{seen}, then {read.state} at {read.at:.2f} s ({read.reader})"
            yield Violation(Broken.WENT_BACKWARDS, job, detail)


def _attempts(case: _Case) -> Iterator[Violation]:
    last: dict[str, Row] = {}
    for row in case.of(Row):
        before = last.get(row.job, row)
        if _rank(row) < _rank(before):
            detail = f"{before.state} {before.attempt}, then {row.state} {row.attempt}"
            yield Violation(Broken.ATTEMPT_FELL, row.job, detail)
        last[row.job] = row


def _rank(row: Row) -> float:
    """queued 0, running 1, queued 1 (put back), running 2, … and last the end."""
    if row.state.is_terminal:
        return float("inf")
    return 2 * row.attempt - (row.state is JobState.RUNNING)


def _formats(case: _Case) -> Iterator[Violation]:
    formats = {record.job: record.format for record in case.of(Ended)}
    for record in case.of(Claimed):
        found = formats.get(record.job, 0)  # jobs from before the faults are not in the history
        if found > record.known_format:
            detail = f"format {found}, by a worker that knows {record.known_format}"
            yield Violation(Broken.UNKNOWN_FORMAT, record.job, detail)


def _results(case: _Case) -> Iterator[Violation]:
    expected = {record.work: record for record in case.of(Expected)}
    works = case.works()
    endings = {record.job: record.states[-1] for record in case.of(Ended) if record.states}
    for job, work in works.items():
        ending = endings.get(job)
        if ending is None or not ending.is_terminal:
            continue  # lost or stuck
        if work not in expected:
            yield Violation(Broken.WRONG_ENDING, job, f"nothing is expected of {work}")
        elif ending is not expected[work].ending:
            detail = f"{ending} instead of {expected[work].ending} ({work})"
            yield Violation(Broken.WRONG_ENDING, job, detail)
    final: dict[str, Read] = {
        read.job: read for read in case.of(Read) if read.state is JobState.SUCCEEDED
    }
    for job, ending in endings.items():
        work = works.get(job)
        if ending is not JobState.SUCCEEDED or work not in expected:
            continue
        if job not in final:
            yield Violation(Broken.NO_RESULT, job, "nobody read its result")
        elif final[job].result != expected[work].result:
            yield Violation(Broken.RESULT_DIFFERS, job, work)


def _recoveries(case: _Case) -> Iterator[Violation]:
    lease_seconds = max((run.lease_seconds for run in case.of(Run)), default=0.0)
    for record in case.of(Recovery):
        if record.seconds > lease_seconds + RECOVERY_SECONDS:
            yield Violation(Broken.SLOW_RECOVERY, record.job, f"{record.seconds:.1f} s")


_RULES: tuple[Callable[[_Case], Iterator[Violation]], ...] = (
    _has_end,
    _jobs_exist_and_end_once,
    _one_job_per_request,
    _answers,
    _reads,
    _attempts,
    _formats,
    _results,
    _recoveries,
)
