"""Evaluations: explainers and a GNN over a whole test set."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session
from starlette.responses import Response

from d4explain.contracts.evaluations.results import EvaluationResult
from d4explain.contracts.job_states import JobState
from service import examples
from service.context import ContextOf, handle_body, run_in_thread
from service.evaluation_models import (
    EvaluationEstimate,
    EvaluationIn,
    EvaluationResource,
    EvaluationSummary,
    evaluation_summary,
)
from service.http.bodies import json_body
from service.http.idempotency import submission_of
from service.http.json_bodies import parse_model
from service.http.openapi import (
    DRY_RUN,
    IDEMPOTENCY_KEY,
    IF_NONE_MATCH,
    PREFER,
    json_request,
    problem_responses,
    response,
    response_variants,
)
from service.http.pagination import METADATA_FILTER, GnnFilter, ListQuery, converted_page, read_page
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
from service.submission.evaluations.evaluation_checks import create, estimate
from service.submission.resource_ids import checked_id, gnn_filter
from store import jobs
from store.catalogue import metadata_changes
from store.catalogue.evaluations import deletions, evaluations
from store.database.tables import Evaluation
from store.store import Store

router = APIRouter(tags=["evaluations"])


class EvaluationsQuery(ListQuery):
    gnn: GnnFilter | None = None
    state: JobState | None = None


class CreateEvaluationQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    dry_run: bool = Field(False, description="Estimate the cost and queue nothing.")


@router.post(
    "/v1/evaluations",
    summary="Evaluate explainers and a GNN on a test set",
    description="Explains every instance with every explainer and computes figures with 95 % "
    "intervals. The work is split into shards, which any worker runs; each commits its rows. "
    "`GET …/rows` returns them, also while others are still missing. A killed worker loses at most "
    "its shard and changes no figure but times. Denoiser and witnesses are trained first if they "
    "do not exist. GNNs that classify nodes and GNNs behind a URL are refused.",
    status_code=202,
    responses={
        200: response_variants(
            "It ended within `Prefer: wait`; with `dry_run`, the estimated cost.",
            {
                "done": (EvaluationResource, examples.EVALUATION),
                "dry run": (EvaluationEstimate, examples.EVALUATION_ESTIMATE),
            },
        ),
        202: response("Accepted.", EvaluationResource, examples.WAITING_EVALUATION),
        **problem_responses(
            HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        ),
    },
    openapi_extra=json_request(
        EvaluationIn,
        {"a test set": examples.EVALUATION_IN, "a held-out part": examples.HELD_OUT_IN},
        DRY_RUN,
        PREFER,
        IDEMPOTENCY_KEY,
    ),
)
async def create_evaluation(
    request: Request,
    context: ContextOf,
    principal: Explainer,
    query: Annotated[CreateEvaluationQuery, Query()],
) -> Response:
    wait = parse_prefer(request.headers.get("prefer"), default=0)
    body = await json_body(request)
    store, tenant = context.store, principal.tenant
    if query.dry_run:
        return json_response(await handle_body(context, len(body), estimate, tenant, body))
    submission = submission_of(request, tenant, body)
    created = await handle_body(context, len(body), create, body, submission)
    context.wake_dispatcher()
    evaluation = await run_in_thread(read_evaluation, store, tenant, created.id)
    wait = await wait_for_job(request, context, tenant, evaluation.job.id, wait)
    evaluation = await run_in_thread(read_evaluation, store, tenant, created.id)
    headers = {"Location": evaluation.links.self, **wait.headers, **created.headers}
    if evaluation.job.state.is_terminal:
        return json_response(evaluation, 200, headers)
    return json_response(evaluation, 202, {**accepted_headers(evaluation.links.self), **headers})


@router.get(
    "/v1/evaluations",
    summary="List evaluations, newest first",
    responses={
        200: response(
            "A page of evaluations without their results.",
            PageOf[EvaluationSummary],
            examples.page(examples.LISTED_EVALUATION),
        ),
        **problem_responses(),
    },
    openapi_extra={"parameters": [METADATA_FILTER]},
)
def list_evaluations(
    request: Request,
    context: ContextOf,
    principal: Reader,
    query: Annotated[EvaluationsQuery, Query()],
) -> Response:
    tenant = principal.tenant
    with context.store.database.reading() as session:
        rows = read_page(
            lambda: evaluations.page(
                session,
                query.cursor,
                query.limit,
                tenant=tenant,
                gnn_id=gnn_filter(session, query.gnn, tenant),
                state=query.state,
                filters=query.filters,
            )
        )
        job_of = jobs.get_all(session, [row.job_id for row in rows.items], tenant)
        standings = evaluations.standings(session, rows.items)
    page = converted_page(
        rows,
        lambda row: evaluation_summary(row, job_of[row.job_id], standings[row.id]),
    )
    return page_response(request, page, query.link_parameters())


@router.get(
    "/v1/evaluations/{evaluation_id}",
    summary="One evaluation with its figures",
    responses={
        200: response("The evaluation.", EvaluationResource, examples.EVALUATION),
        304: response("Not modified."),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [PREFER, IF_NONE_MATCH]},
)
async def get_evaluation(
    request: Request, context: ContextOf, principal: Reader, evaluation_id: str
) -> Response:
    wait = parse_prefer(request.headers.get("prefer"), default=0)
    store, tenant = context.store, principal.tenant
    checked_id("evaluation", evaluation_id)
    evaluation = await run_in_thread(read_evaluation, store, tenant, evaluation_id)
    if wait.seconds:
        wait = await wait_for_job(request, context, tenant, evaluation.job.id, wait)
        evaluation = await run_in_thread(read_evaluation, store, tenant, evaluation_id)
    headers = {**poll_headers(evaluation.job), **wait.headers}
    return with_etag(request, json_response(evaluation, headers=headers))


@router.patch(
    "/v1/evaluations/{evaluation_id}",
    summary="Change the metadata of an evaluation",
    description=MERGED_WITH_JOBS,
    responses={
        200: response(
            "The changed evaluation, without its result.",
            EvaluationSummary,
            examples.LISTED_EVALUATION,
        ),
        **PATCH_PROBLEMS,
    },
    openapi_extra=METADATA_PATCH,
)
async def change_evaluation(
    request: Request, context: ContextOf, principal: Explainer, evaluation_id: str
) -> Response:
    id_, body = checked_id("evaluation", evaluation_id), await json_body(request)
    return json_response(await run_in_thread(_change, context.store, principal.tenant, id_, body))


@router.delete(
    "/v1/evaluations/{evaluation_id}",
    summary="Delete an evaluation with its rows",
    description="Deletes the request, the instances, all rows and figures, and the jobs. Rejected "
    "with 409 while one of its jobs is queued or running, or while it is on hold. Comparisons, the "
    "GNN, the data sets, the denoiser and the witnesses stay.",
    status_code=204,
    responses={
        204: response("Deleted."),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def delete_evaluation(context: ContextOf, principal: Explainer, evaluation_id: str) -> Response:
    with context.store.database.transaction() as session:
        id_ = checked_id("evaluation", evaluation_id)
        deletions.delete_evaluation(session, id_, principal.tenant)
    return Response(status_code=204)


def read_evaluation(store: Store, tenant: str, evaluation_id: str) -> EvaluationResource:
    with store.database.reading() as session:
        row = evaluations.get(session, evaluation_id, tenant)
        summary = _summary(session, row)
    result = None
    if row.result_digest is not None:
        stored = store.artifacts.of(tenant).get(row.result_digest)
        result = EvaluationResult.model_validate_json(stored)
    return EvaluationResource(**dict(summary), result=result)


def _change(store: Store, tenant: str, evaluation_id: str, body: bytes) -> EvaluationSummary:
    changes = parse_model(body, MetadataPatch).metadata
    with store.database.transaction() as session:
        row = evaluations.get(session, evaluation_id, tenant)
        return _summary(session, metadata_changes.change(session, row, changes))


def _summary(session: Session, row: Evaluation) -> EvaluationSummary:
    return evaluation_summary(
        row,
        jobs.get(session, row.job_id, row.tenant_id),
        evaluations.standings(session, [row])[row.id],
        jobs.TrainingQueue.read(session),
    )
