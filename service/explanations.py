"""Explanations: a question about a GNN and, once its job has succeeded, the answer."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.orm import Session
from starlette.responses import JSONResponse, Response

from service import examples
from service.bodies import json_body
from service.context import ContextOf, context_of, in_thread, reading_body
from service.estimates import Estimate
from service.faults import refuse
from service.graphs_out import (
    ChosenGraph,
    CytoscapeDocument,
    Format,
    PygDocument,
    chosen_graph,
    require_answer,
    to_cytoscape,
    to_graphml,
    to_pyg,
)
from service.idempotency import submission_of
from service.jobs import until_ended
from service.openapi import (
    DRY_RUN,
    IDEMPOTENCY_KEY,
    IF_NONE_MATCH,
    PREFER,
    answer,
    either,
    problems,
    takes,
)
from service.pagination import GnnFilter, PageQuery, read_page, shown_page
from service.references import checked_id, gnn_filter
from service.replies import accepted_headers, page_reply, poll_headers, reply, tagged
from service.resources import (
    ExplanationResource,
    ExplanationSummary,
    PageOf,
    explanation_document,
    explanation_summary,
)
from service.schemas import ExplanationIn
from service.submissions import Question, check, foretell
from service.svg import to_svg
from service.waiting import preference
from store import explanations, gnns, jobs
from store.errors import Conflict, NotFound
from store.opened import Store
from store.results import ClassResult, CounterfactualResult

router = APIRouter(tags=["explanations"])

_SMALL_BODY = 64 * 1024  # bytes, read in some milliseconds
_SVG = "image/svg+xml"
_GRAPHML = "application/graphml+xml"


class ExplanationsQuery(PageQuery):
    kind: Literal["counterfactual", "class"] | None = None
    gnn: GnnFilter | None = None


class AskQuery(BaseModel):
    """Described by `DRY_RUN`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dry_run: bool = False


class FormatQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format = Field(Format.JSON, description="All but `json` give one graph.")
    graph: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        None,
        description="Which posted graph, asked node or class example; the first if not given.",
    )
    alternative: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        None, description="Which of its counterfactuals; the best if not given."
    )


