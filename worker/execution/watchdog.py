"""The thread beside running jobs: keeps leases, writes what is known, sees wishes to stop."""

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
from worker.execution.attempt_endings import Endings, released, stopped
from worker.execution.claimed_jobs import ClaimedJob, TimeSlice
from worker.execution.control import StopReason

log = logging.getLogger(__name__)

_TICK_SECONDS = 0.25  # a job's ending waits no longer while the next one is worked on
_PROGRESS_SECONDS = 0.5  # between two writes of progress
_CANCEL_SECONDS = 1.0  # a wish to cancel is seen at least as soon


@dataclass(frozen=True)
class Patience:
    lease_seconds: float
    grace_seconds: float  # between the wish to stop and the end by force
    time_limit_seconds: float
    slice_seconds: float  # of one turn, after which no job is begun
    training_seconds: float  # of one turn, after which a training makes way for another

    @property
    def beat_seconds(self) -> float:
        return min(self.lease_seconds / 3, _CANCEL_SECONDS)


class Watchdog:
    """Runs while the `with` block does; `end_by_force` is called when a job will not stop."""

    def __init__(
        self,
        database: Database,
        slice_: TimeSlice,
        endings: Endings,
        patience: Patience,
        end_by_force: Callable[[ClaimedJob, StopReason], None],
    ) -> None:
        self._database = database
        self._slice = slice_
        self._endings = endings
        self._patience = patience
        self._end_by_force = end_by_force
        self._finished = threading.Event()
        # A thread starts with an empty context; this one's log lines belong to the job too.
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
        pause = min(_TICK_SECONDS, self._patience.beat_seconds)
        next_beat = time.monotonic() + self._patience.beat_seconds
        next_progress = time.monotonic() + _PROGRESS_SECONDS
        while not self._finished.wait(pause):
            if time.monotonic() >= next_progress:
                next_progress = time.monotonic() + _PROGRESS_SECONDS
                self._write_progress()
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + self._patience.beat_seconds
                self._beat()
                self._make_way()
            self._give_up_waiting()
            self._write_endings()
            seat = self._slice.current
            if seat is not None and self._is_stuck(seat):
                self._end_by_force(seat, seat.control.reason or StopReason.TIMED_OUT)
                return

    def _is_stuck(self, seat: ClaimedJob) -> bool:
        if time.monotonic() >= seat.begun_at + self._patience.time_limit_seconds:
            seat.control.stop(StopReason.TIMED_OUT)
        return seat.control.seconds_since_stop() > self._patience.grace_seconds

    def _write_progress(self) -> None:
        seat = self._slice.current
        progress = seat.control.take_progress() if seat is not None else None
        if seat is None or progress is None:
            return
        try:
            with self._database.transaction() as session:
                jobs.record_progress(session, seat.claim, progress.document())
        except LeaseLost:
            seat.control.stop(StopReason.LEASE_LOST)
        except SQLAlchemyError:
            log.warning("progress was not written", exc_info=True)

    def _beat(self) -> None:
        seats = self._slice.held()
        if not seats:
            return
        try:
            with self._database.transaction() as session:
                beats = jobs.heartbeat(
                    session, [seat.claim for seat in seats], self._patience.lease_seconds
                )
        except SQLAlchemyError:
            # A lease may run out meanwhile; the commit at the end is fenced, so go on.
            log.warning("heartbeat failed", exc_info=True)
            return
        for seat, beat in zip(seats, beats, strict=True):
            if not beat.held:
                seat.control.stop(StopReason.LEASE_LOST)
            elif beat.cancel_requested:
                seat.control.stop(StopReason.CANCELED)

    def _make_way(self) -> None:
        """Asks a job that can be resumed to yield, once its turn is over and others wait."""
        seat = self._slice.current
        if seat is None or seat.control.seconds_able_to_yield() < self._patience.training_seconds:
            return
        try:
            with self._database.reading() as session:
                if jobs.is_another_waiting(session, seat.claim):
                    seat.control.ask_to_yield()
        except SQLAlchemyError:
            log.warning("cannot see who waits", exc_info=True)

    def _give_up_waiting(self) -> None:
        """Ends mates that are to stop, and hands all back when another one takes very long."""
        is_late = self._slice.seconds > 2 * self._patience.slice_seconds
        for seat in self._slice.held():
            reason = seat.control.reason
            if (reason is not None or is_late) and seat.take():
                with logs.job_context(seat.claim.job_id):
                    log.info("given up before it began")
                self._endings.add(released(seat) if reason is None else stopped(seat, reason))

    def _write_endings(self) -> None:
        try:
            self._endings.try_to_write()
        except SQLAlchemyError:
            log.warning("endings could not be written yet", exc_info=True)
