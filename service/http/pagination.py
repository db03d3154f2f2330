"""Reads the query parameters of lists and converts pages of rows to pages of resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from d4explain.contracts.errors import InvalidInput
from service.http.faults import reject
from service.resources import Item, PageOf
from store.catalogue.gnn_names import MAX_REFERENCE_LENGTH
from store.database.paging import Page, Row

MAX_PAGE = 200

GnnFilter = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_REFERENCE_LENGTH,
        description="`gnn_…`, `name@3`, `name@production`, or `name` for its newest version.",
    ),
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


def read_page(read: Callable[[], Page[Row]]) -> Page[Row]:
    """Calls `read`; rejects an invalid cursor."""
    try:
        return read()
    except InvalidInput as error:
        reject("cursor", error.message, "query")


def converted_page(page: Page[Row], convert: Callable[[Row], Item]) -> PageOf[Item]:
    """Converts each row; read related rows for the whole page before, not in `convert`."""
    return PageOf(items=[convert(row) for row in page.items], next_cursor=page.next_cursor)
