"""Explanations: a request about a GNN and, once its job has succeeded, the result."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response

from service import examples
from service.context import Context, ContextOf, context_of, in_thread, reading_body
from service.drawing.rendering import GRAPHML, SVG, WantedGraph, drawing_reply
from service.explanation_documents import document_reply, read_document
from service.graph_io.graph_writers import CytoscapeDocument, Format, PygDocument
from service.http.bodies import posted_json
from service.http.faults import reject
from service.http.idempotency import submission_of
from service.http.openapi import (
    DRY_RUN,
    IDEMPOTENCY_KEY,
    IF_NONE_MATCH,
    PREFER,
    answer,
    either,
    problems,
    takes,
)
from service.http.pagination import GnnFilter, PageQuery, read_page, shown_page
from service.http.responses import (
    accepted_headers,
    caching_headers,
    not_modified,
    page_reply,
    poll_headers,
    reply,
)
from service.http.waiting import preference
from service.resources import (
    ExplanationResource,
    ExplanationSummary,
    PageOf,
    explanation_summary,
)
from service.routes.jobs import until_ended
from service.schemas import ExplanationIn
from service.submission.cost_estimates import Estimate
from service.submission.explanation_checks import PostedExplanation, check, estimate_cost
from service.submission.explanation_submissions import Committed
from service.submission.resource_ids import checked_id, gnn_filter
from store import jobs
from store.catalogue import explanations
from store.store import Store

router = APIRouter(tags=["explanations"])

_SMALL_BODY = 64 * 1024  # bytes; parsed within a few milliseconds


class ExplanationsQuery(PageQuery):
    kind: Literal["counterfactual", "class"] | None = None
    gnn: GnnFilter | None = None


class CreateQuery(BaseModel):
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
    summary="Request an explanation",
    description="`kind: counterfactual`: the smallest realistic change of each graph that changes "
    "the GNN's answer. A GNN that classifies nodes is asked about the `node`, or `nodes`, of one "
    "`graph`: the part of it that the node's class depends on is edited, and every answer holds in "
    "the whole graph. Without `graph` they are nodes of `dataset`, if that is one large graph. "
    "`kind: class`: what a typical graph, or neighbourhood of a node, of a class looks like to the "
    "GNN. "
    "A denoiser that does not exist yet is trained first; the job then says `waiting_for`. "
    "`explainer: search` needs no denoiser, so its job starts at once. A graph for which nothing "
    "is found within the budget is a success that says so.",
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
            "without a denoiser": examples.SEARCH_IN,
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
    # Not as parameters: most requests have no query, and FastAPI is slow to find nothing.
    context, query = await context_of(request), _parse_query(request)
    wait = preference(request.headers.get("prefer"), default=0)
    if query.dry_run:
        async with posted_json(request) as body:
            return reply(await reading_body(context, body.size, estimate_cost, body))
    committed = await _submit(request, context)
    context.wake_dispatcher(*committed.queued)
    explanation_id = committed.created.id
    location = f"/v1/explanations/{explanation_id}"
    headers = {"Location": location, **committed.created.headers}
    if committed.resource is not None and wait.seconds <= 0:
        headers = {**accepted_headers(location), **wait.headers, **headers}
        return reply(committed.resource, 202, headers)
    summary = await in_thread(read_summary, context.store, explanation_id)
    wait = await until_ended(request, context, summary.job.id, wait)
    headers.update(wait.headers)
    document = await in_thread(read_document, context.store, explanation_id)
    if document.summary.job.finished_at is None:
        headers = {**accepted_headers(location), **headers}
        return await document_reply(context, document, 202, headers)
    return await document_reply(context, document, 200, headers)


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
            more={SVG: examples.SVG, GRAPHML: examples.GRAPHML},
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
    document = await in_thread(read_document, store, checked_id("explanation", explanation_id))
    job = document.summary.job
    if wait.seconds > 0:
        wait = await until_ended(request, context, job.id, wait)
        document = await in_thread(read_document, store, explanation_id)
    if query.format is not Format.JSON:
        wanted = WantedGraph(query.format, query.graph or 0, query.alternative or 0)
        return await drawing_reply(request, context, document, wanted, wait.headers)
    _check_whole(query)
    waiting = {} if document.summary.job.finished_at else poll_headers(job)
    tag = document.etag
    headers = {**waiting, **wait.headers, **caching_headers(tag)}
    known = not_modified(request, tag, headers)
    return known or await document_reply(context, document, 200, headers)


async def _submit(request: Request, context: Context) -> Committed:
    async with posted_json(request) as body:
        posted = PostedExplanation(body, submission_of(request, body))
        if body.size <= _SMALL_BODY:
            checked = await context.submissions.check(posted)
        else:  # beside the small ones, which would have to wait for it
            checked = await reading_body(context, body.size, check, posted)
    return await context.submissions.commit(checked)


def _parse_query(request: Request) -> CreateQuery:
    if not request.scope["query_string"]:
        return CreateQuery()
    try:
        return CreateQuery.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise RequestValidationError(
            [{**found, "loc": ("query", *found["loc"])} for found in error.errors()]
        ) from error


def read_summary(store: Store, explanation_id: str) -> ExplanationSummary:
    with store.database.reading() as session:
        explanation = explanations.get(session, explanation_id)
        return explanation_summary(explanation, jobs.get(session, explanation.job_id))


def _check_whole(query: FormatQuery) -> None:
    for name, value in (("graph", query.graph), ("alternative", query.alternative)):
        if value is not None:
            reject(name, "is only for format=svg, graphml, cytoscape or pyg", "query")
