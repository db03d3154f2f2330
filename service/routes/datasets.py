"""Reference sets: graphs of the distribution that a GNN was trained on."""

from __future__ import annotations

from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import Response

from d4explain.resource_names import DATASET
from service import examples
from service.context import ContextOf, handle_body, run_in_thread
from service.graph_io.features.expected_features import ExpectedFeatures
from service.graph_io.features.gnn_features import expected_features
from service.graph_io.graph_reader import read_graphs
from service.graph_io.unread_attributes import InputWarnings
from service.http.bodies import PostedBody, posted_json
from service.http.faults import reject
from service.http.idempotency import (
    Created,
    Submission,
    already_created,
    create_once,
    submission_of,
)
from service.http.json_bodies import parse_model
from service.http.openapi import (
    IDEMPOTENCY_KEY,
    IF_NONE_MATCH,
    json_request,
    problem_responses,
    response,
)
from service.http.pagination import METADATA_FILTER, ListQuery, converted_page, read_page
from service.http.principals import Reader, Registrar
from service.http.responses import json_response, page_response, with_etag
from service.resource_builders import dataset_resource
from service.resources import DatasetResource, PageOf
from service.schemas import DatasetIn, Name
from service.submission.resource_ids import report_at
from store.artifacts import graph_sets
from store.catalogue import datasets, gnns
from store.catalogue.gnn_names import parse_reference
from store.store import Store

router = APIRouter(tags=["reference sets"])


class DatasetsQuery(ListQuery):
    name: Name | None = Field(None, description="Only versions of this name.")


@router.post(
    "/v1/datasets",
    summary="Store a reference set",
    description="A name that was used before gets a new version. "
    "Post graphs as NetworkX node-link or PyG dicts. All have the same number of "
    "features; graphs without features get the constant 1. `label` is optional. Edges may have "
    "attributes (`edge_attr`): the same number for all edges, or none. With `gnn` you can post "
    "molecules as SMILES, which the featuriser of this GNN reads.",
    status_code=201,
    responses={
        201: response("Stored.", DatasetResource, examples.DATASET),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=json_request(
        DatasetIn,
        {"two graphs": examples.DATASET_IN, "edge attributes": examples.EDGE_ATTRIBUTES_IN},
        IDEMPOTENCY_KEY,
    ),
)
async def create_dataset(request: Request, context: ContextOf, principal: Registrar) -> Response:
    async with posted_json(request) as body:
        submission = submission_of(request, principal.tenant, body)
        created = await handle_body(context, body.size, create, body, submission)
    dataset = await run_in_thread(read_dataset, context.store, principal.tenant, created.id)
    return json_response(
        dataset, 201, {"Location": f"/v1/datasets/{created.id}", **created.headers}
    )


@router.get(
    "/v1/datasets",
    summary="List reference sets, newest first",
    description="`name` filters by name and so lists its versions.",
    responses={
        200: response("A page.", PageOf[DatasetResource], examples.page(examples.DATASET)),
        **problem_responses(),
    },
    openapi_extra={"parameters": [METADATA_FILTER]},
)
def list_datasets(
    request: Request,
    context: ContextOf,
    principal: Reader,
    query: Annotated[DatasetsQuery, Query()],
) -> Response:
    with context.store.database.reading() as session:
        rows = read_page(
            lambda: datasets.page(
                session,
                query.cursor,
                query.limit,
                tenant=principal.tenant,
                name=query.name,
                filters=query.filters,
            )
        )
    page = converted_page(rows, dataset_resource)
    return page_response(request, page, query.link_parameters())


@router.get(
    "/v1/datasets/{dataset_id}",
    summary="One reference set",
    description="By `set_…`, `name@2`, or `name` for its newest version. "
    "All fields for a reference set accept these forms.",
    responses={
        200: response("The reference set.", DatasetResource, examples.DATASET),
        304: response("Not modified."),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [IF_NONE_MATCH]},
)
def get_dataset(
    request: Request, context: ContextOf, principal: Reader, dataset_id: str
) -> Response:
    dataset = read_dataset(context.store, principal.tenant, dataset_id)
    return with_etag(request, json_response(dataset))


@router.delete(
    "/v1/datasets/{dataset_id}",
    summary="Delete a reference set and what was trained for it",
    description="By `set_…` or `name@2`. Rejected with 409 while jobs use it. Explanations remain.",
    status_code=204,
    responses={
        204: response("Deleted."),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def delete_dataset(context: ContextOf, principal: Registrar, dataset_id: str) -> Response:
    with context.store.database.transaction() as session:
        dataset = datasets.find(session, dataset_id, principal.tenant)
        reference = parse_reference(dataset_id, DATASET)
        if reference is not None and not reference.is_fixed:
            fixed = f"{dataset.id} or {dataset.name}@{dataset.version}"
            reject(
                "/dataset_id", f"may later refer to another one; to delete this one, use {fixed}"
            )
        datasets.delete(session, dataset.id, principal.tenant)
    return Response(status_code=204)


def create(store: Store, body: PostedBody, submission: Submission) -> Created:
    """Reads and checks all graphs before it writes anything."""
    created = already_created(store, submission)
    if created is not None:
        return created
    posted = parse_model(body.read(), DatasetIn)
    max_graphs = store.settings.max_dataset_graphs
    if len(posted.graphs) > max_graphs:
        reject(
            "/graphs",
            f"the reference set has {len(posted.graphs):,} graphs; "
            f"this deployment accepts at most {max_graphs:,}",
        )
    expected = _expected_features(store, submission.tenant, posted.gnn)
    warnings = InputWarnings()
    graphs = read_graphs(posted.graphs, "/graphs", store.settings, expected, warnings)
    statistics = asdict(graph_sets.describe(graphs))
    features = statistics.pop("features")
    digest = store.artifacts.of(submission.tenant).put(graph_sets.pack(graphs))
    sha256 = graph_sets.canonical_set_hash(graphs)

    def create_row(session: Session) -> str:
        return datasets.create(
            session,
            name=posted.name,
            tenant=submission.tenant,
            gnn_features=features,
            graphs_digest=digest,
            sha256=sha256,
            warnings=warnings.texts,
            metadata=posted.metadata,
            **statistics,
        ).id

    return create_once(store, submission, create_row)


def _expected_features(store: Store, tenant: str, gnn: str | None) -> ExpectedFeatures | None:
    if gnn is None:
        return None
    with store.database.reading() as session, report_at("/gnn"):
        return expected_features(gnns.find(session, gnn, tenant))


def read_dataset(store: Store, tenant: str, reference: str) -> DatasetResource:
    with store.database.reading() as session:
        return dataset_resource(datasets.find(session, reference, tenant))
