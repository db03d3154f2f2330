"""Maps a client's Idempotency-Key to the resource that it created."""

from __future__ import annotations

import hashlib

from sqlalchemy import delete, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from store.database.job_policy import policy_of
from store.database.sessions import now
from store.database.tables import IdempotencyKey
from store.errors import IdempotencyMismatch


def find(
    session: Session,
    *,
    key: str,
    body_sha256: str,
    route: str,
    tenant: str,
    lock: bool = True,
) -> str | None:
    """The resource that this request created before; None for a new key.

    Call it before you create anything: until the transaction ends, other requests with the same key
    wait here and then find the stored resource. Without `lock` it only reads.
    """
    if lock and _is_postgres(session):
        digest = hashlib.sha256(f"{tenant}\n{key}".encode()).digest()[:8]
        session.execute(
            text("SELECT pg_advisory_xact_lock(:lock)"),
            {"lock": int.from_bytes(digest, "big", signed=True)},
        )
    known = session.scalar(
        select(IdempotencyKey).where(
            IdempotencyKey.tenant_id == tenant,
            IdempotencyKey.key == key,
            IdempotencyKey.expires_at > now(),
        )
    )
    if known is None:
        return None
    if (known.body_sha256, known.route) != (body_sha256, route):
        raise IdempotencyMismatch(key)
    return known.resource


def remember(
    session: Session,
    *,
    key: str,
    body_sha256: str,
    route: str,
    resource: str,
    tenant: str,
) -> str:
    """Binds the key to the resource and returns the resource of the key.

    It returns another resource only if the transaction did not call `find` first and lost a race.
    The caller must then roll back.
    """
    upsert = postgresql.insert if _is_postgres(session) else sqlite.insert
    new = {
        "body_sha256": body_sha256,
        "route": route,
        "resource": resource,
        "created_at": now(),
        "expires_at": now() + policy_of(session).idempotency_seconds,
    }
    bound = session.scalar(
        upsert(IdempotencyKey)
        .values(tenant_id=tenant, key=key, **new)
        .on_conflict_do_update(
            index_elements=[IdempotencyKey.tenant_id, IdempotencyKey.key],
            set_=new,
            where=IdempotencyKey.expires_at <= now(),
        )
        .returning(IdempotencyKey.resource)
    )
    if bound is not None:
        return resource
    winner = find(session, key=key, body_sha256=body_sha256, route=route, tenant=tenant)
    return winner or resource


def delete_expired(session: Session) -> None:
    session.execute(delete(IdempotencyKey).where(IdempotencyKey.expires_at <= now()))


def _is_postgres(session: Session) -> bool:
    return session.get_bind().dialect.name == "postgresql"
