"""The Celery task and signal handlers; the parent imports this module, too, so it avoids torch."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import Any

from celery import shared_task, signals

from store import logs
from store.queue.celery_config import TASK_NAME
from store.settings import Settings
from worker.process.process_env import PARENT_VARIABLE, SHUTDOWN_SIGNAL
from worker.process.shutdown_listener import ShutdownListener


def _run(job_id: str) -> None:
    from worker.process.child import current  # noqa: PLC0415 — only the child imports torch

    current().runner.run(job_id)


run = shared_task(name=TASK_NAME)(_run)


def _start_child(sender: str | None = None, **_: Any) -> None:
    listener = ShutdownListener(int(os.environ[PARENT_VARIABLE]))
    listener.start()
    from worker.process.child import start  # noqa: PLC0415 — imports torch, which takes seconds

    start(sender or "worker", listener)


def _configure_logs(**_: Any) -> None:
    logs.configure("worker", Settings.from_environment().log_level)
    for name in ("celery.worker.strategy", "celery.app.trace"):  # the runner logs each job itself
        logging.getLogger(name).setLevel(logging.WARNING)


class _ChildProcesses:
    """Tells the pool's processes to release their job when the parent shuts down.

    Celery's own warm shutdown would wait for the end of a training.
    """

    def __init__(self) -> None:
        self._worker: Any = None

    def set_worker(self, instance: Any = None, **_: Any) -> None:
        self._worker = instance

    def shut_down(self, **_: Any) -> None:
        pool = getattr(self._worker, "pool", None)  # absent if stopped during the start
        for process in pool._pool._pool if pool else ():
            with suppress(ProcessLookupError):
                os.kill(process.pid, SHUTDOWN_SIGNAL)


_child_processes = _ChildProcesses()
signals.setup_logging.connect(_configure_logs, weak=False)
signals.worker_process_init.connect(_start_child, weak=False)
signals.celeryd_after_setup.connect(_child_processes.set_worker, weak=False)
signals.worker_shutting_down.connect(_child_processes.shut_down, weak=False)
