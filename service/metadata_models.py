"""The metadata of callers, as bodies have it: a few named texts, numbers and truths."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import Field, PlainValidator, TypeAdapter, WithJsonSchema

from d4explain.resource_names import is_printable
from service.http.faults import kind_of
from store.database.lists.caller_metadata import MAX_KEYS, MAX_TEXT

KEY_PATTERN = "^[A-Za-z0-9_.-]{1,64}$"
_MAX_WHOLE = 2**53 - 1  # JSON readers may round larger ones
_ALLOWED = f"should be a text of at most {MAX_TEXT} characters, a number, true or false"


def _value(value: Any) -> str | int | float | bool:
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise ValueError(f"{_ALLOWED}; got {len(value):,} characters")
        if not is_printable(value):
            raise ValueError("should have no control characters")
        return value
    if isinstance(value, bool):
        return value
    if not isinstance(value, int | float):
        raise ValueError(f"{_ALLOWED}; got {kind_of(value)}")
    if not math.isfinite(value) or (isinstance(value, int) and abs(value) > _MAX_WHOLE):
        raise ValueError("should be a finite number; whole numbers below 2^53")
    return value


def _value_or_null(value: Any) -> str | int | float | bool | None:
    return None if value is None else _value(value)


_SCHEMAS: list[dict[str, Any]] = [
    {"type": "string", "maxLength": MAX_TEXT},
    {"type": "number"},
    {"type": "boolean"},
]
Key = Annotated[str, Field(pattern=KEY_PATTERN)]
Value = Annotated[
    str | int | float | bool, PlainValidator(_value), WithJsonSchema({"anyOf": _SCHEMAS})
]
ValueOrNull = Annotated[
    str | int | float | bool | None,
    PlainValidator(_value_or_null),
    WithJsonSchema({"anyOf": [*_SCHEMAS, {"type": "null"}]}),
]
_TEXT = (
    f"Notes of yours: at most {MAX_KEYS} keys with texts (at most {MAX_TEXT} characters), numbers, "
    "true or false. The service only stores them and filters lists by them."
)
Metadata = Annotated[dict[Key, Value], Field(max_length=MAX_KEYS, description=_TEXT)]
METADATA: TypeAdapter[dict[str, Any]] = TypeAdapter(Metadata)
MetadataChanges = Annotated[
    dict[Key, ValueOrNull],
    Field(
        max_length=2 * MAX_KEYS,
        description="Merged with the existing metadata; null removes a key.",
    ),
]
MetadataValue = str | int | float | bool
StoredMetadata = Annotated[
    dict[str, MetadataValue], Field(description="What the caller noted; often empty.")
]
