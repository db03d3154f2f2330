"""Explanations as rows for TrustyAI, whose drift metrics then watch them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from service import examples
from service.context import ContextOf, run_in_thread
from service.explanation_documents import read_document
from service.http.faults import reject
from service.http.openapi import problem_responses, response
from service.http.principals import Reader
from service.http.responses import json_response
from service.reports.trustyai_rows import TrustyaiUpload, model_name_of, trustyai_upload
from service.submission.resource_ids import checked_id
from store.catalogue import gnns
from store.errors import NotFound
from store.store import Store

router = APIRouter(tags=["explanations"])

_RESERVED = "TRUSTYAI"


class TrustyaiQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    data_tag: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9._-]{1,64}$",
            description="Tag of the rows, such as `TRAINING` for those that others are compared "
            "with. Tags that begin with `TRUSTYAI` are reserved.",
        ),
    ] = "d4explain"


@router.get(
    "/v1/explanations/{explanation_id}/trustyai",
    summary="Rows for TrustyAI",
    description="A body for TrustyAI's `POST /data/upload`, with one row per graph or node of the "
    "newest answer: validity, edits, modification ratio, fidelity and typicality of the best "
    "counterfactual. A graph without one has the figures of the unchanged graph: validity, edits, "
    "ratio and fidelity 0, and its own typicality. If a typicality is unknown, that column is left "
    "out and the model has another name.",
    responses={
        200: response("The rows.", TrustyaiUpload, examples.TRUSTYAI),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
async def get_trustyai_rows(
    context: ContextOf,
    principal: Reader,
    explanation_id: str,
    query: Annotated[TrustyaiQuery, Query()],
) -> Response:
    checked_id("explanation", explanation_id)
    if query.data_tag.startswith(_RESERVED):
        reject("data_tag", f"should not begin with {_RESERVED}, which TrustyAI reserves", "query")
    upload = await run_in_thread(
        _upload, context.store, principal.tenant, explanation_id, query.data_tag
    )
    return json_response(upload)


def _upload(store: Store, tenant: str, explanation_id: str, data_tag: str) -> TrustyaiUpload:
    document = read_document(store, tenant, explanation_id)
    result = store.artifacts.of(tenant).get(document.require_result())
    name = _model_name(store, tenant, document.summary.gnn)
    return trustyai_upload(result, explanation_id, model_name=name, data_tag=data_tag)


def _model_name(store: Store, tenant: str, gnn_id: str) -> str:
    try:
        with store.database.reading() as session:
            gnn = gnns.get(session, gnn_id, tenant)
    except NotFound:  # deleted since
        return f"{gnn_id}-explanations"
    return model_name_of(gnn.name, gnn.version)
