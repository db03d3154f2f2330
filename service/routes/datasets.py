"""Reference sets: graphs of the distribution that a GNN was trained on."""

from __future__ import annotations

from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from service import examples
from service.context import ContextOf, in_thread, reading_body
from service.graph_io.expected_features import ExpectedFeatures
from service.graph_io.features import expected_features
from service.graph_io.graph_reader import read_graphs
from service.http.bodies import PostedBody, posted_json
from service.http.faults import reject
from service.http.idempotency import Created, Submission, known, once, submission_of
from service.http.json_bodies import parse_model
from service.http.openapi import IDEMPOTENCY_KEY, IF_NONE_MATCH, answer, problems, takes
from service.http.pagination import PageQuery, page_from
from service.http.responses import page_reply, reply, tagged
from service.resources import DatasetResource, PageOf, dataset_resource
from service.schemas import DatasetIn
from service.submission.resource_ids import checked_id, report_at
from store.artifacts import graph_sets
from store.catalogue import datasets, gnns
from store.store import Store

router = APIRouter(tags=["reference sets"])


@router.post(
    "/v1/datasets",
    summary="Store a reference set",
    description="Graphs as NetworkX node-link or PyG dict, all with the same number of features, "
    "each with an optional `label`. Graphs without features get the constant 1. Edges may have "
    "attributes, all or none, as many each: `edge_attr`. With `gnn`, "
    "molecules may come as SMILES, from which the featuriser of this GNN makes graphs.",
    status_code=201,
    responses={
        201: answer("Stored.", DatasetResource, examples.DATASET),
        **problems(HTTPStatus.NOT_FOUND, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=takes(
        DatasetIn,
        {"two graphs": examples.DATASET_IN, "edge attributes": examples.EDGE_ATTRIBUTES_IN},
        IDEMPOTENCY_KEY,
    ),
)
async def create_dataset(request: Request, context: ContextOf) -> Response:
    async with posted_json(request) as body:
        submission = submission_of(request, body)
        made = await reading_body(context, body.size, create, body, submission)
    dataset = await in_thread(read_dataset, context.store, made.id)
    return reply(dataset, 201, {"Location": f"/v1/datasets/{made.id}", **made.headers})


@router.get(
    "/v1/datasets",
    summary="List reference sets, newest first",
    responses={
        200: answer("A page.", PageOf[DatasetResource], examples.page(examples.DATASET)),
        **problems(),
    },
)
def list_datasets(
    request: Request, context: ContextOf, query: Annotated[PageQuery, Query()]
) -> Response:
    with context.store.database.reading() as session:
        page = page_from(
            lambda: datasets.page(session, query.cursor, query.limit), dataset_resource
        )
    return page_reply(request, page, query.repeated())


@router.get(
    "/v1/datasets/{dataset_id}",
    summary="One reference set",
    responses={
        200: answer("The reference set.", DatasetResource, examples.DATASET),
        304: answer("The client has this answer already."),
        **problems(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [IF_NONE_MATCH]},
)
def get_dataset(request: Request, context: ContextOf, dataset_id: str) -> Response:
    return tagged(request, reply(read_dataset(context.store, checked_id("dataset", dataset_id))))


@router.delete(
    "/v1/datasets/{dataset_id}",
    summary="Delete a reference set and its denoisers",
    description="Refused while jobs use it; explanations that were made with it stay.",
    status_code=204,
    responses={
        204: answer("Deleted."),
        **problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def delete_dataset(context: ContextOf, dataset_id: str) -> Response:
    with context.store.database.transaction() as session:
        datasets.delete(session, checked_id("dataset", dataset_id))
    return Response(status_code=204)


def create(store: Store, body: PostedBody, submission: Submission) -> Created:
    """Reads all graphs before anything is written."""
    made = known(store, submission)
    if made is not None:
        return made
    asked = parse_model(body.read(), DatasetIn)
    most = store.settings.max_dataset_graphs
    if len(asked.graphs) > most:
        reject(
            "/graphs",
            f"the reference set has {len(asked.graphs):,} graphs; "
            f"this deployment accepts at most {most:,}",
        )
    graphs = read_graphs(asked.graphs, "/graphs", store.settings, _features(store, asked.gnn))
    figures = asdict(graph_sets.describe(graphs))
    features = figures.pop("features")
    digest = store.artifacts.put(graph_sets.pack(graphs))
    sha256 = graph_sets.canonical_set_hash(graphs)

    def make(session: Session) -> str:
        return datasets.create(
            session,
            name=asked.name,
            gnn_features=features,
            graphs_digest=digest,
            sha256=sha256,
            **figures,
        ).id

    return once(store, submission, make)


def _features(store: Store, gnn: str | None) -> ExpectedFeatures | None:
    if gnn is None:
        return None
    with store.database.reading() as session, report_at("/gnn"):
        return expected_features(gnns.find(session, gnn))


def read_dataset(store: Store, dataset_id: str) -> DatasetResource:
    with store.database.reading() as session:
        return dataset_resource(datasets.get(session, dataset_id))
