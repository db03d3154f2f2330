"""Query parameters of lists, and pages of the store as pages of the API."""

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

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE, description="Most items of one page.")] = 50
    cursor: Annotated[
        str | None,
        Field(max_length=200, pattern="^[A-Za-z0-9_-]*$", description="From the page before."),
    ] = None

    def repeated(self) -> dict[str, str | int | None]:
        """What the link to the next page has to repeat."""
        return self.model_dump(mode="json", exclude={"cursor"})


def read_page(read: Callable[[], Page[Row]]) -> Page[Row]:
    try:
        return read()
    except InvalidInput as error:
        reject("cursor", error.message, "query")


def shown_page(page: Page[Row], show: Callable[[Row], Item]) -> PageOf[Item]:
    """`show` asks the database nothing: what rows refer to is read for the whole page before."""
    return PageOf(items=[show(row) for row in page.items], next_cursor=page.next_cursor)


def page_from(read: Callable[[], Page[Row]], show: Callable[[Row], Item]) -> PageOf[Item]:
    return shown_page(read_page(read), show)
