"""Describes how attempts end, and writes several endings in one transaction."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from store import jobs, logs
from store.database import job_series
from store.database.sessions import Database
from store.errors import LeaseLost
from store.jobs import Claim
from worker.execution.claimed_jobs import ClaimedJob
from worker.execution.control import Progress, StopReason
from worker.execution.failures import Failure, failure_of
from worker.execution.handler_api import HandlerOutput

log = logging.getLogger(__name__)

_RETRY_PAUSES = (0.1, 0.3, 1.0, 3.0, 5.0)  # seconds, while the database is unavailable


@dataclass(frozen=True)
class Ending:
    """What to write about a finished attempt, fenced by its claim."""

    claimed_job: ClaimedJob
    write_ending: Callable[[Session, Claim], None]
    progress: Progress | None = None  # the last one is written even if the job was very short
    succeeded: bool = False

    @property
    def job_id(self) -> str:
        return self.claimed_job.job_id

    def write(self, session: Session) -> None:
        claim = self.claimed_job.claim
        if self.progress is not None:
            jobs.record_progress(session, claim, self.progress.document())
        self.write_ending(session, claim)


def finished(claimed_job: ClaimedJob, output: HandlerOutput, phases: Mapping[str, float]) -> Ending:
    """`phases`: seconds of the parts of the attempt."""

    def write_success(session: Session, claim: Claim) -> None:
        output.record(session)
        jobs.succeed(session, claim, output.result)
        job_series.note_phases(session, claim.kind, claim.tenant, phases)

    progress = claimed_job.control.take_progress()
    return Ending(claimed_job, write_success, progress, succeeded=True)


def failed(claimed_job: ClaimedJob, failure: Failure) -> Ending:
    if not failure.counts or not claimed_job.has_begun:
        return released(claimed_job)
    write_failure = partial(
        jobs.fail,
        error_type=failure.kind,
        message=failure.message,
        retryable=failure.retryable,
    )
    return Ending(claimed_job, write_failure, claimed_job.control.take_progress())


def released(claimed_job: ClaimedJob) -> Ending:
    if not claimed_job.has_begun:
        return Ending(claimed_job, jobs.give_back)
    return Ending(claimed_job, jobs.release, claimed_job.control.take_progress())


def stopped(claimed_job: ClaimedJob, reason: StopReason) -> Ending:
    if reason is StopReason.LEASE_LOST:
        _log_lost_lease()
        return Ending(claimed_job, _write_nothing)
    if not claimed_job.has_begun:
        return released(claimed_job)
    return Ending(claimed_job, _WRITE_STOPPED[reason], claimed_job.control.take_progress())


def _write_nothing(session: Session, claim: Claim) -> None:
    """Another attempt owns the job."""


_WRITE_STOPPED = {
    StopReason.CANCELED: jobs.cancel_running,
    StopReason.TIMED_OUT: jobs.expire,
    StopReason.SHUTDOWN: jobs.release,
    StopReason.YIELDED: jobs.release,
}


def _retry_while_unavailable(write: Callable[[], None]) -> None:
    for pause in (*_RETRY_PAUSES, None):
        try:
            write()
            return
        except OperationalError:
            if pause is None:
                raise
            log.warning("Could not write the ending; retrying", exc_info=True)
            time.sleep(pause)


def _log_lost_lease() -> None:
    log.warning("Lease lost; this attempt writes nothing")


class EndingWriter:
    """Collects endings and writes them; `on_written` receives the jobs that were written."""

    def __init__(
        self, database: Database, on_written: Callable[[Sequence[ClaimedJob]], None]
    ) -> None:
        self._database = database
        self._on_written = on_written
        self._list_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._unwritten: list[Ending] = []

    def add(self, ending: Ending) -> None:
        with self._list_lock:
            self._unwritten.append(ending)

    def write(self) -> None:
        """Writes all endings; retries for a while if the database is unavailable."""
        _retry_while_unavailable(self.try_to_write)

    def begin(self, claimed_job: ClaimedJob) -> None:
        """Counts the attempt of a reserved job and writes all endings, in one transaction.

        If the process is killed at any time, at most one job has begun and not ended.
        """
        _retry_while_unavailable(lambda: self._try_to_begin(claimed_job))
        claimed_job.has_begun = True

    def try_to_write(self) -> None:
        """Writes all endings, or raises and keeps the unwritten ones."""
        with self._take_unwritten() as unwritten:
            if len(unwritten) > 1 and self._try_to_write_together(unwritten):
                unwritten.clear()
            while unwritten:
                self._write_one(unwritten[0])
                del unwritten[0]

    def _try_to_begin(self, claimed_job: ClaimedJob) -> None:
        with self._take_unwritten() as unwritten:
            if self._try_to_write_together(unwritten, claimed_job.claim):
                unwritten.clear()
                return
        self.try_to_write()
        with self._database.transaction() as session:
            jobs.begin(session, claimed_job.claim)

    @contextmanager
    def _take_unwritten(self) -> Iterator[list[Ending]]:
        """Yields all endings; those that remain in the list afterwards stay unwritten."""
        with self._write_lock:
            with self._list_lock:
                taken, self._unwritten = self._unwritten, []
            taken.sort(key=lambda ending: ending.job_id)
            try:
                yield taken
            finally:
                with self._list_lock:
                    self._unwritten = [*taken, *self._unwritten]

    def _try_to_write_together(
        self, endings: Sequence[Ending], begins: Claim | None = None
    ) -> bool:
        writes = [(ending.job_id, ending.write) for ending in endings]
        if begins is not None:
            writes.append((begins.job_id, partial(jobs.begin, claim=begins)))
        # All transactions write in the order of job ids, so two of them cannot deadlock.
        writes.sort(key=itemgetter(0))
        try:
            with self._database.transaction() as session:
                for _, write in writes:
                    write(session)
        except OperationalError:
            raise
        except Exception:  # one ending is at fault; written one by one, the others succeed
            return False
        self._report_written(endings)
        return True

    def _write_one(self, ending: Ending) -> None:
        with logs.job_context(ending.job_id):
            try:
                with self._database.transaction() as session:
                    ending.write(session)
            except LeaseLost:
                _log_lost_lease()
                self._on_written([ending.claimed_job])
                return
            except OperationalError:
                raise
            except Exception as error:  # the result cannot be recorded
                if not ending.succeeded:
                    raise
                failure = failure_of(error)
                log.warning("Attempt failed: %s", failure.message, exc_info=True)
                self._write_one(failed(ending.claimed_job, failure))
                return
            self._report_written([ending])

    def _report_written(self, endings: Sequence[Ending]) -> None:
        self._on_written([ending.claimed_job for ending in endings])
