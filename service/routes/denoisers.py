"""Denoisers: trained once per GNN, reference set, objective and config."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from d4explain.contracts.job_states import TrainingState
from service import examples
from service.context import ContextOf, handle_body, run_in_thread
from service.graph_io.features.gnn_features import check_column_rules
from service.http.bodies import json_body
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
    PREFER,
    json_request,
    problem_responses,
    response,
)
from service.http.pagination import METADATA_FILTER, GnnFilter, ListQuery, converted_page, read_page
from service.http.principals import Reader, Registrar
from service.http.responses import (
    accepted_headers,
    json_response,
    page_response,
    poll_headers,
    with_etag,
)
from service.http.waiting import parse_prefer
from service.resource_builders import denoiser_resource
from service.resources import DenoiserResource, PageOf
from service.routes.jobs import wait_for_job
from service.schemas import DenoiserIn
from service.submission.request_webhooks import checked_webhook
from service.submission.resource_ids import checked_id, find_gnn_and_dataset, gnn_filter
from service.submission.training_costs import check_training, training_seconds
from store import jobs
from store.catalogue import denoisers, metadata_changes
from store.catalogue.data_life import deletions
from store.store import Store
from store.webhooks import endpoints

router = APIRouter(tags=["denoisers"])


class DenoisersQuery(ListQuery):
    gnn: GnnFilter | None = None
    state: TrainingState | None = None


@router.post(
    "/v1/denoisers",
    summary="Train a denoiser, or return an existing one",
    description="The same GNN, reference set, objective and config share one denoiser. If it is "
    "already being trained or ready, the response returns it, with `metadata` merged into its own.",
    status_code=202,
    responses={
        200: response("Training has ended; see `state`.", DenoiserResource, examples.DENOISER),
        202: response("Being trained.", DenoiserResource, examples.TRAINING_DENOISER),
        **problem_responses(
            HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        ),
    },
    openapi_extra=json_request(
        DenoiserIn, {"default": examples.DENOISER_IN}, PREFER, IDEMPOTENCY_KEY
    ),
)
async def create_denoiser(request: Request, context: ContextOf, principal: Registrar) -> Response:
    wait = parse_prefer(request.headers.get("prefer"), default=0)
    body = await json_body(request)
    submission = submission_of(request, principal.tenant, body)
    created = await handle_body(context, len(body), create, body, submission)
    context.wake_dispatcher()
    denoiser = await run_in_thread(read_denoiser, context.store, principal.tenant, created.id)
    if denoiser.state is TrainingState.TRAINING:
        wait = await wait_for_job(request, context, principal.tenant, denoiser.job.id, wait)
        denoiser = await run_in_thread(read_denoiser, context.store, principal.tenant, created.id)
    headers = {"Location": f"/v1/denoisers/{created.id}", **wait.headers, **created.headers}
    if denoiser.state is TrainingState.TRAINING:
        return json_response(denoiser, 202, {**accepted_headers(headers["Location"]), **headers})
    return json_response(denoiser, 200, headers)


@router.get(
    "/v1/denoisers",
    summary="List denoisers, newest first",
    responses={
        200: response("A page.", PageOf[DenoiserResource], examples.page(examples.DENOISER)),
        **problem_responses(),
    },
    openapi_extra={"parameters": [METADATA_FILTER]},
)
def list_denoisers(
    request: Request,
    context: ContextOf,
    principal: Reader,
    query: Annotated[DenoisersQuery, Query()],
) -> Response:
    with context.store.database.reading() as session:
        rows = read_page(
            lambda: denoisers.page(
                session,
                query.cursor,
                query.limit,
                tenant=principal.tenant,
                gnn_id=gnn_filter(session, query.gnn, principal.tenant),
                state=query.state,
                filters=query.filters,
            )
        )
        ids = [denoiser.job_id for denoiser in rows.items]
        job_of = jobs.get_all(session, ids, principal.tenant)
    page = converted_page(rows, lambda row: denoiser_resource(row, job_of[row.job_id]))
    return page_response(request, page, query.link_parameters())


@router.get(
    "/v1/denoisers/{denoiser_id}",
    summary="One denoiser with its training job",
    responses={
        200: response("The denoiser.", DenoiserResource, examples.DENOISER),
        304: response("Not modified."),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [PREFER, IF_NONE_MATCH]},
)
async def get_denoiser(
    request: Request, context: ContextOf, principal: Reader, denoiser_id: str
) -> Response:
    wait = parse_prefer(request.headers.get("prefer"), default=0)
    checked_id("denoiser", denoiser_id)
    denoiser = await run_in_thread(read_denoiser, context.store, principal.tenant, denoiser_id)
    if denoiser.state is TrainingState.TRAINING and wait.seconds:
        wait = await wait_for_job(request, context, principal.tenant, denoiser.job.id, wait)
        denoiser = await run_in_thread(read_denoiser, context.store, principal.tenant, denoiser_id)
    headers = {**poll_headers(denoiser.job), **wait.headers}
    return with_etag(request, json_response(denoiser, headers=headers))


@router.delete(
    "/v1/denoisers/{denoiser_id}",
    summary="Delete a denoiser",
    description="Rejected with 409 while jobs use it, also its own training, or while it is on "
    "hold. With the last denoiser of a GNN and a reference set their witnesses are deleted, unless "
    "a job uses them. Explanations and training jobs remain; a new request trains it again.",
    status_code=204,
    responses={
        204: response("Deleted."),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def delete_denoiser(context: ContextOf, principal: Registrar, denoiser_id: str) -> Response:
    with context.store.database.transaction() as session:
        id_ = checked_id("denoiser", denoiser_id)
        deletions.delete_denoiser(session, id_, principal.tenant)
    return Response(status_code=204)


def create(store: Store, body: bytes, submission: Submission) -> Created:
    created = already_created(store, submission)
    if created is not None:
        return created
    posted = parse_model(body, DenoiserIn)
    webhook = checked_webhook(posted.webhook, store.settings)
    with store.database.reading() as session:
        checked_gnn, checked_dataset = find_gnn_and_dataset(
            session, posted.gnn, posted.dataset, submission.tenant
        )
    check_column_rules(store, checked_gnn, checked_dataset)

    def create_row(session: Session) -> str:
        gnn, dataset = find_gnn_and_dataset(
            session, checked_gnn.id, checked_dataset.id, submission.tenant, lock=True
        )
        check_training(
            session,
            "/config",
            gnn=gnn,
            dataset=dataset,
            objective=posted.objective,
            config=posted.config,
            settings=store.settings,
        )
        denoiser, _ = denoisers.get_or_create(
            session,
            gnn=gnn,
            dataset=dataset,
            objective=posted.objective,
            config=posted.config,
            estimated_seconds=training_seconds(posted.objective, posted.config, dataset),
        )
        if posted.metadata:
            metadata_changes.change(session, denoiser, posted.metadata)
        if webhook is not None:
            training = jobs.get(session, denoiser.job_id, submission.tenant)
            endpoints.add_all(session, [(webhook, training)])
        return denoiser.id

    return create_once(store, submission, create_row)


def read_denoiser(store: Store, tenant: str, denoiser_id: str) -> DenoiserResource:
    with store.database.reading() as session:
        denoiser = denoisers.get(session, denoiser_id, tenant)
        return denoiser_resource(denoiser, jobs.get(session, denoiser.job_id, tenant))
