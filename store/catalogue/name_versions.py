"""Counts the versions of names, for GNNs and reference sets."""

from __future__ import annotations

from sqlalchemy import insert, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from store.database.tables import DatasetName, GnnName


def next_version(
    session: Session, counter: type[GnnName] | type[DatasetName], name: str, tenant: str
) -> int:
    """Increments the version under a row lock; other registrations of this name wait."""
    counted = (
        update(counter)
        .where(counter.tenant_id == tenant, counter.name == name)
        .values(last_version=counter.last_version + 1)
        .returning(counter.last_version)
    )
    version = session.scalar(counted)
    if version is None:
        try:
            with session.begin_nested():
                first = insert(counter).values(tenant_id=tenant, name=name, last_version=0)
                session.execute(first)
        except IntegrityError:  # another transaction was first
            pass
        version = session.scalar(counted)
        assert version is not None
    return version
