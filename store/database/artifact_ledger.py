"""Which artifacts the rows of a tenant refer to, and how large they are.

A transaction notes the artifacts that its rows refer to or no longer refer to; `write` stores the
notes at its end. `store.retention.unused_artifacts` deletes files that no row needs. Both follow
one protocol, so that no referenced file is deleted, whatever happens at the same time:

1. The deletion sets `deleting_since` of the entry and commits. It skips entries that others lock:
   a transaction locks the entries that it refers to.
2. It then looks for references, locks the entries that are still marked, and deletes their files.
3. A transaction that refers to a marked entry looks whether the file exists. If so, it removes the
   mark; if not, it fails with `ArtifactDeleted` and the caller stores the file again.

Marks outlive the deletion by a day: a file may be stored before it and referred to after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from sqlalchemy import bindparam, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from store.database.artifact_uses import Key
from store.database.clock import now
from store.database.tables import ArtifactEntry, TenantUsage
from store.errors import ArtifactDeleted

SizeOf = Callable[[str, str], int | None]  # of a tenant's artifact; None if it does not exist

_SIZE_OF = "artifact size"  # keys in `session.info`; a session lives for one transaction
_REFERRED = "artifacts referred to"
_RELEASED = "artifacts released"
_MAX_LISTED = 500  # digests in one query


def session_info(size_of: SizeOf | None) -> dict[str, SizeOf | None]:
    return {_SIZE_OF: size_of}


def refer(session: Session, tenant: str, *digests: str | None) -> None:
    """Notes that rows of this transaction refer to these artifacts."""
    _noted(session, _REFERRED)[tenant].update(filter(None, digests))


def release(session: Session, tenant: str, *digests: str | None) -> None:
    """Notes that a row no longer refers to these artifacts; other rows may."""
    _noted(session, _RELEASED)[tenant].update(filter(None, digests))


def write(session: Session) -> None:
    """Stores the notes at the end of a transaction, in a fixed order to avoid deadlocks."""
    referred = session.info.pop(_REFERRED, {})
    released = session.info.pop(_RELEASED, {})
    for tenant in sorted(referred.keys() | released.keys()):
        _write_references(session, tenant, sorted(referred.get(tenant, ())))
        _write_releases(session, tenant, sorted(released.get(tenant, ())))


def mark_unknown(session: Session, keys: Iterable[Key], at: float) -> None:
    """Marks files without an entry for deletion, and those that came back after their deletion."""
    new = _upsert(session)(ArtifactEntry)
    session.execute(
        new.on_conflict_do_update(
            index_elements=[ArtifactEntry.tenant_id, ArtifactEntry.digest],
            set_={"released_at": new.excluded.released_at},
            where=ArtifactEntry.deleting_since.is_not(None),
        ),
        [
            {
                "tenant_id": tenant,
                "digest": digest,
                "size": 0,
                "released_at": at,
                "deleting_since": at,
            }
            for tenant, digest in keys
        ],
    )


def add_usage(session: Session, tenant: str, stored_bytes: int) -> None:
    """Counts bytes that a tenant stores, or no longer stores."""
    new = _upsert(session)(TenantUsage).values(tenant_id=tenant, stored_bytes=stored_bytes)
    session.execute(
        new.on_conflict_do_update(
            index_elements=[TenantUsage.tenant_id],
            set_={"stored_bytes": TenantUsage.stored_bytes + new.excluded.stored_bytes},
        )
    )


def _write_references(session: Session, tenant: str, digests: list[str]) -> None:
    for first in range(0, len(digests), _MAX_LISTED):
        _refer_to(session, tenant, digests[first : first + _MAX_LISTED])


def _refer_to(session: Session, tenant: str, digests: list[str]) -> None:
    known = {row.digest: row for row in _locked(session, tenant, digests)}
    new = [digest for digest in digests if digest not in known]
    added = _inserted(session, tenant, new)
    # Another transaction inserted these meanwhile.
    known |= {row.digest: row for row in _locked(session, tenant, sorted(set(new) - added))}
    revived = sorted(digest for digest, row in known.items() if row.deleting_since)
    sizes = {digest: _size(session, tenant, digest) for digest in revived}
    if revived:
        session.connection().execute(
            update(ArtifactEntry)
            .where(ArtifactEntry.tenant_id == tenant, ArtifactEntry.digest == bindparam("named"))
            .values(size=bindparam("found"), deleting_since=None, released_at=None),
            [{"named": digest, "found": sizes[digest]} for digest in revived],
        )
        add_usage(session, tenant, sum(sizes[digest] - known[digest].size for digest in revived))


def _inserted(session: Session, tenant: str, digests: list[str]) -> set[str]:
    """Inserts entries, except those that another transaction has inserted."""
    if not digests:
        return set()
    sizes = {digest: _size(session, tenant, digest) for digest in digests}
    rows = [{"tenant_id": tenant, "digest": digest, "size": size} for digest, size in sizes.items()]
    insertion = _upsert(session)(ArtifactEntry).on_conflict_do_nothing()
    added = set(session.scalars(insertion.returning(ArtifactEntry.digest), rows))
    add_usage(session, tenant, sum(sizes[digest] for digest in added))
    return added


def _locked(session: Session, tenant: str, digests: list[str]) -> list[ArtifactEntry]:
    """The entries; their deletion cannot begin before the transaction ends."""
    if not digests:
        return []
    query = select(ArtifactEntry).where(
        ArtifactEntry.tenant_id == tenant, ArtifactEntry.digest.in_(digests)
    )
    return list(
        session.scalars(
            query.order_by(ArtifactEntry.digest)
            .with_for_update(read=True)
            .execution_options(populate_existing=True)
        )
    )


def _write_releases(session: Session, tenant: str, digests: list[str]) -> None:
    for first in range(0, len(digests), _MAX_LISTED):
        session.execute(
            update(ArtifactEntry)
            .where(
                ArtifactEntry.tenant_id == tenant,
                ArtifactEntry.digest.in_(digests[first : first + _MAX_LISTED]),
            )
            .values(released_at=now())
            .execution_options(synchronize_session=False)
        )


def _size(session: Session, tenant: str, digest: str) -> int:
    size_of: SizeOf | None = session.info.get(_SIZE_OF)
    if size_of is None:  # a database without artifacts, as in some tests
        return 0
    size = size_of(tenant, digest)
    if size is None:
        raise ArtifactDeleted(digest)
    return size


def _noted(session: Session, key: str) -> defaultdict[str, set[str]]:
    noted: defaultdict[str, set[str]] = session.info.setdefault(key, defaultdict(set))
    return noted


def _upsert(session: Session):  # type: ignore[no-untyped-def]
    return postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
