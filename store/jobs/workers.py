"""Which workers are alive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import Queue
from store.database.sessions import now
from store.database.tables import Worker


def beat(
    session: Session, *, name: str, queues: Sequence[Queue | str], device: str, pid: int
) -> None:
    """Says that a worker is alive and what it serves."""
    says: dict[str, str | int] = {"queues": ",".join(queues), "device": device, "pid": pid}
    if _say_again(session, name, says):
        return
    try:
        with session.begin_nested():
            session.add(Worker(name=name, **says))
            session.flush()
    except IntegrityError:  # the same worker has said so at this very moment
        _say_again(session, name, says)


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


def _say_again(session: Session, name: str, says: Mapping[str, str | int]) -> bool:
    known = session.scalars(
        update(Worker)
        .where(Worker.name == name)
        .values(**says, seen_at=now())
        .returning(Worker.name)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    return known is not None
