"""The thread beside a running job: keeps its lease, writes its progress, sees wishes to stop."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from sqlalchemy.exc import SQLAlchemyError

from store import jobs
from store.database import Database
from store.errors import LeaseLost
from store.jobs import Claim
from worker.control import Control, StopReason

log = logging.getLogger(__name__)

_PROGRESS_SECONDS = 0.5  # between two writes of progress
_CANCEL_SECONDS = 1.0  # a wish to cancel is seen at least as soon


@dataclass(frozen=True)
class Patience:
    lease_seconds: float
    grace_seconds: float  # between the wish to stop and the end by force
    time_limit_seconds: float

    @property
    def beat_seconds(self) -> float:
        return min(self.lease_seconds / 3, _CANCEL_SECONDS)


class Watchdog:
    """Runs while the `with` block does; `end_by_force` is called when a job will not stop."""

    def __init__(
        self,
        database: Database,
        claim: Claim,
        control: Control,
        patience: Patience,
        end_by_force: Callable[[StopReason], None],
    ) -> None:
        self._database = database
        self._claim = claim
        self._control = control
        self._patience = patience
        self._end_by_force = end_by_force
        self._finished = threading.Event()
        self._deadline = time.monotonic() + patience.time_limit_seconds
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
        pause = min(_PROGRESS_SECONDS, self._patience.beat_seconds)
        next_beat = time.monotonic() + self._patience.beat_seconds
        while not self._finished.wait(pause):
            self._write_progress()
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + self._patience.beat_seconds
                self._beat()
            if time.monotonic() >= self._deadline:
                self._control.stop(StopReason.TIMED_OUT)
            reason = self._control.reason
            late = self._control.seconds_since_stop() > self._patience.grace_seconds
            if reason is not None and late:
                self._end_by_force(reason)
                return

    def _write_progress(self) -> None:
        progress = self._control.take_progress()
        if progress is None:
            return
        try:
            with self._database.transaction() as session:
                jobs.record_progress(session, self._claim, progress.document())
        except LeaseLost:
            self._control.stop(StopReason.LEASE_LOST)
        except SQLAlchemyError:
            log.warning("progress was not written", exc_info=True)

    def _beat(self) -> None:
        try:
            with self._database.transaction() as session:
                beat = jobs.heartbeat(session, self._claim, self._patience.lease_seconds)
        except SQLAlchemyError:
            # The lease may run out meanwhile; the commit at the end is fenced, so go on.
            log.warning("heartbeat failed", exc_info=True)
            return
        if not beat.held:
            self._control.stop(StopReason.LEASE_LOST)
        elif beat.cancel_requested:
            self._control.stop(StopReason.CANCELED)
