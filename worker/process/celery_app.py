"""The Celery app of a worker; importing it imports no torch, so the parent stays small."""

from __future__ import annotations

from celery import Celery

from store.process_limits import memory_limit
from store.queue.celery_config import broker_app
from store.settings import Settings

# A child imports torch before it says that it is up, which takes a while on a busy machine.
_CHILD_START_SECONDS = 120


class NoBrokerError(ValueError):
    def __init__(self) -> None:
        super().__init__(
            "D4_REDIS_URL is not set: a worker needs a broker. "
            "`d4explain up` starts one together with a worker and the API."
        )


def create_app(settings: Settings) -> Celery:
    if settings.redis_url is None:
        raise NoBrokerError
    app = broker_app("d4explain", settings.redis_url)
    app.conf.update(
        include=["worker.process.tasks"],
        worker_proc_alive_timeout=_CHILD_START_SECONDS,
        worker_max_memory_per_child=_recycle_kib(),
        # The database has the log of every job.
        task_send_sent_event=False,
        worker_send_task_events=False,
    )
    return app


def _recycle_kib() -> int:
    """A child that ever took half of the memory it may use is replaced after its job."""
    return memory_limit() // 2 // 1024
