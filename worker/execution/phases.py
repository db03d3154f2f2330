"""Measures the phases of an attempt: a handler enters one after the other."""

from __future__ import annotations

import time
from collections.abc import Mapping

from store import tracing


class Phases:
    """Seconds by phase; a phase that is entered twice adds up."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._current: str | None = None
        self._span = tracing.NO_SPAN
        self._entered_at = 0.0

    def enter(self, name: str) -> None:
        """Ends the current phase and begins this one."""
        self.end()
        self._current, self._entered_at = name, time.monotonic()
        self._span = tracing.start(name)

    def end(self) -> None:
        if self._current is None:
            return
        seconds = time.monotonic() - self._entered_at
        self._seconds[self._current] = self._seconds.get(self._current, 0.0) + seconds
        self._current = None
        self._span.end()

    def replace(self, name: str, seconds: float) -> None:
        """For a phase that began in an earlier attempt: its seconds in all attempts."""
        self.end()
        self._seconds[name] = seconds

    @property
    def seconds(self) -> Mapping[str, float]:
        return dict(self._seconds)
