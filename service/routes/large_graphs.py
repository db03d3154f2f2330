"""Large graphs: uploaded once as a dataset, then explained node by node."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.orm import Session
from starlette.responses import Response

from service import examples
from service.context import ContextOf, handle_upload, run_in_thread
from service.graph_io.large_graph_reader import LargeForm, read_large
from service.graph_io.unread_attributes import InputWarnings
from service.http.bodies import PostedBody, require_content_type, spooled_body
from service.http.faults import Fault, InvalidRequestError, faults_of, reject
from service.http.idempotency import (
    Created,
    Submission,
    already_created,
    create_once,
    submission_of,
)
from service.http.json_bodies import MalformedJsonError, parse_json
from service.http.openapi import IDEMPOTENCY_KEY, problem_responses, response
from service.http.principals import Registrar
from service.http.responses import json_response
from service.metadata_models import METADATA
from service.resources import DatasetResource
from service.routes.datasets import read_dataset
from service.schemas import ResourceName
from store.artifacts import large_graphs
from store.catalogue import datasets
from store.store import Store

router = APIRouter(tags=["reference sets"])

PATH = "/v1/datasets/large"
_PARQUET_HINT = (
    "To upload Parquet, use the client (`Client.upload_large_graph`) or the command line "
    "(`d4explain upload`); both convert it to npz."
)


class LargeQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ResourceName = Field(
        description="Name of the dataset; a name used before gets a new version."
    )
    metadata: str | None = Field(
        None,
        max_length=16_000,
        description='Metadata as a JSON object, for example `{"team": "risk"}`.',
    )


@router.post(
    PATH,
    summary="Store one large graph",
    description="For GNNs that classify nodes: upload the graph once, then explain its nodes with "
    "`POST /v1/explanations`, this dataset, `node` and no `graph`. The graph is its own reference "
    "set: denoisers learn from its neighbourhoods. Node ids are 0 … n-1. "
    "`application/x-npz` is a file of `numpy.savez` with the integer array `edge_index` (two rows) "
    "and the features `x` (one row per node). `application/x-ndjson` has lines like "
    '`{"x": [[…], …], "edge_index": [[…], […]]}`, each with further nodes, edges or both. List '
    "each edge once, or once per direction; self-loops are rejected. Without `x`, every node has "
    f"the constant 1. The body may be chunked. {_PARQUET_HINT}",
    status_code=201,
    responses={
        201: response("Stored.", DatasetResource, examples.LARGE_DATASET),
        **problem_responses(HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                LargeForm.NDJSON: {"schema": {"type": "string"}, "example": examples.LARGE_LINES},
                LargeForm.NPZ: {
                    "schema": {"type": "string", "format": "binary"},
                    "example": "(the file of numpy.savez(file, edge_index=…, x=…))",
                },
            },
        },
        "parameters": [IDEMPOTENCY_KEY],
    },
)
async def create_large(
    request: Request,
    context: ContextOf,
    principal: Registrar,
    query: Annotated[LargeQuery, Query()],
) -> Response:
    form = LargeForm(require_content_type(request, *LargeForm, hint=_PARQUET_HINT))
    async with spooled_body(request) as body:
        submission = submission_of(
            request,
            principal.tenant,
            body.sha256,
            form.encode(),
            query.name.encode(),
            (query.metadata or "").encode(),
        )
        created = await handle_upload(context, body.size, create, query, form, submission, body)
    dataset = await run_in_thread(read_dataset, context.store, principal.tenant, created.id)
    return json_response(
        dataset, 201, {"Location": f"/v1/datasets/{created.id}", **created.headers}
    )


def create(
    store: Store, query: LargeQuery, form: LargeForm, submission: Submission, body: PostedBody
) -> Created:
    """Reads and checks the whole graph before it writes anything."""
    created = already_created(store, submission)
    if created is not None:
        return created
    metadata = _metadata(query.metadata)
    with body.open() as file:
        warnings = InputWarnings()
        graph = read_large(file, form, store.settings, warnings)
    digest = store.artifacts.of(submission.tenant).put_large(partial(large_graphs.write, graph))

    def create_row(session: Session) -> str:
        return datasets.create(
            session,
            name=query.name,
            tenant=submission.tenant,
            gnn_features=graph.features,
            graphs_digest=digest,
            sha256=digest,  # the same graph always gives the same bytes
            graph_count=1,
            label_counts={},
            max_nodes=graph.node_count,
            mean_nodes=graph.node_count,
            mean_edges=graph.edge_count,
            large=True,
            warnings=warnings.texts,
            metadata=metadata,
        ).id

    return create_once(store, submission, create_row)


def _metadata(text: str | None) -> dict[str, Any]:
    """The metadata of the query; raises what is wrong with it."""
    if text is None:
        return {}
    try:
        document = parse_json(text.encode())
        checked: dict[str, Any] = METADATA.validate_python(document, strict=True)
    except MalformedJsonError as error:
        reject("metadata", f"is not JSON: {error}", "query")
    except InvalidRequestError as error:
        raise InvalidRequestError([_in_query(fault) for fault in error.faults]) from error
    except ValidationError as error:
        faults = [_in_query(fault) for fault in faults_of(error, document)]
        raise InvalidRequestError(faults) from error
    return checked


def _in_query(fault: Fault) -> Fault:
    return Fault(f"metadata{fault.at}", fault.detail, "query")
