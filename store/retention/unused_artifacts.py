"""Deletes artifacts that no row refers to; `store.database.artifact_ledger` has the protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, or_, select, tuple_, update
from sqlalchemy.orm import Session

from store.artifacts.artifact_store import ArtifactStore
from store.database import artifact_ledger, artifact_uses
from store.database.artifact_uses import Key
from store.database.sessions import Database, read_clock
from store.database.tables import ArtifactEntry
from store.errors import ArtifactDeleted

# An artifact is stored before the row that refers to it; this is the longest time between.
MIN_AGE_SECONDS = 24 * 3600.0

_BATCH = 100
_KEY = tuple_(ArtifactEntry.tenant_id, ArtifactEntry.digest)


@dataclass(frozen=True)
class DeletedArtifacts:
    count: int = 0
    size: int = 0  # bytes

    def __add__(self, other: DeletedArtifacts) -> DeletedArtifacts:
        return DeletedArtifacts(self.count + other.count, self.size + other.size)


def delete_released(
    database: Database, artifacts: ArtifactStore, should_stop: Callable[[], bool] = lambda: False
) -> DeletedArtifacts:
    """Deletes the released artifacts that no other row needs."""
    deleted = DeletedArtifacts()
    seen: set[Key] = set()  # an entry that another transaction locks is left for the next call
    while not should_stop():
        with database.reading() as session:
            released = [key for key in _released(session, len(seen) + _BATCH) if key not in seen]
        if not released:
            break
        seen.update(released)
        deleted += _delete(database, artifacts, released)
    return deleted


def compare_with_rows(database: Database) -> None:
    """Enters artifacts of earlier versions and releases those whose release was not noted."""
    with database.reading() as session:
        needed = {use.key for use in artifact_uses.referenced(session)}
        entries = session.execute(
            select(ArtifactEntry.tenant_id, ArtifactEntry.digest).where(
                ArtifactEntry.released_at.is_(None), ArtifactEntry.deleting_since.is_(None)
            )
        )
        known = {(tenant, digest) for tenant, digest in entries}
    for tenant, digest in sorted(needed - known):
        _enter(database, tenant, digest)
    unneeded = sorted(known - needed)
    for first in range(0, len(unneeded), _BATCH):
        with database.transaction() as session:
            for tenant, digest in unneeded[first : first + _BATCH]:
                artifact_ledger.release(session, tenant, digest)


def release_unknown(
    database: Database, artifacts: ArtifactStore, min_age_seconds: float = MIN_AGE_SECONDS
) -> None:
    """Releases files that no transaction has referred to, as those of interrupted uploads."""
    old = [listed for listed in artifacts.listed() if _age(listed.modified_at) > min_age_seconds]
    with database.reading() as session:
        kept = select(ArtifactEntry.tenant_id, ArtifactEntry.digest).where(
            or_(ArtifactEntry.deleting_since.is_(None), ArtifactEntry.released_at.is_not(None))
        )
        known = {(tenant, digest) for tenant, digest in session.execute(kept)}
        known.update(use.key for use in artifact_uses.referenced(session))
    unknown = sorted({(listed.tenant, listed.digest) for listed in old} - known)
    for first in range(0, len(unknown), _BATCH):
        with database.transaction() as session:
            at = read_clock(session)
            artifact_ledger.mark_unknown(session, unknown[first : first + _BATCH], at)


def forget_deleted(session: Session, before: float) -> None:
    """Deletes the entries of artifacts that were deleted before that time."""
    session.execute(
        delete(ArtifactEntry).where(
            ArtifactEntry.released_at.is_(None), ArtifactEntry.deleting_since < before
        )
    )


def _delete(database: Database, artifacts: ArtifactStore, keys: Sequence[Key]) -> DeletedArtifacts:
    with database.transaction() as session:
        marked = _locked(session, keys, ArtifactEntry.deleting_since.is_(None))
        _change(session, list(marked), deleting_since=read_clock(session))
    # A transaction that refers to one of them from now on sees the mark.
    with database.reading() as session:
        needed = artifact_uses.users_of(session, keys).keys()
    with database.transaction() as session:
        still_marked = _locked(session, keys, ArtifactEntry.deleting_since.is_not(None))
        unneeded = {key: size for key, size in still_marked.items() if key not in needed}
        # Read again under the locks: a row that is gone since has noted its release, which the next
        # call has to find.
        kept = artifact_uses.users_of(session, [*still_marked.keys() & needed]).keys()
        _change(session, [*kept], deleting_since=None, released_at=None)
        count = sum(artifacts.of(tenant).delete(digest) for tenant, digest in unneeded)
        _change(session, list(unneeded), size=0, released_at=None)
        for tenant in sorted({tenant for tenant, _ in unneeded}):
            freed = sum(size for key, size in unneeded.items() if key[0] == tenant)
            artifact_ledger.add_usage(session, tenant, -freed)
    return DeletedArtifacts(count, sum(unneeded.values()))


def _released(session: Session, limit: int) -> list[Key]:
    rows = session.execute(
        select(ArtifactEntry.tenant_id, ArtifactEntry.digest)
        .where(ArtifactEntry.released_at.is_not(None))
        .order_by(ArtifactEntry.released_at, ArtifactEntry.digest)
        .limit(limit)
    )
    return [(tenant, digest) for tenant, digest in rows]


def _locked(
    session: Session, keys: Sequence[Key], condition: ColumnElement[bool]
) -> dict[Key, int]:
    """The sizes of the released artifacts; those that others lock are skipped, not waited for."""
    rows = session.execute(
        select(ArtifactEntry.tenant_id, ArtifactEntry.digest, ArtifactEntry.size)
        .where(_KEY.in_(keys), ArtifactEntry.released_at.is_not(None), condition)
        .with_for_update(skip_locked=True)
    )
    return {(tenant, digest): size for tenant, digest, size in rows}


def _change(session: Session, keys: Sequence[Key], **values: float | None) -> None:
    if keys:
        session.execute(
            update(ArtifactEntry)
            .where(_KEY.in_(keys))
            .values(**values)
            .execution_options(synchronize_session=False)
        )


def _enter(database: Database, tenant: str, digest: str) -> None:
    try:
        with database.transaction() as session:
            artifact_ledger.refer(session, tenant, digest)
    except ArtifactDeleted:
        pass  # the row refers to a file that is missing; whoever reads it says so


def _age(modified_at: float | None) -> float:
    """An artifact of unknown age counts as new, so that it is kept."""
    return 0.0 if modified_at is None else time.time() - modified_at
