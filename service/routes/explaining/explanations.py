"""Explanations: a request about a GNN and, once its job has succeeded, the result."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response

from d4explain.contracts.job_states import ExplanationKind, JobState, Stage
from service import examples
from service.context import Context, ContextOf, context_of, handle_body, run_in_thread
from service.drawing.rendering import DrawnResult, drawing_response
from service.explanation_documents import document_response, read_document, read_summary
from service.http.bodies import posted_json
from service.http.idempotency import submission_of
from service.http.openapi import (
    DRY_RUN,
    IDEMPOTENCY_KEY,
    IF_NONE_MATCH,
    PREFER,
    WAIT_FOR,
    json_request,
    problem_responses,
    response,
    response_variants,
)
from service.http.pagination import METADATA_FILTER, GnnFilter, ListQuery, converted_page, read_page
from service.http.principals import Explainer, Reader
from service.http.responses import (
    accepted_headers,
    caching_headers,
    json_response,
    not_modified,
    page_response,
    retry_after,
)
from service.http.waiting import parse_prefer
from service.resource_builders import explanation_summary
from service.resources import ExplanationResource, ExplanationSummary, PageOf
from service.routes.explaining.answers import (
    GraphQuery,
    document_or_graph,
    has_awaited_answer,
    seconds_until,
    wait_for_answer,
)
from service.schemas import ExplanationIn
from service.submission.cost_estimates import Estimate
from service.submission.explanation_checks import PostedExplanation, check, estimate_cost
from service.submission.explanation_submissions import Committed
from service.submission.resource_ids import checked_id, gnn_filter
from store import jobs
from store.catalogue import explanations
from store.catalogue.data_life import deletions
from store.store import Store

router = APIRouter(tags=["explanations"])

_SMALL_BODY = 64 * 1024  # bytes; parsed within a few milliseconds


class ExplanationsQuery(ListQuery):
    kind: ExplanationKind | None = None
    gnn: GnnFilter | None = None
    state: JobState | None = None


class CreateQuery(BaseModel):
    """The OpenAPI document describes it with `DRY_RUN` and `WAIT_FOR`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dry_run: bool = False
    wait_for: Stage = Stage.FINAL


class FormatQuery(GraphQuery):
    wait_for: Stage = Field(
        Stage.FINAL, description="The answer that `Prefer: wait` and `Retry-After` refer to."
    )


@router.post(
    "/v1/explanations",
    summary="Request an explanation",
    description="`kind: counterfactual`: the smallest believable change of each graph that changes "
    "the GNN's prediction. For a GNN that classifies nodes, give the `node` or `nodes` of one "
    "`graph`. The search edits the node's neighbourhood and verifies answers on the whole graph. "
    "Without `graph`, `node` and `nodes` refer to `dataset`, which must be one large graph. "
    "`kind: class`: patterns of graphs, or of neighbourhoods of nodes, that show a class. "
    "`kind: global`: few graphs of another class that are near to as many graphs of "
    "`source_class` as possible, with the edits that lead there; it needs no training. "
    "If the denoiser or the witnesses do not exist yet, they are trained first; the job then has "
    "`waiting_for`. Meanwhile a search without them gives a provisional answer at once, for a "
    "class patterns from the reference graphs alone; "
    "`wait_for=provisional` waits for that one only. There is none for black boxes and for graphs "
    "of more than `D4_EXACT_NODES` nodes. `explainer: search` needs no denoiser; with "
    "`aim: minimal` and `judges: none` its job starts at once; so do explainers of the literature. "
    "If no counterfactual is found "
    "within the budget, the job succeeds and the result says so.",
    status_code=202,
    responses={
        200: response_variants(
            "The awaited answer came within `Prefer: wait`; with `dry_run`, the estimated cost.",
            {
                "done": (ExplanationResource, examples.EXPLANATION),
                "provisional": (ExplanationResource, examples.PROVISIONAL_EXPLANATION),
                "dry run": (Estimate, examples.ESTIMATE),
                "dry run of global": (Estimate, examples.GLOBAL_ESTIMATE),
            },
        ),
        202: response("Accepted.", ExplanationResource, examples.WAITING_EXPLANATION),
        **problem_responses(
            HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        ),
    },
    openapi_extra=json_request(
        ExplanationIn,
        {
            "counterfactual": examples.COUNTERFACTUAL_IN,
            "without a denoiser": examples.SEARCH_IN,
            "many graphs": examples.MANY_IN,
            "nodes": examples.NODES_IN,
            "a node of a large graph": examples.LARGE_NODE_IN,
            "class": examples.CLASS_IN,
            "global": examples.GLOBAL_IN,
        },
        DRY_RUN,
        WAIT_FOR,
        PREFER,
        IDEMPOTENCY_KEY,
    ),
)
async def create_explanation(request: Request, principal: Explainer) -> Response:
    # Not as FastAPI parameters, which cost time even if there is no query.
    context, query = await context_of(request), _parse_query(request)
    wait = parse_prefer(request.headers.get("prefer"), default=0)
    if query.dry_run:
        async with posted_json(request) as body:
            estimate = await handle_body(context, body.size, estimate_cost, principal.tenant, body)
            return json_response(estimate)
    committed = await _submit(request, context, principal.tenant)
    context.wake_dispatcher(*committed.queued)
    explanation_id = committed.created.id
    location = f"/v1/explanations/{explanation_id}"
    headers = {"Location": location, **committed.created.headers}
    if committed.resource is not None and wait.seconds <= 0:
        seconds = seconds_until(committed.resource, query.wait_for)
        headers = {**accepted_headers(location, seconds), **wait.headers, **headers}
        return json_response(committed.resource, 202, headers)
    summary = await run_in_thread(read_summary, context.store, principal.tenant, explanation_id)
    wait = await wait_for_answer(
        request, context, summary, query.wait_for, wait, tenant=principal.tenant
    )
    headers.update(wait.headers)
    document = await run_in_thread(read_document, context.store, principal.tenant, explanation_id)
    if not has_awaited_answer(document.summary, query.wait_for):
        seconds = seconds_until(document.summary, query.wait_for)
        headers = {**accepted_headers(location, seconds), **headers}
        return await document_response(context, document, 202, headers)
    return await document_response(context, document, 200, headers)


