"""Ends a child process in good order, from its first moment on; free of torch for that reason."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Protocol

from worker.process.process_env import LISTENED

_PARENT_SECONDS = 0.5
_LEAVE_PAUSE = 0.05


class Guarded(Protocol):
    """What runs the jobs, once it is there."""

    def shut_down(self) -> None: ...

    def leave(self) -> None: ...

    @property
    def is_idle(self) -> bool: ...


class ShutdownListener:
    """Watches the parent and waits for signals while torch is still being imported, and after."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._lock = threading.Lock()
        self._guarded: Guarded | None = None

    def start(self) -> None:
        # Before torch starts any thread: threads inherit the mask.
        signal.pthread_sigmask(signal.SIG_BLOCK, LISTENED)
        for duty in (self._listen, self._follow_parent):
            threading.Thread(target=duty, name=duty.__name__, daemon=True).start()

    def hand_over(self, guarded: Guarded) -> None:
        """From now on there may be a running job to give up first."""
        with self._lock:
            self._guarded = guarded

    def _listen(self) -> None:
        """SHUTDOWN: the parent will end this process. SIGTERM: this process ends itself.

        A thread waits for the signals instead of a handler, which Python would only call when the
        main thread comes back from whatever torch is computing.
        """
        while True:
            received = signal.sigwait(LISTENED)
            with self._lock:
                guarded = self._guarded
                if guarded is None:
                    os._exit(0)  # nothing has begun yet
            guarded.shut_down()
            if received == signal.SIGTERM:
                # The watchdog ends a job that does not stop, so this takes its grace at most.
                while not guarded.is_idle:
                    time.sleep(_LEAVE_PAUSE)
                guarded.leave()
                os._exit(0)
            guarded.leave()

    def _follow_parent(self) -> None:
        """A child without its parent gets no more jobs and nobody would ever end it."""
        while os.getppid() == self._parent:
            time.sleep(_PARENT_SECONDS)
        os._exit(1)  # as if killed with the parent: the lease runs out, another worker goes on
