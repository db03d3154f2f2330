"""Large graphs: uploaded once as a data set of their own, then asked about node by node."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session
from starlette.responses import Response

from service import examples
from service.context import ContextOf, in_thread, reading_upload
from service.graph_io.large_graph_reader import LargeForm, read_large
from service.http.bodies import PostedBody, require_type, spooled
from service.http.idempotency import Created, Submission, known, once, submission_of
from service.http.openapi import IDEMPOTENCY_KEY, answer, problems
from service.http.responses import reply
from service.resources import DatasetResource
from service.routes.datasets import read_dataset
from service.schemas import Name
from store.artifacts import large_graphs
from store.catalogue import datasets
from store.store import Store

router = APIRouter(tags=["reference sets"])

PATH = "/v1/datasets/large"
_PARQUET = (
    "Parquet goes through the client (`Client.upload_large_graph`) or the command line (`d4explain "
    "upload`), which turn it into npz."
)


class LargeQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name = Field(description="What the data set is called.")


@router.post(
    PATH,
    summary="Store one large graph",
    description="For GNNs that classify nodes: the graph is uploaded once and its nodes are asked "
    "about by their numbers, `POST /v1/explanations` with this data set, `node` and no `graph`. "
    "It is its own reference set: denoisers learn from neighbourhoods in it. Nodes are 0 … n-1. "
    "`application/x-npz` is what `numpy.savez` writes, with the integer array `edge_index` of two "
    "rows and the features `x`, one row per node. `application/x-ndjson` has lines like "
    '`{"x": [[…], …], "edge_index": [[…], […]]}`, each with some more nodes, some more edges, or '
    "both. Each edge is listed once, or once per direction; self-loops are refused. Without `x`, "
    f"every node has the constant 1. The body may come in chunks. {_PARQUET}",
    status_code=201,
    responses={
        201: answer("Stored.", DatasetResource, examples.LARGE_DATASET),
        **problems(HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                LargeForm.NDJSON: {"schema": {"type": "string"}, "example": examples.LARGE_LINES},
                LargeForm.NPZ: {
                    "schema": {"type": "string", "format": "binary"},
                    "example": "what numpy.savez(file, edge_index=…, x=…) writes",
                },
            },
        },
        "parameters": [IDEMPOTENCY_KEY],
    },
)
async def create_large(
    request: Request, context: ContextOf, query: Annotated[LargeQuery, Query()]
) -> Response:
    form = LargeForm(require_type(request, *LargeForm, otherwise=_PARQUET))
    async with spooled(request) as body:
        submission = submission_of(request, body.sha256, form.encode(), query.name.encode())
        made = await reading_upload(context, body.size, create, query.name, form, submission, body)
    dataset = await in_thread(read_dataset, context.store, made.id)
    return reply(dataset, 201, {"Location": f"/v1/datasets/{made.id}", **made.headers})


def create(
    store: Store, name: str, form: LargeForm, submission: Submission, body: PostedBody
) -> Created:
    """Reads and packs the whole graph before anything is written."""
    made = known(store, submission)
    if made is not None:
        return made
    with body.open() as file:
        graph = read_large(file, form, store.settings)
    digest = store.artifacts.put_large(partial(large_graphs.write, graph))

    def make(session: Session) -> str:
        return datasets.create(
            session,
            name=name,
            gnn_features=graph.features,
            graphs_digest=digest,
            sha256=digest,  # the same graph always gives the same bytes
            graph_count=1,
            label_counts={},
            max_nodes=graph.node_count,
            mean_nodes=graph.node_count,
            mean_edges=graph.edge_count,
            large=True,
        ).id

    return once(store, submission, make)
