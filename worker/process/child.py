"""The child process of the pool, which imports torch, holds the models and runs the jobs.

`build` is the composition root: it creates every object of the process and connects them.
"""

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
from store import tracing
from store.jobs import workers
from store.process_limits import (
    cpu_limit,
    forbid_core_dumps,
    limit_own_memory,
    memory_limit,
)
from store.queue.job_notifications import JobNotifications
from store.settings import Settings
from store.store import Store
from worker.calls import listener
from worker.execution.runner import Runner
from worker.handlers import HANDLERS
from worker.loading.library import CACHE_BYTES, Library
from worker.process.memory_use import memory_use
from worker.process.process_env import QUEUES_VARIABLE
from worker.process.shutdown_listener import ShutdownListener

log = logging.getLogger(__name__)

_PRESENCE_SECONDS = 5.0
_CALL_CACHE_BYTES = 256 * 1024 * 1024  # of each thread that answers calls


@dataclass(frozen=True)
class Child:
    store: Store
    runner: Runner
    name: str
    queues: Sequence[Queue]
    device: str
    signed_off: threading.Event = field(default_factory=threading.Event)

    def shut_down(self) -> None:
        self.runner.shut_down()

    @property
    def is_idle(self) -> bool:
        return self.runner.is_idle

    def sign_off(self) -> None:
        """Removes this worker from the list of live workers."""
        self.signed_off.set()
        tracing.flush()
        try:
            with self.store.database.transaction() as session:
                workers.leave(session, self.name)
        except SQLAlchemyError:
            log.warning("Could not delete the worker's row; it will expire", exc_info=True)

    def report_presence(self) -> None:
        """Keeps this worker in the list of live workers until it signs off."""
        while not self.signed_off.is_set():
            try:
                with self.store.database.transaction() as session:
                    workers.beat(
                        session,
                        name=self.name,
                        queues=self.queues,
                        device=self.device,
                        pid=os.getpid(),
                    )
            except SQLAlchemyError:
                log.warning("Could not write the worker's presence", exc_info=True)
            self.store.metrics.report_worker(self.name, memory_use(self.device))
            self.signed_off.wait(_PRESENCE_SECONDS)


_current: Child | None = None


def current() -> Child:
    assert _current is not None, "the child process has not been started"
    return _current


def start(hostname: str, shutdown_listener: ShutdownListener) -> None:
    """Prepares the process before its first job, so that no job waits for the slow parts."""
    global _current  # noqa: PLW0603 — Celery passes nothing from here to its tasks
    settings = Settings.from_environment()
    forbid_core_dumps()
    torch.set_num_threads(_thread_count(settings))
    keep_freed_memory()
    queues = tuple(Queue(name) for name in os.environ[QUEUES_VARIABLE].split(","))
    tracing.configure("worker")
    _current = build(settings, hostname, queues)
    if _current.device == "cpu":  # CUDA reserves more address space than there is memory
        limit_own_memory()
    shutdown_listener.attach(_current)
    threading.Thread(target=_current.report_presence, name="presence", daemon=True).start()
    if Queue.LIGHT in queues:
        _answer_calls(_current, settings)
    log.info("Ready on %s with %d threads", _current.device, torch.get_num_threads())


def _answer_calls(child: Child, settings: Settings) -> None:
    assert settings.redis_url is not None
    listener.start(
        child.store,
        settings.redis_url,
        torch.device(child.device),
        threads=torch.get_num_threads(),
        cache_bytes=min(_CALL_CACHE_BYTES, memory_limit() // 16),
        stopping=child.signed_off.is_set,
    )


def build(settings: Settings, hostname: str, queues: Sequence[Queue]) -> Child:
    assert settings.redis_url is not None, "a worker needs a broker"
    store = Store.open(settings, migrate=False)
    device = choose_device(settings.device)
    library = Library(
        store.artifacts,
        device,
        cache_bytes=min(CACHE_BYTES, memory_limit() // 4),
        neighbourhood_nodes=settings.max_neighbourhood_nodes,
        exact_nodes=settings.exact_nodes,
    )
    runner = Runner(
        store,
        library,
        HANDLERS,
        owner=f"{hostname}:{os.getpid()}",
        queues=queues,
        on_ended=JobNotifications(settings.redis_url).publish,
    )
    return Child(store=store, runner=runner, name=hostname, queues=queues, device=str(device))


def _thread_count(settings: Settings) -> int:
    return settings.threads or max(1, int(cpu_limit()) // 2)
