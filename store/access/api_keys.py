"""API keys: made once, shown once and stored as a hash; each belongs to one tenant.

A tenant is a name. It exists as soon as it has a key, and all its keys see the same data.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from hmac import compare_digest

from sqlalchemy import ColumnElement, and_, not_, or_, select, update
from sqlalchemy.orm import Session

from d4explain.contracts.errors import InvalidInput, quoted
from d4explain.contracts.scopes import KeyState, Scope
from store.database.clock import now
from store.database.identifiers import new_id
from store.database.lists import caller_metadata
from store.database.lists.filters import NO_FILTERS, Filters
from store.database.lists.paging import Page, page_of
from store.database.sessions import read_clock
from store.database.tables.access import ApiKey
from store.database.tables.base import JsonObject
from store.errors import Conflict, NotFound

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_KEY = re.compile(r"(d4_[0-9a-f]{12})_[0-9a-f]{64}")
_PREFIX_BYTES = 6
_SECRET_BYTES = 32
LAST_USE_SECONDS = 60.0  # between two updates of `last_used_at`


@dataclass(frozen=True)
class NewKey:
    """A new key and its text, which cannot be read again."""

    row: ApiKey
    text: str


def new_text() -> str:
    """`d4_` + 12 hexadecimal digits that are shown in lists, + `_` + 256 random bits."""
    return f"d4_{secrets.token_hex(_PREFIX_BYTES)}_{secrets.token_hex(_SECRET_BYTES)}"


def create(
    session: Session,
    *,
    tenant: str,
    name: str,
    scopes: Collection[Scope],
    seconds: float | None = None,  # until it expires; None for never
    text: str | None = None,
    metadata: JsonObject | None = None,
) -> NewKey:
    """Creates a key; `text` is its text if the operator has chosen one already."""
    if not _TENANT.fullmatch(tenant):
        raise InvalidInput(
            f"the tenant is {quoted(tenant)}; it must be 1 to 63 characters of a-z, 0-9, - and _, "
            "and begin with a letter or digit"
        )
    if not scopes:
        raise InvalidInput(f"a key needs at least one scope of {', '.join(Scope)}")
    created_at = read_clock(session)
    text = text or new_text()
    row = ApiKey(
        id=new_id("key"),
        tenant_id=tenant,
        name=name,
        prefix=_prefix(text),
        sha256=_digest(text),
        scopes=[scope.value for scope in Scope if scope in scopes],
        created_at=created_at,
        expires_at=None if seconds is None else created_at + seconds,
        caller_metadata=metadata or None,
    )
    session.add(row)
    session.flush()
    caller_metadata.write(session, [row])
    return NewKey(row, text)


def ensure(session: Session, text: str, *, tenant: str, name: str) -> ApiKey:
    """Makes this text a key with all scopes, unless it is one already."""
    known = session.scalar(select(ApiKey).where(ApiKey.prefix == _prefix(text)))
    if known is None:
        return create(session, tenant=tenant, name=name, scopes=list(Scope), text=text).row
    if not compare_digest(known.sha256, _digest(text)) or known.tenant_id != tenant:
        raise Conflict(f"another key has the prefix {known.prefix}; choose another key")
    return known


def rotate(session: Session, key_id: str, tenant: str, *, overlap_seconds: float) -> NewKey:
    """Creates a key with the same name, scopes and lifetime; the old one ends after the overlap."""
    old = _locked(session, key_id, tenant)
    at = read_clock(session)
    if is_dead(old, at):
        raise Conflict(f"key {old.id} is revoked or expired; create another key instead")
    lifetime = None if old.expires_at is None else old.expires_at - old.created_at
    new = create(
        session,
        tenant=tenant,
        name=old.name,
        scopes=[Scope(scope) for scope in old.scopes],
        seconds=lifetime,
        metadata=old.caller_metadata,
    )
    new.row.rotated_from = old.id
    ends = at + overlap_seconds
    old.expires_at = ends if old.expires_at is None else min(old.expires_at, ends)
    session.flush()
    return new


def revoke(session: Session, key_id: str, tenant: str) -> ApiKey:
    """Ends the key now; a revoked key stays revoked, and its row stays."""
    row = _locked(session, key_id, tenant)
    if row.revoked_at is None:
        row.revoked_at = read_clock(session)
        session.flush()
    return row


def get(session: Session, key_id: str, tenant: str) -> ApiKey:
    row = session.scalar(select(ApiKey).where(ApiKey.id == key_id, ApiKey.tenant_id == tenant))
    if row is None:
        raise NotFound("key", key_id)
    return row


def page(
    session: Session,
    cursor: str | None = None,
    limit: int = 50,
    *,
    tenant: str,
    state: KeyState | None = None,
    filters: Filters = NO_FILTERS,
) -> Page[ApiKey]:
    query = filters.applied_to(select(ApiKey).where(ApiKey.tenant_id == tenant), ApiKey, tenant)
    if state is not None:
        query = query.where(_is_in(state))
    return page_of(session, query, ApiKey, cursor, limit)


def all_keys(session: Session, tenant: str | None = None) -> list[ApiKey]:
    """The keys of one tenant or of all of them, oldest first; for the operator."""
    query = select(ApiKey).order_by(ApiKey.created_at, ApiKey.id)
    if tenant is not None:
        query = query.where(ApiKey.tenant_id == tenant)
    return list(session.scalars(query))


def exist(session: Session) -> bool:
    """Whether there was ever a key: a deployment whose keys are all revoked stays closed."""
    return bool(session.scalar(select(select(ApiKey.id).exists())))


def authenticate(session: Session, text: str) -> ApiKey | None:
    """The valid key with this text; takes as long for a wrong secret as for the right one."""
    if not is_well_formed(text):
        return None
    row = session.scalar(select(ApiKey).where(ApiKey.prefix == _prefix(text)))
    matches = compare_digest(_digest(text), "" if row is None else row.sha256)
    if row is None or not matches or is_dead(row, read_clock(session)):
        return None
    return row


def note_use(session: Session, key_id: str) -> None:
    """Records the time of use, at most once in `LAST_USE_SECONDS`."""
    at = read_clock(session)
    session.execute(
        update(ApiKey)
        .where(
            ApiKey.id == key_id,
            or_(ApiKey.last_used_at.is_(None), ApiKey.last_used_at < at - LAST_USE_SECONDS),
        )
        .values(last_used_at=at)
        .execution_options(synchronize_session=False)
    )


def is_well_formed(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def _prefix(text: str) -> str:
    match = _KEY.fullmatch(text)
    if match is None:
        raise InvalidInput(
            "the key is malformed; expected d4_, 12 hexadecimal digits, _ and 64 hexadecimal digits"
        )
    return match[1]


def _digest(text: str) -> str:
    # A plain hash is enough: nobody can try 2^256 secrets.
    return hashlib.sha256(text.encode()).hexdigest()


def _locked(session: Session, key_id: str, tenant: str) -> ApiKey:
    row = session.scalar(
        select(ApiKey)
        .where(ApiKey.id == key_id, ApiKey.tenant_id == tenant)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if row is None:
        raise NotFound("key", key_id)
    return row


def state_of(row: ApiKey, at: float) -> KeyState:
    """`at` is the time by the database's clock."""
    if row.revoked_at is not None:
        return KeyState.REVOKED
    has_expired = row.expires_at is not None and row.expires_at <= at
    return KeyState.EXPIRED if has_expired else KeyState.ACTIVE


def _is_in(state: KeyState) -> ColumnElement[bool]:
    """Whether `state_of` is this one."""
    if state is KeyState.REVOKED:
        return ApiKey.revoked_at.is_not(None)
    has_expired = and_(ApiKey.expires_at.is_not(None), ApiKey.expires_at <= now())
    is_expected = has_expired if state is KeyState.EXPIRED else not_(has_expired)
    return and_(ApiKey.revoked_at.is_(None), is_expected)


def is_dead(row: ApiKey, at: float) -> bool:
    return state_of(row, at) is not KeyState.ACTIVE
