"""Reads the query parameters of lists and converts pages of rows to pages of resources."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    WithJsonSchema,
    model_validator,
)

from d4explain.contracts.errors import InvalidInput
from service.http.faults import Fault, InvalidRequestError, reject, shown
from service.metadata_models import KEY_PATTERN
from service.resources import Item, PageOf
from store.catalogue.gnn_names import MAX_REFERENCE_LENGTH
from store.database.clock import timestamp
from store.database.lists.caller_metadata import MAX_KEYS, MAX_TEXT
from store.database.lists.filters import Filters
from store.database.lists.paging import Page, Row

MAX_PAGE = 200
_METADATA = "metadata."
METADATA_FILTER = {
    "name": f"{_METADATA}KEY",
    "in": "query",
    "required": False,
    "description": "Only items whose metadata has this value at KEY, for example "
    "`metadata.team=risk`; several keys must all match. Numbers and truths are found by their "
    "JSON text.",
    "schema": {"type": "string", "maxLength": MAX_TEXT},
    "example": "risk",
}

GnnFilter = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_REFERENCE_LENGTH,
        description="`gnn_…`, `name@3`, `name@production`, or `name` for its newest version.",
    ),
]


def _moment(text: Any) -> datetime:
    """A date means 00:00 UTC; a time needs its zone, because a list has items of all zones."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        moment = None
    if moment is not None and len(text) == len("2026-11-19"):
        moment = moment.replace(tzinfo=UTC)
    if moment is None or moment.tzinfo is None:
        hint = "; write + as %2B in a URL" if " " in str(text) else ""
        raise ValueError(
            "should be a date, or a time with its zone such as 2026-11-19T08:30:00Z; "
            f"got {shown(str(text)[:64])}{hint}"
        )
    return moment


Moment = Annotated[
    datetime,
    BeforeValidator(_moment),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


class PageQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE, description="Most items per page.")] = 50
    cursor: Annotated[
        str | None,
        Field(
            max_length=200,
            pattern="^[A-Za-z0-9_-]*$",
            description="`next_cursor` of the previous page.",
        ),
    ] = None

    def link_parameters(self) -> dict[str, str | int | None]:
        """The parameters that the link to the next page repeats."""
        return self.model_dump(mode="json", exclude={"cursor"})


class TimedQuery(PageQuery):
    created_after: Moment | None = Field(
        None,
        description="Only items from this time on: a time with its zone, or a date (00:00 UTC).",
    )
    created_before: Moment | None = Field(
        None, description="Only items that are older than this time."
    )

    @property
    def filters(self) -> Filters:
        return Filters(
            None if self.created_after is None else self.created_after.timestamp(),
            None if self.created_before is None else self.created_before.timestamp(),
        )

    def link_parameters(self) -> dict[str, str | int | None]:
        times = {
            name: timestamp(moment.timestamp())
            for name in ("created_after", "created_before")
            if (moment := getattr(self, name)) is not None
        }
        return {**super().link_parameters(), **times}


class ListQuery(TimedQuery):
    """Also filters by metadata: every parameter `metadata.KEY`."""

    _metadata: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _with_metadata(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(values, dict):
            return handler(values)
        asked = {key: value for key, value in values.items() if key.startswith(_METADATA)}
        query = handler({key: value for key, value in values.items() if key not in asked})
        query._metadata = _checked_metadata(asked)
        return query

    @property
    def filters(self) -> Filters:
        timed = super().filters
        return Filters(timed.created_after, timed.created_before, self._metadata)

    def link_parameters(self) -> dict[str, str | int | None]:
        metadata = {f"{_METADATA}{key}": value for key, value in self._metadata.items()}
        return {**super().link_parameters(), **metadata}


def _checked_metadata(asked: dict[str, Any]) -> dict[str, str]:
    """The filters by key; raises what is wrong with them."""
    faults = []
    for name, value in asked.items():
        if not re.fullmatch(KEY_PATTERN, name.removeprefix(_METADATA)):
            faults.append(Fault(name[:80], f"the key should match {KEY_PATTERN}", "query"))
        elif not isinstance(value, str):
            faults.append(Fault(name, "is given more than once", "query"))
        elif len(value) > MAX_TEXT:
            detail = f"should have at most {MAX_TEXT} characters; got {len(value):,}"
            faults.append(Fault(name, detail, "query"))
    if len(asked) > MAX_KEYS:
        detail = f"at most {MAX_KEYS} keys can be asked for; got {len(asked)}"
        faults.append(Fault("metadata", detail, "query"))
    if faults:
        raise InvalidRequestError(faults)
    return {name.removeprefix(_METADATA): value for name, value in asked.items()}


def read_page(read: Callable[[], Page[Row]]) -> Page[Row]:
    """Calls `read`; rejects an invalid cursor."""
    try:
        return read()
    except InvalidInput as error:
        reject("cursor", error.message, "query")


def converted_page(page: Page[Row], convert: Callable[[Row], Item]) -> PageOf[Item]:
    """Converts each row; read related rows for the whole page before, not in `convert`."""
    return PageOf(items=[convert(row) for row in page.items], next_cursor=page.next_cursor)
