"""The pool's child process: the one that imports torch, holds the models and runs the jobs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from sqlalchemy.exc import SQLAlchemyError

from d4explain.contracts.job_states import Queue
from d4explain.gnn.device import choose_device, keep_freed_memory
from store.jobs import workers
from store.process_limits import cpu_limit, memory_limit
from store.queue.job_notifications import JobNotifications
from store.settings import Settings
from store.store import Store
from worker.execution.runner import Runner
from worker.handlers import HANDLERS
from worker.loading.library import WARM_BYTES, Library
from worker.process.process_env import QUEUES
from worker.process.shutdown_listener import ShutdownListener

log = logging.getLogger(__name__)

_PRESENCE_SECONDS = 5.0


@dataclass(frozen=True)
class Child:
    store: Store
    runner: Runner
    name: str
    queues: Sequence[str]
    device: str
    leaving: threading.Event = field(default_factory=threading.Event)

    def shut_down(self) -> None:
        self.runner.shut_down()

    @property
    def is_idle(self) -> bool:
        return self.runner.is_idle

    def leave(self) -> None:
        self.leaving.set()
        try:
            with self.store.database.transaction() as session:
                workers.leave(session, self.name)
        except SQLAlchemyError:
            log.warning("the worker's row stays until it is old", exc_info=True)


_current: Child | None = None


def current() -> Child:
    assert _current is not None, "the child process has not been started"
    return _current


def start(hostname: str, guardian: ShutdownListener) -> None:
    """Called once, before the first job; everything slow happens here and not in a job."""
    global _current  # noqa: PLW0603 — Celery hands nothing from here to its tasks
    settings = Settings.from_environment()
    torch.set_num_threads(_threads(settings))
    keep_freed_memory()
    store = Store.open(settings, migrate=False)
    device = choose_device(settings.device)
    library = Library(
        store.artifacts,
        device,
        warm_bytes=min(WARM_BYTES, memory_limit() // 4),
        neighbourhood_nodes=store.settings.max_neighbourhood_nodes,
        exact_nodes=store.settings.exact_nodes,
    )
    queues = tuple(Queue(name) for name in os.environ[QUEUES].split(","))
    assert settings.redis_url is not None, "a worker has a broker"
    _current = Child(
        store=store,
        runner=Runner(
            store,
            library,
            HANDLERS,
            owner=f"{hostname}:{os.getpid()}",
            queues=queues,
            ended=JobNotifications(settings.redis_url).publish,
        ),
        name=hostname,
        queues=queues,
        device=str(device),
    )
    guardian.hand_over(_current)
    threading.Thread(target=_show_presence, args=(_current,), name="presence", daemon=True).start()
    log.info("ready on %s with %d threads", device, torch.get_num_threads())


def _threads(settings: Settings) -> int:
    return settings.threads or max(1, int(cpu_limit()) // 2)


def _show_presence(child: Child) -> None:
    while not child.leaving.is_set():
        try:
            with child.store.database.transaction() as session:
                workers.beat(
                    session,
                    name=child.name,
                    queues=child.queues,
                    device=child.device,
                    pid=os.getpid(),
                )
        except SQLAlchemyError:
            log.warning("presence was not written", exc_info=True)
        child.leaving.wait(_PRESENCE_SECONDS)
