"""How attempts end, and the one place that writes it: several endings in one transaction."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from store import jobs, logs
from store.database.sessions import Database
from store.errors import LeaseLost
from store.jobs import Claim
from worker.execution.claimed_jobs import ClaimedJob
from worker.execution.control import Progress, StopReason
from worker.execution.failures import Failure, failure_of
from worker.execution.handler_api import Outcome

log = logging.getLogger(__name__)

_PAUSES = (0.1, 0.3, 1.0, 3.0, 5.0)  # between tries while the database is away


@dataclass(frozen=True)
class Ending:
    """What is to be written about an attempt that is over, fenced by its claim."""

    seat: ClaimedJob
    ending: Callable[[Session, Claim], None]
    progress: Progress | None = None  # the last one: never lost, however short the job was
    succeeded: bool = False

    def write(self, session: Session) -> None:
        claim = self.seat.claim
        if self.progress is not None:
            jobs.record_progress(session, claim, self.progress.document())
        self.ending(session, claim)


def finished(seat: ClaimedJob, outcome: Outcome) -> Ending:
    def end(session: Session, claim: Claim) -> None:
        outcome.record(session)
        jobs.succeed(session, claim, outcome.result)

    return Ending(seat, end, seat.control.take_progress(), succeeded=True)


def failed(seat: ClaimedJob, failure: Failure) -> Ending:
    if not failure.counts or not seat.has_begun:
        return released(seat)
    end = partial(
        jobs.fail,
        error_type=failure.kind,
        message=failure.message,
        retryable=failure.retryable,
    )
    return Ending(seat, end, seat.control.take_progress())


def released(seat: ClaimedJob) -> Ending:
    if not seat.has_begun:
        return Ending(seat, jobs.give_back)
    return Ending(seat, jobs.release, seat.control.take_progress())


def stopped(seat: ClaimedJob, reason: StopReason) -> Ending:
    if reason is StopReason.LEASE_LOST:
        _log_lost()
        return Ending(seat, _nothing)
    if not seat.has_begun:
        return released(seat)
    return Ending(seat, _STOPPED[reason], seat.control.take_progress())


def _job_id(ending: Ending) -> str:
    return ending.seat.claim.job_id


def _patiently(write: Callable[[], None]) -> None:
    for pause in (*_PAUSES, None):
        try:
            write()
            return
        except OperationalError:
            if pause is None:
                raise
            log.warning("the ending could not be written yet", exc_info=True)
            time.sleep(pause)


def _nothing(session: Session, claim: Claim) -> None:
    """Another attempt owns the job."""


_STOPPED = {
    StopReason.CANCELED: jobs.cancel_running,
    StopReason.TIMED_OUT: jobs.expire,
    StopReason.SHUTDOWN: jobs.release,
    StopReason.YIELDED: jobs.release,
}


def _log_lost() -> None:
    log.warning("the lease is lost; nothing of this attempt is written")


class Endings:
    """Collects endings until they are written; `written` is told whose it were."""

    def __init__(self, database: Database, written: Callable[[Sequence[ClaimedJob]], None]) -> None:
        self._database = database
        self._told = written
        self._lock = threading.Lock()  # of the list
        self._writing = threading.Lock()
        self._unwritten: list[Ending] = []

    def add(self, ending: Ending) -> None:
        with self._lock:
            self._unwritten.append(ending)

    def write(self) -> None:
        """Writes all there are; a database that is away for a moment is waited for."""
        _patiently(self.try_to_write)

    def begin(self, seat: ClaimedJob) -> None:
        """Counts the attempt of a reserved job and writes all endings there are.

        One transaction: whenever the process is killed, one job at most has begun and not ended.
        """
        _patiently(lambda: self._try_to_begin(seat))
        seat.has_begun = True

    def try_to_write(self) -> None:
        """Writes all there are, or raises and keeps those that are not written."""
        with self._taken() as unwritten:
            if len(unwritten) > 1 and self._written_together(unwritten):
                unwritten.clear()
            while unwritten:
                self._write_one(unwritten[0])
                del unwritten[0]

    def _try_to_begin(self, seat: ClaimedJob) -> None:
        with self._taken() as unwritten:
            if self._written_together(unwritten, seat.claim):
                unwritten.clear()
                return
        self.try_to_write()
        with self._database.transaction() as session:
            jobs.begin(session, seat.claim)

    @contextmanager
    def _taken(self) -> Iterator[list[Ending]]:
        """All there are; those that the caller leaves in the list are kept."""
        with self._writing:
            with self._lock:
                taken, self._unwritten = self._unwritten, []
            taken.sort(key=_job_id)
            try:
                yield taken
            finally:
                with self._lock:
                    self._unwritten = [*taken, *self._unwritten]

    def _written_together(self, endings: Sequence[Ending], begins: Claim | None = None) -> bool:
        writes = [(_job_id(ending), ending.write) for ending in endings]
        if begins is not None:
            writes.append((begins.job_id, partial(jobs.begin, claim=begins)))
        # One order for all, so that two transactions cannot deadlock.
        writes.sort(key=itemgetter(0))
        try:
            with self._database.transaction() as session:
                for _, write in writes:
                    write(session)
        except OperationalError:
            raise
        except Exception:  # of one of them: by themselves the others are not harmed
            return False
        self._tell(endings)
        return True

    def _write_one(self, ending: Ending) -> None:
        with logs.job_context(ending.seat.claim.job_id):
            try:
                with self._database.transaction() as session:
                    ending.write(session)
            except LeaseLost:
                _log_lost()
                self._told([ending.seat])
                return
            except OperationalError:
                raise
            except Exception as error:  # what was found cannot be recorded
                if not ending.succeeded:
                    raise
                failure = failure_of(error)
                log.warning("the attempt failed: %s", failure.message, exc_info=True)
                self._write_one(failed(ending.seat, failure))
                return
            self._tell([ending])

    def _tell(self, endings: Sequence[Ending]) -> None:
        for ending in endings:
            if ending.succeeded:
                ending.seat.checkpoints.drop()
        self._told([ending.seat for ending in endings])
