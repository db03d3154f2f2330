"""One of several processes leads: a row with a lease."""

from __future__ import annotations

from sqlalchemy import or_, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from store.database.sessions import now, read_clock
from store.database.tables import Lead


def take(session: Session, name: str, owner: str, lease_seconds: float) -> bool:
    """Takes or renews the lead; False while another process holds it."""
    taken = session.scalars(
        update(Lead)
        .where(Lead.name == name, or_(Lead.owner == owner, Lead.lease_until < now()))
        .values(owner=owner, lease_until=now() + lease_seconds)
        .returning(Lead.name)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if taken is not None:
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


def give_up(session: Session, name: str, owner: str) -> None:
    """Lets another process lead at once."""
    session.execute(
        update(Lead).where(Lead.name == name, Lead.owner == owner).values(lease_until=0.0)
    )


def note_epoch(session: Session, name: str, epoch: str) -> bool:
    """Remembers the broker's epoch; True if it was another one, or none, before."""
    changed = session.scalars(
        update(Lead)
        .where(Lead.name == name, Lead.broker_epoch.is_distinct_from(epoch))
        .values(broker_epoch=epoch)
        .returning(Lead.name)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    return changed is not None
