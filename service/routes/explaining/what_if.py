"""Questions about an explained graph that a running worker answers at once; nothing is stored."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response

from d4explain.contracts.results import Document
from d4explain.contracts.worker_calls import (
    CallFault,
    CallKind,
    Nearest,
    NearestCall,
    WhatIf,
    WhatIfCall,
)
from service import examples
from service.context import Context, ContextOf, run_in_thread
from service.explanation_documents import read_document
from service.graph_io.dataset_graphs import dataset_graphs
from service.http.bodies import posted_json
from service.http.faults import Place, reject
from service.http.json_bodies import parse_model
from service.http.openapi import json_request, problem_responses, response
from service.http.principals import Reader
from service.http.problems import ProblemError
from service.http.responses import json_response
from service.schemas import WhatIfIn
from service.submission.judges import check_same_task
from service.submission.resource_ids import checked_id, report_at
from store.catalogue import datasets, gnns
from store.errors import Conflict
from store.store import Store

router = APIRouter(tags=["explanations"])

_WHAT_IF_SECONDS = 10.0
_NEAREST_SECONDS = 30.0  # the first question about a reference set classifies all its graphs
_PROBLEMS = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE)

Answer = TypeVar("Answer", bound=Document)


class NearestQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    graph: Annotated[
        int, Field(ge=0, le=10_000, description="Index of the posted graph or explained node.")
    ] = 0
    target_class: int | None = Field(
        None, ge=0, description="By default that of the graph's best counterfactual."
    )


@router.post(
    "/v1/explanations/{explanation_id}/what-if",
    summary="What the GNN answers if edges of an explained graph are toggled",
    description="A warm worker answers at once; nothing is queued or stored. `toggles` are pairs "
    "of node ids of the graph as posted: an edge is removed, another pair gets one. The `edits` of "
    "a counterfactual as toggles give its prediction. For a node, `graph` is its neighbourhood. "
    "`gnn` asks another GNN about the same graph, such as the next version.",
    responses={
        200: response("The prediction.", WhatIf, examples.WHAT_IF),
        **problem_responses(*_PROBLEMS, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=json_request(WhatIfIn, {"without one edit": examples.WHAT_IF_IN}),
)
async def ask_what_if(
    request: Request, context: ContextOf, principal: Reader, explanation_id: str
) -> Response:
    async with posted_json(request) as body:
        posted = parse_model(body.read(), WhatIfIn)
    asked = await run_in_thread(_subject, context.store, principal.tenant, explanation_id)
    if posted.gnn is not None:
        asked["gnn"] = await run_in_thread(
            _other_gnn, context.store, principal.tenant, asked["gnn"], posted.gnn
        )
    call = WhatIfCall(**asked, graph=posted.graph, toggles=posted.toggles)
    found = await _ask(context, CallKind.WHAT_IF, call, WhatIf, _WHAT_IF_SECONDS, place="body")
    return json_response(found)


@router.get(
    "/v1/explanations/{explanation_id}/nearest",
    summary="The reference graph of another class that is nearest to an explained graph",
    description="Of the reference graphs that the GNN gives the class, the one that shares most "
    "node neighbourhoods with the graph as posted. For a node classifier, of the neighbourhoods of "
    "reference nodes.",
    responses={
        200: response("The nearest graph and its distance.", Nearest, examples.NEAREST),
        **problem_responses(*_PROBLEMS),
    },
)
async def get_nearest(
    context: ContextOf,
    principal: Reader,
    explanation_id: str,
    query: Annotated[NearestQuery, Query()],
) -> Response:
    asked = await run_in_thread(_subject, context.store, principal.tenant, explanation_id)
    call = NearestCall(**asked, graph=query.graph, target_class=query.target_class)
    found = await _ask(context, CallKind.NEAREST, call, Nearest, _NEAREST_SECONDS, place="query")
    return json_response(await run_in_thread(_with_smiles, context.store, call, found))


def _subject(store: Store, tenant: str, explanation_id: str) -> dict[str, str]:
    """What a worker needs to find the explained graph; raises NotFound or Conflict."""
    document = read_document(store, tenant, checked_id("explanation", explanation_id))
    summary = document.summary
    if summary.kind != "counterfactual":
        raise Conflict(f"{summary.id} explains a class; it has no graph to change")
    return {
        "tenant": tenant,
        "gnn": summary.gnn,
        "dataset": summary.dataset,
        "answer_sha256": document.require_result(),
    }


def _other_gnn(store: Store, tenant: str, explained: str, reference: str) -> str:
    """The id of the GNN to ask instead; the drawn neighbourhood of a node suits one GNN only."""
    with store.database.reading() as session:
        gnn = gnns.get(session, explained, tenant)
        with report_at("/gnn"):
            other = gnns.require_ready(session, reference, tenant, lock=False)
    check_same_task(other, gnn, "/gnn")
    if gnns.classifies_nodes(gnn):
        reject("/gnn", f"{other.id} classifies nodes; only GNNs that classify graphs are compared")
    if gnns.edge_features(other) != gnns.edge_features(gnn):
        reject(
            "/gnn",
            f"{other.id} takes {gnns.edge_features(other) or 'no'} attributes per edge; "
            f"the GNN {gnn.id} takes {gnns.edge_features(gnn) or 'none'}",
        )
    return other.id


async def _ask(
    context: Context,
    kind: CallKind,
    call: Document,
    expected: type[Answer],
    seconds: float,
    *,
    place: Place,
) -> Answer:
    text = await context.ask_worker(kind, call.model_dump_json(), seconds)
    if text is None:
        raise ProblemError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "no-worker-answered",
            f"No worker answered within {seconds:.0f} s; /readyz lists the workers.",
            headers={"Retry-After": "5"},
        )
    try:
        fault = CallFault.model_validate_json(text)
    except ValidationError:
        return expected.model_validate_json(text)
    if fault.at:
        reject(fault.at, fault.detail, place)
    raise Conflict(fault.detail)


def _with_smiles(store: Store, call: NearestCall, found: Nearest) -> Nearest:
    """Adds the SMILES that the reference graph was posted as."""
    if found.nearest is None or found.nearest.position is None:
        return found
    with store.database.reading() as session:
        dataset = datasets.get(session, call.dataset, call.tenant)
    [posted] = dataset_graphs(store.artifacts, dataset, found.nearest.position, 1).graphs
    nearest = found.nearest.model_copy(update={"smiles": posted.smiles})
    return found.model_copy(update={"nearest": nearest})
