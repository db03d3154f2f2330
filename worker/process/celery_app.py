"""The Celery app of a worker; it imports no torch, so the parent process stays small."""

from __future__ import annotations

from celery import Celery

from store.process_limits import memory_limit
from store.queue.celery_config import broker_app
from store.settings import Settings
from worker.process.ready_child import WaitForChild

# A child imports torch before it reports that it is up; on a busy machine that takes a while.
_CHILD_START_SECONDS = 120


class NoBrokerError(ValueError):
    def __init__(self) -> None:
        super().__init__(
            "D4_REDIS_URL is not set, but a worker needs a broker. "
            "`d4explain up` starts one together with a worker and the API."
        )


def create_app(settings: Settings) -> Celery:
    if settings.redis_url is None:
        raise NoBrokerError
    app = broker_app("d4explain", settings.redis_url)
    app.conf.update(
        include=["worker.process.tasks"],
        worker_proc_alive_timeout=_CHILD_START_SECONDS,
        worker_max_memory_per_child=_max_child_kib(),
        # The database records the events of every job.
        task_send_sent_event=False,
        worker_send_task_events=False,
    )
    app.steps["consumer"].add(WaitForChild)
    return app


def _max_child_kib() -> int:
    """The pool replaces a child after its job if the child has used half of the memory limit."""
    return memory_limit() // 2 // 1024
