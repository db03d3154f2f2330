"""Elects one of several processes as the leader: a database row with a lease."""

from __future__ import annotations

from sqlalchemy import or_, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from store.database.sessions import now, read_clock
from store.database.tables import Lead


def acquire(session: Session, name: str, owner: str, lease_seconds: float) -> bool:
    """Acquires or renews the lease; False while another process holds it."""
    renewed = session.scalars(
        update(Lead)
        .where(Lead.name == name, or_(Lead.owner == owner, Lead.lease_until < now()))
        .values(owner=owner, lease_until=now() + lease_seconds)
        .returning(Lead.name)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if renewed is not None:
        return True
    if session.get(Lead, name) is not None:
        return False
    try:
        with session.begin_nested():
            until = read_clock(session) + lease_seconds
            session.add(Lead(name=name, owner=owner, lease_until=until))
            session.flush()
    except IntegrityError:  # another process was first
        return False
    return True


def release(session: Session, name: str, owner: str) -> None:
    """Ends the lease, so that another process can lead at once."""
    session.execute(
        update(Lead).where(Lead.name == name, Lead.owner == owner).values(lease_until=0.0)
    )


def record_epoch(session: Session, name: str, epoch: str) -> bool:
    """Stores the broker's epoch; True if it has changed."""
    changed = session.scalars(
        update(Lead)
        .where(Lead.name == name, Lead.broker_epoch.is_distinct_from(epoch))
        .values(broker_epoch=epoch)
        .returning(Lead.name)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    return changed is not None
