"""Ends a child process in order from its first moment on; imports no torch, to start early."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Protocol

from worker.process.process_env import HANDLED_SIGNALS

_PARENT_CHECK_SECONDS = 0.5
_IDLE_CHECK_SECONDS = 0.05


class JobProcess(Protocol):
    """The part of the child process that runs jobs."""

    def shut_down(self) -> None: ...

    def sign_off(self) -> None: ...

    @property
    def is_idle(self) -> bool: ...


class ShutdownListener:
    """Waits for signals and watches the parent, already while the child imports torch."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._lock = threading.Lock()
        self._job_process: JobProcess | None = None

    def start(self) -> None:
        # Before torch starts any thread: threads inherit the signal mask.
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
        for target in (self._wait_for_signals, self._watch_parent):
            threading.Thread(target=target, name=target.__name__, daemon=True).start()

    def attach(self, job_process: JobProcess) -> None:
        """From now on, a shutdown releases the running job first."""
        with self._lock:
            self._job_process = job_process

    def _wait_for_signals(self) -> None:
        """On SHUTDOWN_SIGNAL the parent will end this process; on SIGTERM it ends itself.

        A thread waits for the signals because Python calls a signal handler only when the main
        thread returns from torch.
        """
        while True:
            received = signal.sigwait(HANDLED_SIGNALS)
            with self._lock:
                job_process = self._job_process
                if job_process is None:
                    os._exit(0)  # no job has started yet
            job_process.shut_down()
            if received == signal.SIGTERM:
                # The watchdog ends a job that does not stop, so this takes its grace at most.
                while not job_process.is_idle:
                    time.sleep(_IDLE_CHECK_SECONDS)
                job_process.sign_off()
                os._exit(0)
            job_process.sign_off()

    def _watch_parent(self) -> None:
        """Exits without the parent: the child would get no more jobs and would never be ended."""
        while os.getppid() == self._parent:
            time.sleep(_PARENT_CHECK_SECONDS)
        os._exit(1)  # as if killed with the parent: the lease expires and another worker continues
