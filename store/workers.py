"""Which workers are alive."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from store.database import now, read_clock
from store.job_states import Queue
from store.tables import Worker


def beat(
    session: Session, *, name: str, queues: Sequence[Queue | str], device: str, pid: int
) -> None:
    """Says that a worker is alive and what it serves."""
    at = read_clock(session)
    worker = session.get(Worker, name)
    if worker is None:
        worker = Worker(name=name, started_at=at)
        session.add(worker)
    worker.queues = ",".join(queues)
    worker.device = device
    worker.pid = pid
    worker.seen_at = at
    session.flush()


def live(session: Session, within: float = 30.0) -> list[Worker]:
    """Workers that were heard of in the last `within` seconds."""
    return list(
        session.scalars(
            select(Worker).where(Worker.seen_at >= now() - within).order_by(Worker.name)
        )
    )


def leave(session: Session, name: str) -> None:
    """A worker that stops says so."""
    session.execute(delete(Worker).where(Worker.name == name))


def forget_silent(session: Session, within: float = 24 * 3600.0) -> None:
    session.execute(delete(Worker).where(Worker.seen_at < now() - within))
