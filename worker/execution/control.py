"""The connection between a running handler and the watchdog: stop requests and progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class StopReason(Enum):
    CANCELED = "canceled"  # the caller canceled the job
    TIMED_OUT = "timed out"  # the job reached its time limit
    SHUTDOWN = "shutdown"  # this worker shuts down; another one continues
    YIELDED = "yielded"  # other jobs wait for this worker; the job continues later
    LEASE_LOST = "lease lost"  # another attempt owns the job, so this one must not write


class Stopped(Exception):  # noqa: N818 — not an error: the handler stopped on request
    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(frozen=True)
class Progress:
    phase: str
    step: int
    total: int
    metrics: Mapping[str, float] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {
            "phase": self.phase,
            "step": self.step,
            "total": self.total,
            "metrics": dict(self.metrics),
        }


class Control:
    """Shared by the thread of the handler and the thread of the watchdog.

    The handler sets its progress here and the watchdog writes it, so that a busy database never
    slows the computation down.
    """

    def __init__(self, save_checkpoint: Callable[[bytes, int], None]) -> None:
        self._save_checkpoint = save_checkpoint
        self._lock = threading.Lock()
        self._reason: StopReason | None = None
        self._stopped_at = 0.0
        self._unwritten: Progress | None = None
        self._can_yield_since: float | None = None
        self._is_asked_to_yield = False

    def should_stop(self) -> bool:
        return self._reason is not None

    def raise_if_stopped(self) -> None:
        if self._reason is not None:
            raise Stopped(self._reason)

    def progress(
        self, phase: str, step: int, total: int, metrics: Mapping[str, float] | None = None
    ) -> None:
        with self._lock:
            self._unwritten = Progress(phase, step, total, metrics or {})

    def checkpoint(self, data: bytes, step: int) -> None:
        """Saves the state from which the next attempt resumes."""
        if self._reason is StopReason.LEASE_LOST:
            raise Stopped(StopReason.LEASE_LOST)
        self._save_checkpoint(data, step)

    def should_yield(self) -> bool:
        """Whether to save a checkpoint and stop.

        The first call tells the watchdog that this handler is able to yield.
        """
        if self._can_yield_since is None:
            self._can_yield_since = time.monotonic()
        return self._is_asked_to_yield

    def ask_to_yield(self) -> None:
        self._is_asked_to_yield = True

    def seconds_able_to_yield(self) -> float:
        """Seconds since the handler could yield; 0 if it cannot or was already asked to."""
        since = self._can_yield_since
        return 0.0 if since is None or self._is_asked_to_yield else time.monotonic() - since

    @property
    def reason(self) -> StopReason | None:
        return self._reason

    def stop(self, reason: StopReason) -> None:
        """The first reason counts, except that a lost lease overrides it: it forbids writing."""
        with self._lock:
            if self._reason is None:
                self._stopped_at = time.monotonic()
                self._reason = reason
            elif reason is StopReason.LEASE_LOST:
                self._reason = reason

    def seconds_since_stop(self) -> float:
        return 0.0 if self._reason is None else time.monotonic() - self._stopped_at

    def take_progress(self) -> Progress | None:
        """Returns the latest progress once; None until there is a newer one."""
        with self._lock:
            latest, self._unwritten = self._unwritten, None
            return latest
