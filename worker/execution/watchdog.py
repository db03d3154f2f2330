"""The thread beside running jobs: renews leases, writes progress and endings, notices stops."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from sqlalchemy.exc import SQLAlchemyError

from store import jobs, logs
from store.database.sessions import Database
from store.errors import LeaseLost
from worker.execution.attempt_endings import EndingWriter, released, stopped
from worker.execution.claimed_jobs import ClaimedJob, TimeSlice
from worker.execution.control import StopReason

log = logging.getLogger(__name__)

_TICK_SECONDS = 0.25  # longest wait of an ending while the next job runs
_PROGRESS_SECONDS = 0.5  # between two writes of progress
_CANCEL_SECONDS = 1.0  # longest time until a cancellation is noticed


@dataclass(frozen=True)
class Deadlines:
    lease_seconds: float
    grace_seconds: float  # between a stop request and the end of the process
    time_limit_seconds: float
    slice_seconds: float  # a time slice starts no job after this
    training_seconds: float  # a training yields after this if another one waits

    @property
    def heartbeat_seconds(self) -> float:
        return min(self.lease_seconds / 3, _CANCEL_SECONDS)


class Watchdog:
    """Runs during the `with` block; calls `end_process` when a job does not stop."""

    def __init__(
        self,
        database: Database,
        time_slice: TimeSlice,
        endings: EndingWriter,
        deadlines: Deadlines,
        end_process: Callable[[ClaimedJob, StopReason], None],
    ) -> None:
        self._database = database
        self._slice = time_slice
        self._endings = endings
        self._deadlines = deadlines
        self._end_process = end_process
        self._finished = threading.Event()
        # A new thread has an empty context; its log lines need the job id, too.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=lambda: context.run(self._watch), name="watchdog", daemon=True
        )

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._finished.set()
        self._thread.join()

    def _watch(self) -> None:
        heartbeat_seconds = self._deadlines.heartbeat_seconds
        pause = min(_TICK_SECONDS, heartbeat_seconds)
        next_heartbeat = time.monotonic() + heartbeat_seconds
        next_progress = time.monotonic() + _PROGRESS_SECONDS
        while not self._finished.wait(pause):
            if time.monotonic() >= next_progress:
                next_progress = time.monotonic() + _PROGRESS_SECONDS
                self._write_progress()
            if time.monotonic() >= next_heartbeat:
                next_heartbeat = time.monotonic() + heartbeat_seconds
                self._send_heartbeats()
                self._ask_to_yield()
            self._end_waiting_jobs()
            self._write_endings()
            current = self._slice.current
            if current is not None and self._is_stuck(current):
                self._end_process(current, current.control.reason or StopReason.TIMED_OUT)
                return

    def _is_stuck(self, claimed_job: ClaimedJob) -> bool:
        if time.monotonic() >= claimed_job.started_at + self._deadlines.time_limit_seconds:
            claimed_job.control.stop(StopReason.TIMED_OUT)
        return claimed_job.control.seconds_since_stop() > self._deadlines.grace_seconds

    def _write_progress(self) -> None:
        current = self._slice.current
        progress = current.control.take_progress() if current is not None else None
        if current is None or progress is None:
            return
        try:
            with self._database.transaction() as session:
                jobs.record_progress(session, current.claim, progress.document())
        except LeaseLost:
            current.control.stop(StopReason.LEASE_LOST)
        except SQLAlchemyError:
            log.warning("Could not write the progress", exc_info=True)

    def _send_heartbeats(self) -> None:
        claimed_jobs = self._slice.unfinished()
        if not claimed_jobs:
            return
        claims = [claimed.claim for claimed in claimed_jobs]
        try:
            with self._database.transaction() as session:
                beats = jobs.heartbeat(session, claims, self._deadlines.lease_seconds)
        except SQLAlchemyError:
            # A lease may expire meanwhile. The claim fences the final commit, so continue.
            log.warning("Heartbeat failed", exc_info=True)
            return
        for claimed, beat in zip(claimed_jobs, beats, strict=True):
            if not beat.held:
                claimed.control.stop(StopReason.LEASE_LOST)
            elif beat.cancel_requested:
                claimed.control.stop(StopReason.CANCELED)

    def _ask_to_yield(self) -> None:
        """Asks a resumable job to yield when its time is up and another job waits."""
        current = self._slice.current
        if current is None:
            return
        if current.control.seconds_able_to_yield() < self._deadlines.training_seconds:
            return
        try:
            with self._database.reading() as session:
                if jobs.is_another_waiting(session, current.claim):
                    current.control.ask_to_yield()
        except SQLAlchemyError:
            log.warning("Could not read which jobs wait", exc_info=True)

    def _end_waiting_jobs(self) -> None:
        """Ends reserved jobs that should stop; releases all if the current job takes too long."""
        is_late = self._slice.seconds > 2 * self._deadlines.slice_seconds
        for claimed in self._slice.unfinished():
            reason = claimed.control.reason
            if (reason is not None or is_late) and claimed.take():
                with logs.job_context(claimed.job_id):
                    log.info("Job released before it started")
                self._endings.add(released(claimed) if reason is None else stopped(claimed, reason))

    def _write_endings(self) -> None:
        try:
            self._endings.try_to_write()
        except SQLAlchemyError:
            log.warning("Could not write the endings yet", exc_info=True)
