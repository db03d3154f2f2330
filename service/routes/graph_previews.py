"""Graphs as the service reads them: for pages that draw a graph before it is explained."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from service import examples
from service.context import ContextOf, handle_body
from service.graph_io.dataset_graphs import DatasetGraphs, dataset_graphs
from service.graph_io.graph_previews import GraphPreview, preview
from service.http.bodies import PostedBody, posted_json
from service.http.json_bodies import parse_model
from service.http.openapi import json_request, problem_responses, response
from service.http.principals import Reader
from service.http.responses import json_response
from service.schemas import GraphPreviewIn
from store.catalogue import datasets, gnns
from store.store import Store

router = APIRouter()


class DatasetGraphsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    offset: Annotated[int, Field(ge=0, description="Position of the first graph.")] = 0
    limit: Annotated[int, Field(ge=1, le=50, description="Most graphs.")] = 20


@router.post(
    "/v1/gnns/{gnn_id}/graph-previews",
    tags=["GNNs"],
    summary="Read a graph without explaining it",
    description="The graph as the service reads it for this GNN, with positions to draw it at, "
    "node types and warnings. Nothing is stored.",
    responses={
        200: response("The graph.", GraphPreview, examples.GRAPH_PREVIEW),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=json_request(GraphPreviewIn, {"one graph": examples.GRAPH_PREVIEW_IN}),
)
async def preview_graph(
    request: Request, context: ContextOf, principal: Reader, gnn_id: str
) -> Response:
    async with posted_json(request) as body:
        found = await handle_body(context, body.size, _preview, gnn_id, principal.tenant, body)
    return json_response(found)


@router.get(
    "/v1/datasets/{dataset_id}/graphs",
    tags=["reference sets"],
    summary="Graphs of a reference set",
    description="As node-link JSON, or SMILES if they were posted as SMILES: each can be posted "
    "again. Not for large graphs.",
    responses={
        200: response("Graphs.", DatasetGraphs, examples.DATASET_GRAPHS),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def list_dataset_graphs(
    context: ContextOf,
    principal: Reader,
    dataset_id: str,
    query: Annotated[DatasetGraphsQuery, Query()],
) -> Response:
    with context.store.database.reading() as session:
        dataset = datasets.find(session, dataset_id, principal.tenant)
    return json_response(
        dataset_graphs(context.store.artifacts, dataset, query.offset, query.limit)
    )


def _preview(store: Store, reference: str, tenant: str, body: PostedBody) -> GraphPreview:
    posted = parse_model(body.read(), GraphPreviewIn)
    with store.database.reading() as session:
        gnn = gnns.find(session, reference, tenant)
    return preview(posted.graph, gnn, store.settings)
