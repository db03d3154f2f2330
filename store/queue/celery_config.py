"""Celery settings of publisher and workers."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from celery import Celery
from celery.loaders.app import AppLoader

from d4explain.contracts.job_states import Queue
from store.jobs.submission import JOB_FORMAT, Priority
from store.queue.redis_urls import for_celery

TASK_NAME = "d4explain.run"


def message_queue(queue: Queue, job_format: int) -> str:
    """The broker's queue of these jobs; a worker reads no messages of formats it does not know.

    Otherwise an idle worker of an older program would take and drop them, and the jobs would wait
    for their next announcements although a newer worker is idle.
    """
    return f"{queue.value}.{job_format}"


def known_message_queues(queues: Iterable[Queue]) -> list[str]:
    """The broker's queues that a worker of this program reads."""
    formats = range(1, JOB_FORMAT + 1)
    return [message_queue(queue, known) for queue in queues for known in formats]


def celery_settings(redis_url: str) -> dict[str, object]:
    """Settings of both sides; recovery relies on leases in the database, not on the broker."""
    return {
        "broker_url": for_celery(redis_url),
        "broker_connection_timeout": 2,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_transport_options": {
            "visibility_timeout": 60,
            "unacked_restore_interval": 2,
            "unacked_restore_throttle": 1,
            "unacked_mutex_expire": 10,
            "socket_timeout": 10,
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
            "priority_steps": [0, 3, 6, 9],
            "queue_order_strategy": "priority",
        },
        "task_default_queue": message_queue(Queue.LIGHT, JOB_FORMAT),
        "task_default_priority": int(Priority.NEW),
        # Early acknowledgement: the dispatcher sends a lost message again.
        "task_acks_late": False,
        "task_ignore_result": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        # One job at a time, without prefetching.
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": True,
        # Spawn: a child forked from a process that has run torch hangs.
        "worker_pool": "prefork",
        "worker_pool_start_method": "spawn",
        "worker_concurrency": 1,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_enable_remote_control": True,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
    }


class SourceTreeLoader(AppLoader):  # type: ignore[misc]
    """Imports task modules like any other module.

    Celery's own loader puts the current folder first, where users have a `models` package, too.
    """

    def import_from_cwd(
        self, module: str, imp: Any = None, package: str | None = None
    ) -> ModuleType:
        imported: ModuleType = (imp or self.import_module)(module, package=package)
        return imported


def broker_app(name: str, redis_url: str) -> Celery:
    app = Celery(name, loader=SourceTreeLoader, set_as_current=False)
    app.conf.update(celery_settings(redis_url))
    return app
