"""The rows of an evaluation, as pages of JSON, as CSV and as Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from d4explain.contracts.evaluations.rows import EvaluationRow, ShardRows
from service import examples
from service.context import ContextOf, run_in_thread
from service.evaluation_models import RowsPage
from service.http.faults import reject, shown
from service.http.openapi import problem_responses
from service.http.principals import Reader
from service.http.responses import json_response, next_link
from service.submission.resource_ids import checked_id
from store.catalogue.evaluations import evaluations
from store.database.tables import Evaluation, EvaluationShard
from store.errors import Conflict
from store.store import Store

router = APIRouter(tags=["evaluations"])

_MAX_ROWS = 1000
_PARQUET = "application/vnd.apache.parquet"


class RowsFormat(StrEnum):
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


class RowsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: RowsFormat = Field(
        RowsFormat.JSON, description="`csv` and `parquet` return all rows, once there are all."
    )
    explainer: str | None = Field(
        None, max_length=40, description="Only the rows of this explainer; for `json` and `csv`."
    )
    found: bool | None = Field(
        None, description="Only rows with, or without, a counterfactual; for `json` and `csv`."
    )
    verdict: Literal["meaningful", "brittle", "unjudged"] | None = Field(
        None, description="Only rows with this verdict; for `json` and `csv`."
    )
    min_edits: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Only answers with at least this many edits; for `json` and `csv`."
    )
    limit: Annotated[int, Field(ge=1, le=_MAX_ROWS, description="Most rows per page.")] = 200
    cursor: Annotated[
        str | None,
        Field(max_length=20, pattern="^[0-9]*$", description="`next_cursor` of the previous page."),
    ] = None

    def filters(self) -> list[str]:
        """Names of the filters that are given."""
        names = ("explainer", "found", "verdict", "min_edits")
        return [name for name in names if getattr(self, name) is not None]

    def matches(self, row: EvaluationRow) -> bool:
        return (
            self.explainer in (None, row.explainer)
            and self.found in (None, row.found)
            and self.verdict in (None, row.verdict)
            and (self.min_edits is None or (row.edits or 0) >= self.min_edits)
        )


@router.get(
    "/v1/evaluations/{evaluation_id}/rows",
    summary="One row per instance and explainer",
    description="In the order of the instances. While shards are missing, the pages contain the "
    "rows that exist so far, without gaps in an explained shard; `csv` and `parquet` get 409.",
    responses={
        200: {
            "description": "A page of rows, or a file with all.",
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/RowsPage"},
                    "example": examples.ROWS,
                },
                "text/csv": {"schema": {"type": "string"}, "example": examples.ROWS_CSV},
                _PARQUET: {
                    "schema": {"type": "string", "format": "binary"},
                    "example": "PAR1…",
                },
            },
            "model": RowsPage,
        },
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
async def list_evaluation_rows(
    request: Request,
    context: ContextOf,
    principal: Reader,
    evaluation_id: str,
    query: Annotated[RowsQuery, Query()],
) -> Response:
    checked_id("evaluation", evaluation_id)
    store, tenant = context.store, principal.tenant
    evaluation, shards = await run_in_thread(_read, store, tenant, evaluation_id)
    if query.explainer is not None and query.explainer not in evaluation.explainers:
        names = ", ".join(evaluation.explainers)
        reject("explainer", f"is {shown(query.explainer)}; {evaluation.id} has {names}", "query")
    name = f'attachment; filename="{evaluation.id}.{query.format}"'
    if query.format is RowsFormat.PARQUET:
        for filter_name in query.filters():
            reject(filter_name, "is for format=json and format=csv", "query")
        data = await run_in_thread(_parquet, store, evaluation)
        return Response(data, media_type=_PARQUET, headers={"Content-Disposition": name})
    if query.format is RowsFormat.CSV:
        text = await run_in_thread(_csv, store, evaluation, shards, query)
        return Response(text, media_type="text/csv", headers={"Content-Disposition": name})
    page = await run_in_thread(_page, store, evaluation, shards, query)
    headers = {}
    if page.next_cursor is not None:
        again = query.model_dump(mode="json", exclude={"cursor", "format"}, exclude_none=True)
        headers = next_link(request, {**again, "cursor": page.next_cursor})
    return json_response(page, headers=headers)


def _read(
    store: Store, tenant: str, evaluation_id: str
) -> tuple[Evaluation, list[EvaluationShard]]:
    with store.database.reading() as session:
        evaluation = evaluations.get(session, evaluation_id, tenant)
        return evaluation, evaluations.shards(session, evaluation_id, tenant)


def _page(
    store: Store, evaluation: Evaluation, shards: list[EvaluationShard], query: RowsQuery
) -> RowsPage:
    """The cursor is the position of a row among all rows of the evaluation, so it stays valid."""
    per_instance = len(evaluation.explainers)
    start = int(query.cursor or 0)
    items: list[EvaluationRow] = []
    for shard in shards:
        first, end = shard.first * per_instance, (shard.first + shard.count) * per_instance
        if end <= start or shard.rows_digest is None:
            continue
        for position, row in enumerate(_rows_of(store, shard), first):
            if position < start or not query.matches(row):
                continue
            if len(items) == query.limit:
                return RowsPage(items=items, next_cursor=str(position))
            items.append(row)
    return RowsPage(items=items, next_cursor=None)


def _csv(
    store: Store, evaluation: Evaluation, shards: list[EvaluationShard], query: RowsQuery
) -> str:
    _require_all(evaluation, shards)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(EvaluationRow.model_fields), lineterminator="\r\n")
    writer.writeheader()
    for row in _all_rows(store, shards):
        if query.matches(row):
            writer.writerow({key: _cell(value) for key, value in row.model_dump().items()})
    return text.getvalue()


def _cell(value: object) -> object:
    """Lists as JSON; nothing for null."""
    if isinstance(value, list):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else value


def _parquet(store: Store, evaluation: Evaluation) -> bytes:
    if evaluation.parquet_digest is None:
        raise Conflict(f"evaluation {evaluation.id} has not succeeded; there is no Parquet file")
    return store.artifacts.of(evaluation.tenant_id).get(evaluation.parquet_digest)


def _require_all(evaluation: Evaluation, shards: list[EvaluationShard]) -> None:
    missing = sum(shard.count for shard in shards if shard.rows_digest is None)
    if missing:
        raise Conflict(
            f"{missing} of {evaluation.instance_count} instances of {evaluation.id} have no rows "
            "yet; format=json returns those that exist"
        )


def _all_rows(store: Store, shards: list[EvaluationShard]) -> Iterator[EvaluationRow]:
    for shard in shards:
        yield from _rows_of(store, shard)


def _rows_of(store: Store, shard: EvaluationShard) -> list[EvaluationRow]:
    data = store.artifacts.of(shard.tenant_id).get(shard.rows_digest or "")
    return ShardRows.model_validate_json(data).rows
