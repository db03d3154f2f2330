"""Claimed jobs, and the time slice in which a worker runs them one after the other."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from functools import partial

from store import jobs
from store.jobs import Claim
from store.store import Store
from worker.execution.control import Control, StopReason


class ClaimedJob:
    """One claimed job. It waits until the runner takes it to run it, or the watchdog to end it."""

    def __init__(self, store: Store, claim: Claim, *, has_begun: bool) -> None:
        self.claim = claim
        self.has_begun = has_begun  # in the database; a job that has not begun is only reserved
        self.control = Control(partial(_save_checkpoint, store, claim))
        self.started_at = time.monotonic()
        self._lock = threading.Lock()
        self._is_taken = False

    def take(self) -> bool:
        """True for the first caller only."""
        with self._lock:
            is_first, self._is_taken = not self._is_taken, True
            return is_first

    @property
    def job_id(self) -> str:
        return self.claim.job_id

    @property
    def is_waiting(self) -> bool:
        return not self._is_taken


class TimeSlice:
    """The claimed jobs of one time slice, shared by the runner's thread and the watchdog's."""

    def __init__(self, first: ClaimedJob) -> None:
        self.first = first
        self.attempts_done = 0
        self._started_at = time.monotonic()
        self._lock = threading.Lock()
        self._waiting: deque[ClaimedJob] = deque()
        self._unfinished: dict[str, ClaimedJob] = {}  # whose ending is not written yet
        self._current: ClaimedJob | None = None
        self.add([first])

    def add(self, claimed_jobs: Sequence[ClaimedJob]) -> None:
        with self._lock:
            self._waiting.extend(claimed_jobs)
            self._unfinished.update((claimed.job_id, claimed) for claimed in claimed_jobs)

    def next(self) -> ClaimedJob | None:
        """Takes the next waiting job; None if there is none."""
        with self._lock:
            self._current = None
            while self._waiting:
                claimed = self._waiting.popleft()
                if claimed.take():
                    claimed.started_at = time.monotonic()
                    self._current = claimed
                    return claimed
            return None

    def remove(self, claimed_jobs: Sequence[ClaimedJob]) -> None:
        """Their endings are written or other workers own them, so they need no lease."""
        with self._lock:
            for claimed in claimed_jobs:
                self._unfinished.pop(claimed.job_id, None)

    def stop(self, reason: StopReason) -> None:
        for claimed in self.unfinished():
            claimed.control.stop(reason)

    @property
    def current(self) -> ClaimedJob | None:
        return self._current

    @property
    def has_waiting(self) -> bool:
        return any(claimed.is_waiting for claimed in self.unfinished())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started_at

    def unfinished(self) -> list[ClaimedJob]:
        """The jobs whose leases this worker must keep."""
        with self._lock:
            return list(self._unfinished.values())


def _save_checkpoint(store: Store, claim: Claim, data: bytes, step: int) -> None:
    """Stores the newest checkpoint of an attempt; the cleanup deletes the previous one."""
    digest = store.artifacts.of(claim.tenant).put(data)
    with store.database.transaction() as session:
        jobs.record_checkpoint(session, claim, digest, step)
