"""Metadata of callers: a few named texts, numbers and truths on a resource of theirs.

The column `caller_metadata` of a row has the values. `metadata_entries` has them as texts, so that
lists find them by an index; `write` and `forget` keep both the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import delete, insert
from sqlalchemy.orm import Session

from d4explain.contracts.errors import InvalidInput
from store.database.tables import (
    ApiKey,
    Comparison,
    Dataset,
    Denoiser,
    Evaluation,
    Explanation,
    Gnn,
    Job,
    MetadataEntry,
    Webhook,
)
from store.database.tables.base import JsonObject

MAX_KEYS = 16
MAX_TEXT = 256  # characters of a value

_INSERT = insert(MetadataEntry)


Described = (
    Gnn | Dataset | Denoiser | Explanation | Evaluation | Comparison | Job | Webhook | ApiKey
)


def write(session: Session, rows: Iterable[Described]) -> None:
    """Enters the metadata of new rows, or of rows whose entries were forgotten before."""
    entries = [
        {"tenant_id": row.tenant_id, "resource_id": row.id, "key": key, "value": text_of(value)}
        for row in rows
        for key, value in (row.caller_metadata or {}).items()
    ]
    if entries:
        session.connection().execute(_INSERT, entries)


def forget(session: Session, ids: Sequence[str]) -> None:
    """Deletes the entries of deleted rows."""
    if ids:
        session.execute(
            delete(MetadataEntry)
            .where(MetadataEntry.resource_id.in_(ids))
            .execution_options(synchronize_session=False)
        )


def merged(stored: JsonObject | None, changes: Mapping[str, object]) -> JsonObject:
    """Merges as RFC 7396 does: null removes a key, and missing keys stay."""
    values = {**(stored or {}), **changes}
    left = {key: value for key, value in values.items() if value is not None}
    if len(left) > MAX_KEYS:
        raise InvalidInput(
            f"the metadata would have {len(left)} keys; at most {MAX_KEYS} are accepted",
            "/metadata",
            allowed=MAX_KEYS,
        )
    return left


def text_of(value: object) -> str:
    """The text by which a value is found: as JSON writes it, but whole numbers without `.0`."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)


def texts_of(asked: str) -> list[str]:
    """The texts that a filter finds: what was asked for, and the number that it writes."""
    try:
        value = json.loads(asked)
    except ValueError:
        return [asked]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        return [asked]
    return sorted({asked, text_of(value)})
