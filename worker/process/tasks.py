"""What Celery calls; this module is imported by the parent too and stays free of torch."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import Any

from celery import shared_task, signals

from store import logs
from store.queue.celery_config import TASK_NAME
from store.settings import Settings
from worker.process.process_env import PARENT, SHUTDOWN
from worker.process.shutdown_listener import ShutdownListener


def _run(job_id: str) -> None:
    from worker.process.child import current  # noqa: PLC0415 — torch belongs into the child

    current().runner.run(job_id)


run = shared_task(name=TASK_NAME)(_run)


def _start_child(sender: str | None = None, **_: Any) -> None:
    guardian = ShutdownListener(int(os.environ[PARENT]))
    guardian.start()
    from worker.process.child import start  # noqa: PLC0415 — this imports torch, which takes seconds

    start(sender or "worker", guardian)


def _configure_logs(**_: Any) -> None:
    logs.configure("worker", Settings.from_environment().log_level)
    for chatty in ("celery.worker.strategy", "celery.app.trace"):  # the runner says it better
        logging.getLogger(chatty).setLevel(logging.WARNING)


class _Children:
    """Tells the pool's processes that the parent shuts down, so that they give up their job.

    Celery's own warm shutdown would wait for the end of a training.
    """

    def __init__(self) -> None:
        self._worker: Any = None

    def remember(self, instance: Any = None, **_: Any) -> None:
        self._worker = instance

    def shut_down(self, **_: Any) -> None:
        pool = getattr(self._worker, "pool", None)  # not there yet when stopped while starting
        for process in pool._pool._pool if pool else ():
            with suppress(ProcessLookupError):
                os.kill(process.pid, SHUTDOWN)


_children = _Children()
signals.setup_logging.connect(_configure_logs, weak=False)
signals.worker_process_init.connect(_start_child, weak=False)
signals.celeryd_after_setup.connect(_children.remember, weak=False)
signals.worker_shutting_down.connect(_children.shut_down, weak=False)
