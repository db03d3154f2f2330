"""Claimed jobs that a worker runs one after the other: one slice of its time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

from store import jobs
from store.jobs import Claim
from store.store import Store
from worker.execution.control import Control, StopReason


class ClaimedJob:
    """One claimed job: it waits until one of two threads takes it, to run it or to give it up."""

    def __init__(self, store: Store, claim: Claim, *, has_begun: bool) -> None:
        self.claim = claim
        self.has_begun = has_begun  # as the database says: if not, the job is only reserved
        self.checkpoints = CheckpointKeeper(store, claim)
        self.control = Control(self.checkpoints.save)
        self.begun_at = time.monotonic()
        self._lock = threading.Lock()
        self._is_taken = False

    def take(self) -> bool:
        """True for the first caller alone."""
        with self._lock:
            is_first, self._is_taken = not self._is_taken, True
            return is_first

    @property
    def is_waiting(self) -> bool:
        return not self._is_taken


class TimeSlice:
    """The seats of one turn; shared by the thread that runs them and the watchdog's."""

    def __init__(self, first: ClaimedJob) -> None:
        self.first = first
        self.done = 0
        self.began = time.monotonic()
        self._lock = threading.Lock()
        self._waiting: deque[ClaimedJob] = deque()
        self._held: dict[str, ClaimedJob] = {}  # whose ending is not written yet
        self._current: ClaimedJob | None = None
        self.add([first])

    def add(self, seats: Sequence[ClaimedJob]) -> None:
        with self._lock:
            self._waiting.extend(seats)
            self._held.update((seat.claim.job_id, seat) for seat in seats)

    def next(self) -> ClaimedJob | None:
        """The seat to work on now; None if nobody waits any more."""
        with self._lock:
            self._current = None
            while self._waiting:
                seat = self._waiting.popleft()
                if seat.take():
                    seat.begun_at = time.monotonic()
                    self._current = seat
                    return seat
            return None

    def leave(self, seats: Sequence[ClaimedJob]) -> None:
        """Their endings are written, or others own them: no lease has to be kept."""
        with self._lock:
            for seat in seats:
                self._held.pop(seat.claim.job_id, None)

    def stop(self, reason: StopReason) -> None:
        for seat in self.held():
            seat.control.stop(reason)

    @property
    def current(self) -> ClaimedJob | None:
        return self._current

    @property
    def has_waiting(self) -> bool:
        return any(seat.is_waiting for seat in self.held())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def held(self) -> list[ClaimedJob]:
        with self._lock:
            return list(self._held.values())


class CheckpointKeeper:
    """Keeps the newest checkpoint of one attempt and drops the one before."""

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self._kept: str | None = claim.checkpoint["digest"] if claim.checkpoint else None

    def save(self, data: bytes, step: int) -> None:
        digest = self._store.artifacts.put(data)
        with self._store.database.transaction() as session:
            jobs.record_checkpoint(session, self._claim, digest, step)
        if self._kept is not None and self._kept != digest:
            self._store.artifacts.delete(self._kept)
        self._kept = digest

    def drop(self) -> None:
        """Nobody will resume a job that has succeeded."""
        if self._kept is not None:
            self._store.artifacts.delete(self._kept)
