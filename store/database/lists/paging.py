"""Keyset pagination: newest first, and stable while new rows arrive."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy import Select, tuple_
from sqlalchemy.orm import Session

from d4explain.contracts.errors import InvalidInput
from store.database.tables.base import Resource

Row = TypeVar("Row", bound=Resource)


@dataclass(frozen=True)
class Page(Generic[Row]):
    items: list[Row]
    next_cursor: str | None


def page_of(
    session: Session, query: Select[Row], table: type[Row], cursor: str | None, limit: int
) -> Page[Row]:
    """The rows after `cursor` by (created_at, id) descending."""
    key = tuple_(table.created_at, table.id)
    if cursor is not None:
        query = query.where(key < tuple_(*_decoded(cursor)))
    query = query.order_by(table.created_at.desc(), table.id.desc()).limit(limit + 1)
    rows = list(session.scalars(query))
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(rows, _encoded(rows[-1]) if more and rows else None)


def _encoded(row: Resource) -> str:
    # JSON keeps all digits of the float.
    key = json.dumps([row.created_at, row.id])
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def _decoded(cursor: str) -> tuple[float, str]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        created_at, id_ = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error):
        created_at, id_ = None, None
    if not isinstance(created_at, int | float) or not isinstance(id_, str):
        raise InvalidInput(
            "invalid cursor; use `next_cursor` of the previous page, or omit it to start again",
            pointer="/cursor",
        )
    return float(created_at), id_
