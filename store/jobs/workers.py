"""Heartbeats of workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from socket import gethostname

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import Queue
from store.database.sessions import now
from store.database.tables import Worker
from store.errors import ManyMachines
from store.jobs.submission import JOB_FORMAT

_LIVE_SECONDS = 30.0  # since the last heartbeat
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def beat(
    session: Session, *, name: str, queues: Sequence[Queue | str], device: str, pid: int
) -> None:
    """Records that a worker is alive, with its queues, device and version."""
    fields: dict[str, str | int] = {
        "queues": ",".join(queues),
        "device": device,
        "pid": pid,
        "job_format": JOB_FORMAT,
        "version": version("d4explain"),
        "machine": machine_id(),
    }
    if _update(session, name, fields):
        return
    try:
        with session.begin_nested():
            session.add(Worker(name=name, **fields))
            session.flush()
    except IntegrityError:  # the same worker inserted its row at the same time
        _update(session, name, fields)


def live(session: Session, within: float = _LIVE_SECONDS) -> list[Worker]:
    """Workers with a heartbeat in the last `within` seconds."""
    return list(session.scalars(select(Worker).where(_is_live(within)).order_by(Worker.name)))


@cache
def machine_id() -> str:
    """The same for all containers of a machine, whose host names differ; new after each boot."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:  # not Linux
        return gethostname()


def require_one_machine(session: Session) -> None:
    """Raises `ManyMachines` if a live worker runs on another machine.

    SQLite processes share memory, so their file cannot serve two machines.
    """
    for worker in live(session):
        if worker.machine != machine_id():
            raise ManyMachines(worker.name)


def serve(queue: Queue) -> tuple[ColumnElement[bool], ...]:
    """Conditions of a live worker that serves a queue."""
    return (_is_live(_LIVE_SECONDS), ("," + Worker.queues + ",").contains(f",{queue},"))


def _is_live(within: float) -> ColumnElement[bool]:
    return Worker.seen_at >= now() - within


def leave(session: Session, name: str) -> None:
    """Removes a worker that stops."""
    session.execute(delete(Worker).where(Worker.name == name))


def delete_dead(session: Session, within: float = 24 * 3600.0) -> None:
    session.execute(delete(Worker).where(Worker.seen_at < now() - within))


def _update(session: Session, name: str, fields: Mapping[str, str | int]) -> bool:
    known = session.scalars(
        update(Worker)
        .where(Worker.name == name)
        .values(**fields, seen_at=now())
        .returning(Worker.name)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    return known is not None