@router.get(
    "/v1/explanations",
    summary="List explanations, newest first",
    responses={
        200: response(
            "A page of explanations without their results.",
            PageOf[ExplanationSummary],
            examples.page(examples.LISTED_EXPLANATION),
        ),
        **problem_responses(),
    },
    openapi_extra={"parameters": [METADATA_FILTER]},
)
def list_explanations(
    request: Request,
    context: ContextOf,
    principal: Reader,
    query: Annotated[ExplanationsQuery, Query()],
) -> Response:
    with context.store.database.reading() as session:
        rows = read_page(
            lambda: explanations.page(
                session,
                query.cursor,
                query.limit,
                tenant=principal.tenant,
                kind=query.kind,
                gnn_id=gnn_filter(session, query.gnn, principal.tenant),
                state=query.state,
                filters=query.filters,
            )
        )
        ids = [id_ for row in rows.items for id_ in (row.job_id, row.provisional_job_id) if id_]
        job_of = jobs.get_all(session, ids, principal.tenant)
        queue = jobs.TrainingQueue.read(session)
    page = converted_page(
        rows,
        lambda row: explanation_summary(
            row, job_of[row.job_id], job_of.get(row.provisional_job_id or ""), queue
        ),
    )
    return page_response(request, page, query.link_parameters())


@router.get(
    "/v1/explanations/{explanation_id}",
    summary="One explanation with its result",
    description="`format=svg|factual|graphml|cytoscape|pyg|grafana` returns one graph instead: "
    "counterfactual `alternative`, best first, of graph `graph`. An explained node is marked. If "
    "there is no counterfactual, SVG draws the closest miss. A PyG dict can be posted unchanged. "
    "Of `kind: global`, SVG without `graph` draws all counterfactuals.",
    responses=document_or_graph(
        "The explanation, or one of its graphs.",
        {
            "json": (ExplanationResource, examples.EXPLANATION),
            "class": (ExplanationResource, examples.CLASS_EXPLANATION),
            "global": (ExplanationResource, examples.GLOBAL_EXPLANATION),
        },
    ),
    openapi_extra={"parameters": [PREFER, IF_NONE_MATCH]},
)
async def get_explanation(
    request: Request,
    context: ContextOf,
    principal: Reader,
    explanation_id: str,
    query: Annotated[FormatQuery, Query()],
) -> Response:
    wait = parse_prefer(request.headers.get("prefer"), default=0)
    store, tenant = context.store, principal.tenant
    checked_id("explanation", explanation_id)
    document = await run_in_thread(read_document, store, tenant, explanation_id)
    if wait.seconds > 0:
        wait = await wait_for_answer(
            request, context, document.summary, query.wait_for, wait, tenant=tenant
        )
        document = await run_in_thread(read_document, store, tenant, explanation_id)
    summary, selection = document.summary, query.selection()
    if selection is not None:
        drawn = DrawnResult(tenant, document.require_result(), summary.gnn)
        return await drawing_response(request, context, drawn, selection, wait.headers)
    is_done = has_awaited_answer(summary, query.wait_for)
    polling = {} if is_done else retry_after(seconds_until(summary, query.wait_for))
    tag = document.etag
    headers = {**polling, **wait.headers, **caching_headers(tag)}
    unchanged = not_modified(request, tag, headers)
    return unchanged or await document_response(context, document, 200, headers)


@router.delete(
    "/v1/explanations/{explanation_id}",
    summary="Delete an explanation with its answers",
    description="Deletes the request, all answers, and the jobs with their events and progress. "
    "Rejected with 409 while one of its jobs is queued or running, or while it is on hold. The "
    "GNN, the reference set, the denoiser and the witnesses stay.",
    status_code=204,
    responses={
        204: response("Deleted."),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
async def delete_explanation(
    context: ContextOf, principal: Explainer, explanation_id: str
) -> Response:
    digests = await run_in_thread(
        delete, context.store, principal.tenant, checked_id("explanation", explanation_id)
    )
    context.drawings.discard(digests)
    return Response(status_code=204)


def delete(store: Store, tenant: str, explanation_id: str) -> list[str]:
    with store.database.transaction() as session:
        return deletions.delete_explanation(session, explanation_id, tenant)


async def _submit(request: Request, context: Context, tenant: str) -> Committed:
    async with posted_json(request) as body:
        return await submit_posted(
            context, PostedExplanation(body, submission_of(request, tenant, body))
        )


async def submit_posted(context: Context, posted: PostedExplanation) -> Committed:
    """Checks and commits a request whose body has arrived."""
    if posted.body.size <= _SMALL_BODY:
        checked = await context.submissions.check(posted)
    else:  # not in the shared batches: small requests would wait for it
        checked = await handle_body(context, posted.body.size, check, posted)
    return await context.submissions.commit(checked)


def _parse_query(request: Request) -> CreateQuery:
    if not request.scope["query_string"]:
        return CreateQuery()
    try:
        return CreateQuery.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise RequestValidationError(
            [{**invalid, "loc": ("query", *invalid["loc"])} for invalid in error.errors()]
        ) from error
