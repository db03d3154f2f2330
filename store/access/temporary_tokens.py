"""Short-lived tokens made from a key: sessions of browsers, and links to one explanation.

The database holds the hash of a token of 256 random bits. A token ends with the key that made it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from d4explain.contracts.scopes import TokenKind
from store.access.api_keys import is_dead
from store.database.identifiers import new_id
from store.database.lists.paging import Page, page_of
from store.database.sessions import now, read_clock
from store.database.tables.access import ApiKey, TemporaryToken
from store.errors import NotFound

_SECRET_BYTES = 32
_PREFIXES = {TokenKind.SESSION: "d4s", TokenKind.LINK: "d4v"}
_TEXT = re.compile(r"d4[sv]_[0-9a-f]{64}")
_ID_PREFIXES = {TokenKind.SESSION: "ses", TokenKind.LINK: "lnk"}


@dataclass(frozen=True)
class NewToken:
    """A new token and its text, which cannot be read again."""

    row: TemporaryToken
    text: str


@dataclass(frozen=True)
class ValidToken:
    row: TemporaryToken
    key: ApiKey | None  # None if the deployment had no keys when the token was made
    expires_at: float  # with its key, or before


def create(
    session: Session,
    kind: TokenKind,
    *,
    tenant: str,
    key_id: str | None,
    seconds: float,
    explanation_id: str | None = None,
) -> NewToken:
    text = f"{_PREFIXES[kind]}_{secrets.token_hex(_SECRET_BYTES)}"
    created_at = read_clock(session)
    row = TemporaryToken(
        id=new_id(_ID_PREFIXES[kind]),
        tenant_id=tenant,
        kind=kind,
        sha256=_digest(text),
        key_id=key_id,
        explanation_id=explanation_id,
        created_at=created_at,
        expires_at=created_at + seconds,
    )
    session.add(row)
    session.flush()
    return NewToken(row, text)


def authenticate(session: Session, text: str) -> ValidToken | None:
    """The valid token with this text."""
    if not _TEXT.fullmatch(text):
        return None
    found = session.execute(
        select(TemporaryToken, ApiKey)
        .outerjoin(ApiKey, ApiKey.id == TemporaryToken.key_id)
        .where(TemporaryToken.sha256 == _digest(text), TemporaryToken.expires_at > now())
    ).one_or_none()
    if found is None:
        return None
    row, key = found
    if row.key_id is not None and (key is None or is_dead(key, read_clock(session))):
        return None
    ends = [row.expires_at, *([key.expires_at] if key and key.expires_at is not None else [])]
    return ValidToken(row, key, min(ends))


def get(session: Session, token_id: str, tenant: str) -> TemporaryToken:
    row = session.scalar(
        select(TemporaryToken).where(
            TemporaryToken.id == token_id, TemporaryToken.tenant_id == tenant
        )
    )
    if row is None:
        raise NotFound("session", token_id)
    return row


def page(
    session: Session,
    cursor: str | None = None,
    limit: int = 50,
    *,
    tenant: str,
    explanation_id: str,
) -> Page[TemporaryToken]:
    """The links to one explanation that have not expired."""
    query = select(TemporaryToken).where(
        TemporaryToken.tenant_id == tenant,
        TemporaryToken.explanation_id == explanation_id,
        TemporaryToken.expires_at > now(),
    )
    return page_of(session, query, TemporaryToken, cursor, limit)


def end(session: Session, token_id: str, tenant: str, *, explanation_id: str | None = None) -> None:
    """Deletes the token: a session at logout, or a link to this explanation."""
    ended = session.scalar(
        delete(TemporaryToken)
        .where(
            TemporaryToken.id == token_id,
            TemporaryToken.tenant_id == tenant,
            TemporaryToken.explanation_id == explanation_id,
        )
        .returning(TemporaryToken.id)
    )
    if ended is None:
        raise NotFound("link" if explanation_id else "session", token_id)


def delete_expired(session: Session) -> None:
    session.execute(delete(TemporaryToken).where(TemporaryToken.expires_at <= now()))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
