"""The pool's child process: the one that imports torch, holds the models and runs the jobs."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from sqlalchemy.exc import SQLAlchemyError

from models.device import choose_device
from store import workers
from store.opened import Store
from store.settings import Settings
from worker.handlers import HANDLERS
from worker.inheritance import LISTENED, PARENT, QUEUES
from worker.loading import Library
from worker.runner import Runner

log = logging.getLogger(__name__)

_PRESENCE_SECONDS = 5.0
_PARENT_SECONDS = 0.5
_LEAVE_PAUSE = 0.05


@dataclass(frozen=True)
class Child:
    store: Store
    runner: Runner
    name: str
    queues: Sequence[str]
    device: str
    leaving: threading.Event = field(default_factory=threading.Event)


_current: Child | None = None


def current() -> Child:
    assert _current is not None, "the child process has not been started"
    return _current


def start(hostname: str) -> None:
    """Called once, before the first job; everything slow happens here and not in a job."""
    global _current  # noqa: PLW0603 — Celery hands nothing from here to its tasks
    settings = Settings.from_environment()
    torch.set_num_threads(_threads(settings))
    store = Store.open(settings, migrate=False)
    device = choose_device(settings.device)
    library = Library(store.artifacts, device)
    _current = Child(
        store=store,
        runner=Runner(store, library, HANDLERS, owner=f"{hostname}:{os.getpid()}"),
        name=hostname,
        queues=tuple(os.environ[QUEUES].split(",")),
        device=str(device),
    )
    for job in (_listen, _follow_parent, _show_presence):
        threading.Thread(target=job, args=(_current,), name=job.__name__, daemon=True).start()
    log.info("ready on %s with %d threads", device, torch.get_num_threads())


def _threads(settings: Settings) -> int:
    return settings.threads or max(1, (os.cpu_count() or 1) // 2)


def _listen(child: Child) -> None:
    """SHUTDOWN: the parent will end this process. SIGTERM: this process ends itself.

    A thread waits for the signals instead of a handler, which Python would only call when the
    main thread comes back from whatever torch is computing.
    """
    while True:
        received = signal.sigwait(LISTENED)
        child.runner.shut_down()
        if received == signal.SIGTERM:
            # The watchdog ends a job that does not stop, so this takes no longer than its grace.
            while not child.runner.is_idle:
                time.sleep(_LEAVE_PAUSE)
            _leave(child)
            os._exit(0)
        _leave(child)


def _follow_parent(child: Child) -> None:
    """A child without its parent gets no more jobs and nobody would ever end it."""
    parent = int(os.environ[PARENT])
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    os._exit(1)  # as if killed with the parent: the lease runs out, another worker goes on


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


def _leave(child: Child) -> None:
    child.leaving.set()
    try:
        with child.store.database.transaction() as session:
            workers.leave(session, child.name)
    except SQLAlchemyError:
        log.warning("the worker's row stays until it is old", exc_info=True)
