"""Comparisons of two evaluations: what moved beyond noise."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from d4explain.contracts.job_states import JobState
from service import examples
from service.context import ContextOf, handle_body, run_in_thread
from service.evaluation_models import (
    ComparisonIn,
    ComparisonResource,
    ComparisonSummary,
    comparison_resource,
    comparison_summary,
)
from service.http.bodies import json_body
from service.http.idempotency import submission_of
from service.http.json_bodies import parse_model
from service.http.openapi import (
    IDEMPOTENCY_KEY,
    IF_NONE_MATCH,
    PREFER,
    json_request,
    problem_responses,
    response,
)
from service.http.pagination import (
    METADATA_FILTER,
    GnnFilter,
    ListQuery,
    converted_page,
    read_page,
)
from service.http.principals import Explainer, Reader
from service.http.responses import (
    accepted_headers,
    json_response,
    page_response,
    poll_headers,
    with_etag,
)
from service.http.waiting import parse_prefer
from service.resources import PageOf
from service.routes.data_life.metadata import MERGED_WITH_JOBS, METADATA_PATCH, PATCH_PROBLEMS
from service.routes.jobs import wait_for_job
from service.schemas import MetadataPatch
from service.submission.evaluations.comparison_checks import create
from service.submission.resource_ids import checked_id, gnn_filter
from store import jobs
from store.catalogue import metadata_changes
from store.catalogue.evaluations import comparisons, deletions
from store.store import Store

router = APIRouter(tags=["evaluations"])


class ComparisonsQuery(ListQuery):
    state: JobState | None = None
    evaluation: str | None = Field(
        None, max_length=64, description="Only comparisons of this evaluation."
    )
    gnn: GnnFilter | None = None


@router.post(
    "/v1/comparisons",
    summary="Compare two evaluations",
    description="Says which figures moved beyond noise, with effect sizes and p values that Holm's "
    "method corrects. Two GNNs are compared with the spread of retrained GNNs: every training "
    "differs from the next by more than the instances explain. 409 if an evaluation has not "
    "succeeded.",
    status_code=202,
    responses={
        200: response("It ended within `Prefer: wait`.", ComparisonResource, examples.COMPARISON),
        202: response("Accepted.", ComparisonResource, examples.WAITING_COMPARISON),
        **problem_responses(
            HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        ),
    },
    openapi_extra=json_request(
        ComparisonIn,
        {"two versions": examples.COMPARISON_IN, "two explainers": examples.EXPLAINERS_IN},
        PREFER,
        IDEMPOTENCY_KEY,
    ),
)
async def create_comparison(request: Request, context: ContextOf, principal: Explainer) -> Response:
    wait = parse_prefer(request.headers.get("prefer"), default=0)
    body = await json_body(request)
    store, tenant = context.store, principal.tenant
    submission = submission_of(request, tenant, body)
    created = await handle_body(context, len(body), create, body, submission)
    context.wake_dispatcher()
    comparison = await run_in_thread(read_comparison, store, tenant, created.id)
    wait = await wait_for_job(request, context, tenant, comparison.job.id, wait)
    comparison = await run_in_thread(read_comparison, store, tenant, created.id)
    headers = {"Location": comparison.links.self, **wait.headers, **created.headers}
    if comparison.job.state.is_terminal:
        return json_response(comparison, 200, headers)
    return json_response(comparison, 202, {**accepted_headers(comparison.links.self), **headers})


@router.get(
    "/v1/comparisons",
    summary="List comparisons, newest first",
    responses={
        200: response(
            "A page of comparisons without their results.",
            PageOf[ComparisonSummary],
            examples.page(examples.LISTED_COMPARISON),
        ),
        **problem_responses(),
    },
    openapi_extra={"parameters": [METADATA_FILTER]},
)
def list_comparisons(
    request: Request,
    context: ContextOf,
    principal: Reader,
    query: Annotated[ComparisonsQuery, Query()],
) -> Response:
    with context.store.database.reading() as session:
        rows = read_page(
            lambda: comparisons.page(
                session,
                query.cursor,
                query.limit,
                tenant=principal.tenant,
                evaluation_id=query.evaluation,
                state=query.state,
                filters=query.filters,
                gnn_id=gnn_filter(session, query.gnn, principal.tenant),
            )
        )
        job_of = jobs.get_all(session, [row.job_id for row in rows.items], principal.tenant)
    page = converted_page(rows, lambda row: comparison_summary(row, job_of[row.job_id]))
    return page_response(request, page, query.link_parameters())


@router.get(
    "/v1/comparisons/{comparison_id}",
    summary="One comparison with what moved",
    responses={
        200: response("The comparison.", ComparisonResource, examples.COMPARISON),
        304: response("Not modified."),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [PREFER, IF_NONE_MATCH]},
)
async def get_comparison(
    request: Request, context: ContextOf, principal: Reader, comparison_id: str
) -> Response:
    wait = parse_prefer(request.headers.get("prefer"), default=0)
    store, tenant = context.store, principal.tenant
    checked_id("comparison", comparison_id)
    comparison = await run_in_thread(read_comparison, store, tenant, comparison_id)
    if wait.seconds:
        wait = await wait_for_job(request, context, tenant, comparison.job.id, wait)
        comparison = await run_in_thread(read_comparison, store, tenant, comparison_id)
    headers = {**poll_headers(comparison.job), **wait.headers}
    return with_etag(request, json_response(comparison, headers=headers))


@router.patch(
    "/v1/comparisons/{comparison_id}",
    summary="Change the metadata of a comparison",
    description=MERGED_WITH_JOBS,
    responses={
        200: response(
            "The changed comparison, without its result.",
            ComparisonSummary,
            examples.LISTED_COMPARISON,
        ),
        **PATCH_PROBLEMS,
    },
    openapi_extra=METADATA_PATCH,
)
async def change_comparison(
    request: Request, context: ContextOf, principal: Explainer, comparison_id: str
) -> Response:
    id_, body = checked_id("comparison", comparison_id), await json_body(request)
    return json_response(await run_in_thread(_change, context.store, principal.tenant, id_, body))


@router.delete(
    "/v1/comparisons/{comparison_id}",
    summary="Delete a comparison",
    description="Rejected with 409 while its job is queued or running, or while it is on hold. The "
    "evaluations stay.",
    status_code=204,
    responses={
        204: response("Deleted."),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def delete_comparison(context: ContextOf, principal: Explainer, comparison_id: str) -> Response:
    with context.store.database.transaction() as session:
        id_ = checked_id("comparison", comparison_id)
        deletions.delete_comparison(session, id_, principal.tenant)
    return Response(status_code=204)


def read_comparison(store: Store, tenant: str, comparison_id: str) -> ComparisonResource:
    with store.database.reading() as session:
        row = comparisons.get(session, comparison_id, tenant)
        return comparison_resource(row, jobs.get(session, row.job_id, tenant))


def _change(store: Store, tenant: str, comparison_id: str, body: bytes) -> ComparisonSummary:
    changes = parse_model(body, MetadataPatch).metadata
    with store.database.transaction() as session:
        row = comparisons.get(session, comparison_id, tenant)
        changed = metadata_changes.change(session, row, changes)
        return comparison_summary(changed, jobs.get(session, changed.job_id, tenant))