@router.post(
    "/v1/explanations",
    summary="Ask for an explanation",
    description="`kind: counterfactual`: the smallest realistic change of each graph that changes "
    "the GNN's answer. A GNN that classifies nodes is asked about the `node`, or `nodes`, of one "
    "`graph`: the part of it that the node's class depends on is edited, and every answer holds in "
    "the whole graph. Without `graph` they are nodes of `dataset`, if that is one large graph. "
    "`kind: class`: what a typical graph, or neighbourhood of a node, of a class looks like to the "
    "GNN. "
    "A denoiser that does not exist yet is trained first; the job then says `waiting_for`. A graph "
    "for which nothing is found within the budget is a success that says so.",
    status_code=202,
    responses={
        200: either(
            "Done within `Prefer: wait`; or what it would take, with `dry_run`.",
            {
                "done": (ExplanationResource, examples.EXPLANATION),
                "dry run": (Estimate, examples.ESTIMATE),
            },
        ),
        202: answer("Accepted.", ExplanationResource, examples.WAITING_EXPLANATION),
        **problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=takes(
        ExplanationIn,
        {
            "counterfactual": examples.COUNTERFACTUAL_IN,
            "many graphs": examples.MANY_IN,
            "nodes": examples.NODES_IN,
            "a node of a large graph": examples.LARGE_NODE_IN,
            "class": examples.CLASS_IN,
        },
        DRY_RUN,
        PREFER,
        IDEMPOTENCY_KEY,
    ),
)
async def create_explanation(request: Request) -> Response:
    # Not as parameters: most questions have no query, and FastAPI takes long to find nothing.
    context, query = await context_of(request), _asked_by(request)
    wait = preference(request.headers.get("prefer"), default=0)
    body = await json_body(request)
    if query.dry_run:
        return reply(await reading_body(context, foretell, context.store, body))
    question = Question(body, submission_of(request, body))
    # Others are not to wait while a large body is read.
    is_small = len(body) <= _SMALL_BODY
    written = await context.submissions.ask(
        question if is_small else await reading_body(context, check, context.store, question)
    )
    context.nudge(*written.queued)
    location = f"/v1/explanations/{written.made.id}"
    headers = {"Location": location, **wait.headers, **written.made.headers}
    if written.new is not None and wait.seconds <= 0:
        return reply(written.new, 202, {**accepted_headers(location), **headers})
    summary = await in_thread(read_summary, context.store, written.made.id)
    await until_ended(context, summary.job.id, wait.seconds)
    document = await in_thread(read_document, context.store, written.made.id)
    if document["job"]["finished_at"] is None:
        return reply(document, 202, {**accepted_headers(location), **headers})
    return reply(document, 200, headers)


@router.get(
    "/v1/explanations",
    summary="List explanations, newest first",
    responses={
        200: answer(
            "A page of explanations without their results.",
            PageOf[ExplanationSummary],
            examples.page(examples.LISTED_EXPLANATION),
        ),
        **problems(),
    },
)
def list_explanations(
    request: Request, context: ContextOf, query: Annotated[ExplanationsQuery, Query()]
) -> Response:
    with context.store.database.reading() as session:
        found = read_page(
            lambda: explanations.page(
                session,
                query.cursor,
                query.limit,
                kind=query.kind,
                gnn_id=gnn_filter(session, query.gnn),
            )
        )
        job_of = jobs.get_all(session, [explanation.job_id for explanation in found.items])
    page = shown_page(found, lambda one: explanation_summary(one, job_of[one.job_id]))
    return page_reply(request, page, query.repeated())


@router.get(
    "/v1/explanations/{explanation_id}",
    summary="One explanation with its result",
    description="`format=svg|graphml|cytoscape|pyg` gives one of its graphs instead: graph `graph` "
    "and its counterfactual `alternative`, best first. An explained node is marked. SVG draws the "
    "closest miss where nothing was found. A PyG dict can be posted again as it is.",
    responses={
        200: either(
            "The explanation, or one of its graphs.",
            {
                "json": (ExplanationResource, examples.EXPLANATION),
                "cytoscape": (CytoscapeDocument, examples.CYTOSCAPE),
                "pyg": (PygDocument, examples.PYG),
            },
            more={_SVG: examples.SVG, _GRAPHML: examples.GRAPHML},
        ),
        304: answer("The client has this answer already."),
        **problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
    openapi_extra={"parameters": [PREFER, IF_NONE_MATCH]},
)
async def get_explanation(
    request: Request,
    context: ContextOf,
    explanation_id: str,
    query: Annotated[FormatQuery, Query()],
) -> Response:
    wait = preference(request.headers.get("prefer"), default=0)
    store = context.store
    summary = await in_thread(read_summary, store, checked_id("explanation", explanation_id))
    await until_ended(context, summary.job.id, wait.seconds)
    if query.format is Format.JSON:
        _check_whole(query)
        document = await in_thread(read_document, store, explanation_id)
        waiting = {} if document["job"]["finished_at"] else poll_headers(summary.job)
        return tagged(request, reply(document, headers={**waiting, **wait.headers}))
    response = await in_thread(render, store, explanation_id, query)
    response.headers.update(wait.headers)
    return tagged(request, response)


def _asked_by(request: Request) -> AskQuery:
    if not request.scope["query_string"]:
        return AskQuery()
    try:
        return AskQuery.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise RequestValidationError(
            [{**found, "loc": ("query", *found["loc"])} for found in error.errors()]
        ) from error


def read_summary(store: Store, explanation_id: str) -> ExplanationSummary:
    with store.database.reading() as session:
        explanation = explanations.get(session, explanation_id)
        return explanation_summary(explanation, jobs.get(session, explanation.job_id))


def read_document(store: Store, explanation_id: str) -> dict[str, Any]:
    with store.database.reading() as session:
        explanation = explanations.get(session, explanation_id)
        summary = explanation_summary(explanation, jobs.get(session, explanation.job_id))
    result = None
    if explanation.result_digest is not None:
        result = json.loads(store.artifacts.get(explanation.result_digest))
    return explanation_document(summary, result)


def render(store: Store, explanation_id: str, query: FormatQuery) -> Response:
    """One graph of the result in the form that was asked for."""
    with store.database.reading() as session:
        explanation = explanations.get(session, explanation_id)
        state = jobs.get(session, explanation.job_id).state
        names = _class_names(session, explanation.gnn_id)
    if explanation.result_digest is None:
        raise Conflict(f"explanation {explanation.id} is {state}; it has no graph to show")
    data = store.artifacts.get(explanation.result_digest)
    model = ClassResult if explanation.kind == "class" else CounterfactualResult
    result: ClassResult | CounterfactualResult = model.model_validate_json(data)
    chosen = chosen_graph(result, query.graph or 0, query.alternative or 0)
    if query.format is Format.SVG:
        most, nodes = store.settings.exact_nodes, len(chosen.graph.nodes)
        if nodes > most:
            said = f"is svg, which draws at most {most:,} nodes; the graph has {nodes:,}"
            refuse("format", said, "query")
        # Opened by itself, an SVG is a page: nothing in it may run or load anything.
        guard = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return Response(to_svg(chosen, names), media_type=_SVG, headers=guard)
    require_answer(chosen)
    return _written(chosen, query.format)


def _written(chosen: ChosenGraph, form: Format) -> Response:
    if form is Format.GRAPHML:
        return Response(to_graphml(chosen), media_type=_GRAPHML)
    return JSONResponse(to_cytoscape(chosen) if form is Format.CYTOSCAPE else to_pyg(chosen))


def _class_names(session: Session, gnn_id: str) -> list[str] | None:
    try:
        names: list[str] | None = gnns.get(session, gnn_id).spec.get("class_names")
    except NotFound:  # deleted since
        return None
    return names


def _check_whole(query: FormatQuery) -> None:
    for name, value in (("graph", query.graph), ("alternative", query.alternative)):
        if value is not None:
            refuse(name, "is only for format=svg, graphml, cytoscape or pyg", "query")
