"""Denoisers: trained once per GNN, reference set, objective and config."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from d4explain.contracts.job_states import DenoiserState
from service import examples
from service.context import ContextOf, in_thread, reading_body
from service.graph_io.features import check_one_hot_groups
from service.http.bodies import json_body
from service.http.idempotency import Created, Submission, known, once, submission_of
from service.http.json_bodies import parse_model
from service.http.openapi import IDEMPOTENCY_KEY, IF_NONE_MATCH, PREFER, answer, problems, takes
from service.http.pagination import GnnFilter, PageQuery, read_page, shown_page
from service.http.responses import accepted_headers, page_reply, poll_headers, reply, tagged
from service.http.waiting import preference
from service.resources import DenoiserResource, PageOf, denoiser_resource
from service.routes.jobs import until_ended
from service.schemas import DenoiserIn
from service.submission.resource_ids import checked_id, find_gnn_and_dataset, gnn_filter
from service.submission.training_costs import check_training
from store import jobs
from store.catalogue import denoisers
from store.store import Store

router = APIRouter(tags=["denoisers"])


class DenoisersQuery(PageQuery):
    gnn: GnnFilter | None = None


@router.post(
    "/v1/denoisers",
    summary="Train a denoiser, or find it trained",
    description="The same GNN, reference set, objective and config are never trained twice: a "
    "running training is joined, a ready denoiser is the answer (200).",
    status_code=202,
    responses={
        200: answer(
            "Not in training; `state` says how it is.", DenoiserResource, examples.DENOISER
        ),
        202: answer("Being trained.", DenoiserResource, examples.TRAINING_DENOISER),
        **problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=takes(DenoiserIn, {"default": examples.DENOISER_IN}, PREFER, IDEMPOTENCY_KEY),
)
async def create_denoiser(request: Request, context: ContextOf) -> Response:
    wait = preference(request.headers.get("prefer"), default=0)
    body = await json_body(request)
    submission = submission_of(request, body)
    made = await reading_body(context, len(body), create, body, submission)
    context.wake_dispatcher()
    denoiser = await in_thread(read_denoiser, context.store, made.id)
    if denoiser.state is DenoiserState.TRAINING:
        wait = await until_ended(request, context, denoiser.job.id, wait)
        denoiser = await in_thread(read_denoiser, context.store, made.id)
    headers = {"Location": f"/v1/denoisers/{made.id}", **wait.headers, **made.headers}
    if denoiser.state is DenoiserState.TRAINING:
        return reply(denoiser, 202, {**accepted_headers(headers["Location"]), **headers})
    return reply(denoiser, 200, headers)


@router.get(
    "/v1/denoisers",
    summary="List denoisers, newest first",
    responses={
        200: answer("A page.", PageOf[DenoiserResource], examples.page(examples.DENOISER)),
        **problems(),
    },
)
def list_denoisers(
    request: Request, context: ContextOf, query: Annotated[DenoisersQuery, Query()]
) -> Response:
    with context.store.database.reading() as session:
        found = read_page(
            lambda: denoisers.page(
                session, query.cursor, query.limit, gnn_id=gnn_filter(session, query.gnn)
            )
        )
        job_of = jobs.get_all(session, [denoiser.job_id for denoiser in found.items])
    page = shown_page(found, lambda one: denoiser_resource(one, job_of[one.job_id]))
    return page_reply(request, page, query.repeated())


@router.get(
    "/v1/denoisers/{denoiser_id}",
    summary="One denoiser with its training job",
    responses={
        200: answer("The denoiser.", DenoiserResource, examples.DENOISER),
        304: answer("The client has this answer already."),
        **problems(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [PREFER, IF_NONE_MATCH]},
)
async def get_denoiser(request: Request, context: ContextOf, denoiser_id: str) -> Response:
    wait = preference(request.headers.get("prefer"), default=0)
    checked_id("denoiser", denoiser_id)
    denoiser = await in_thread(read_denoiser, context.store, denoiser_id)
    if denoiser.state is DenoiserState.TRAINING and wait.seconds:
        wait = await until_ended(request, context, denoiser.job.id, wait)
        denoiser = await in_thread(read_denoiser, context.store, denoiser_id)
    headers = {**poll_headers(denoiser.job), **wait.headers}
    return tagged(request, reply(denoiser, headers=headers))


def create(store: Store, body: bytes, submission: Submission) -> Created:
    made = known(store, submission)
    if made is not None:
        return made
    asked = parse_model(body, DenoiserIn)
    with store.database.reading() as session:
        chosen, graphs = find_gnn_and_dataset(session, asked.gnn, asked.dataset)
    check_one_hot_groups(store, chosen, graphs)

    def make(session: Session) -> str:
        gnn, dataset = find_gnn_and_dataset(session, chosen.id, graphs.id, lock=True)
        check_training(
            session,
            "/config",
            gnn=gnn,
            dataset=dataset,
            objective=asked.objective,
            config=asked.config,
            settings=store.settings,
        )
        denoiser, _ = denoisers.get_or_create(
            session, gnn=gnn, dataset=dataset, objective=asked.objective, config=asked.config
        )
        return denoiser.id

    return once(store, submission, make)


def read_denoiser(store: Store, denoiser_id: str) -> DenoiserResource:
    with store.database.reading() as session:
        denoiser = denoisers.get(session, denoiser_id)
        return denoiser_resource(denoiser, jobs.get(session, denoiser.job_id))
