"""Chains the entries of the audit log, one chain per tenant.

Entries get their place after their commit, by the leader: a place that were taken inside the
action's transaction would make all actions of a tenant wait for each other, and numbers of a
sequence have gaps and may be committed in another order.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from d4explain.contracts.receipts.audit_chain import START, ChainedEntry, ChainEnd
from store.database.tables.audit import AuditEntry

_BATCH = 1000


def is_anything_unchained(session: Session) -> bool:
    return (
        session.scalar(select(AuditEntry.id).where(AuditEntry.position.is_(None)).limit(1))
        is not None
    )


def chain(session: Session) -> int:
    """Chains the committed entries that have no place yet; returns their number.

    Two leaders at once cannot both succeed: a place in a chain is unique.
    """
    unchained = session.scalars(
        select(AuditEntry)
        .where(AuditEntry.position.is_(None))
        .order_by(AuditEntry.id)
        .limit(_BATCH)
    ).all()
    ends: dict[str, ChainEnd] = {}
    for entry in unchained:
        tenant = entry.tenant_id
        last = ends.get(tenant) or head(session, tenant)
        entry.position = last.position + 1
        entry.chain_sha256 = chained_entry(entry).hashed(last.chain_sha256)
        ends[tenant] = ChainEnd(tenant, entry.position, entry.chain_sha256)
    session.flush()
    return len(unchained)


def head(session: Session, tenant: str) -> ChainEnd:
    """The newest entry of the tenant's chain."""
    with session.no_autoflush:
        newest = session.execute(
            select(AuditEntry.position, AuditEntry.chain_sha256)
            .where(AuditEntry.tenant_id == tenant, AuditEntry.position.is_not(None))
            .order_by(AuditEntry.position.desc())
            .limit(1)
        ).one_or_none()
    if newest is None:
        return ChainEnd(tenant, 0, START)
    return ChainEnd(tenant, newest.position or 0, newest.chain_sha256 or START)


def page(session: Session, tenant: str, after: int, limit: int) -> list[ChainedEntry]:
    """The entries after this position, oldest first."""
    rows = session.scalars(
        select(AuditEntry)
        .where(AuditEntry.tenant_id == tenant, AuditEntry.position > after)
        .order_by(AuditEntry.position)
        .limit(limit)
    )
    return [chained_entry(row) for row in rows]


def chained_entry(row: AuditEntry) -> ChainedEntry:
    return ChainedEntry(
        position=row.position or 0,
        at=datetime.fromtimestamp(row.at, UTC).isoformat(timespec="microseconds"),
        tenant=row.tenant_id,
        source=row.source.value,
        key_id=row.key_id,
        action=row.action,
        resource=row.resource,
        content_sha256=row.content_sha256,
        request_id=row.request_id,
        outcome=row.outcome.value,
        chain_sha256=row.chain_sha256 or "",
    )
