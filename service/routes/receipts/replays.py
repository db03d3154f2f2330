"""Replays: the work of an answer once more, to see whether it gives the same answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session
from starlette.responses import Response

from d4explain.contracts.job_states import Stage
from d4explain.contracts.receipts.replay_reports import ReplayReport
from service import examples
from service.context import ContextOf, run_in_thread
from service.explanation_documents import stored_receipt
from service.http.idempotency import (
    Created,
    Submission,
    already_created,
    create_once,
    submission_of,
)
from service.http.openapi import (
    IDEMPOTENCY_KEY,
    IF_NONE_MATCH,
    PREFER,
    problem_responses,
    response,
)
from service.http.pagination import PageQuery, converted_page, read_page
from service.http.principals import Explainer, Reader
from service.http.responses import (
    accepted_headers,
    json_response,
    page_response,
    poll_headers,
    with_etag,
)
from service.http.waiting import parse_prefer
from service.resource_builders import job_resource
from service.resources import PageOf, ReplayLinks, ReplayResource
from service.routes.jobs import wait_for_job
from service.submission.resource_ids import checked_id
from store import jobs
from store.catalogue import replays
from store.database.clock import timestamp
from store.database.tables import Job, Replay
from store.store import Store

router = APIRouter(tags=["explanations"])


class ReplayQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: Stage | None = Field(
        None, description="Which answer to repeat; the newest one if not given."
    )


@router.post(
    "/v1/explanations/{explanation_id}/replay",
    summary="Repeat the work of an answer",
    description="Repeats the recorded work from the stored inputs, with the recorded settings and "
    "seed, and compares the answers: graphs, edits, order and verdicts exactly, scores to six "
    "digits. Time budgets do not count: a search that the clock ended is repeated as far as it "
    "went. 410 if an input was deleted; 409 for a GNN behind a URL, which may answer differently.",
    status_code=202,
    responses={
        200: response("The replay ended within `Prefer: wait`.", ReplayResource, examples.REPLAY),
        202: response("Accepted.", ReplayResource, examples.WAITING_REPLAY),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.GONE),
    },
    openapi_extra={"parameters": [PREFER, IDEMPOTENCY_KEY]},
)
async def replay_explanation(
    request: Request,
    context: ContextOf,
    principal: Explainer,
    explanation_id: str,
    query: Annotated[ReplayQuery, Query()],
) -> Response:
    wait = parse_prefer(request.headers.get("prefer"), default=0)
    checked_id("explanation", explanation_id)
    submission = submission_of(request, principal.tenant, (query.stage or "").encode())
    created = await run_in_thread(create, context.store, explanation_id, query.stage, submission)
    context.wake_dispatcher()
    replay = await run_in_thread(read_replay, context.store, principal.tenant, created.id)
    wait = await wait_for_job(request, context, principal.tenant, replay.job.id, wait)
    replay = await run_in_thread(read_replay, context.store, principal.tenant, created.id)
    headers = {"Location": replay.links.self, **wait.headers, **created.headers}
    if replay.job.state.is_terminal:
        return json_response(replay, 200, headers)
    return json_response(replay, 202, {**accepted_headers(replay.links.self), **headers})


@router.get(
    "/v1/explanations/{explanation_id}/replays",
    summary="List the replays of an explanation, newest first",
    responses={
        200: response("A page.", PageOf[ReplayResource], examples.page(examples.REPLAY)),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
)
def list_replays(
    request: Request,
    context: ContextOf,
    principal: Reader,
    explanation_id: str,
    query: Annotated[PageQuery, Query()],
) -> Response:
    checked_id("explanation", explanation_id)
    with context.store.database.reading() as session:
        rows = read_page(
            lambda: replays.page(
                session, explanation_id, principal.tenant, query.cursor, query.limit
            )
        )
        job_of = jobs.get_all(session, [row.job_id for row in rows.items], principal.tenant)
    page = converted_page(rows, lambda row: replay_resource(row, job_of[row.job_id]))
    return page_response(request, page, query.link_parameters())


@router.get(
    "/v1/replays/{replay_id}",
    summary="One replay with its report",
    responses={
        200: response("The replay.", ReplayResource, examples.REPLAY),
        304: response("Not modified."),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [PREFER, IF_NONE_MATCH]},
)
async def get_replay(
    request: Request, context: ContextOf, principal: Reader, replay_id: str
) -> Response:
    wait = parse_prefer(request.headers.get("prefer"), default=0)
    checked_id("replay", replay_id)
    replay = await run_in_thread(read_replay, context.store, principal.tenant, replay_id)
    if wait.seconds:
        wait = await wait_for_job(request, context, principal.tenant, replay.job.id, wait)
        replay = await run_in_thread(read_replay, context.store, principal.tenant, replay_id)
    headers = {**poll_headers(replay.job), **wait.headers}
    return with_etag(request, json_response(replay, headers=headers))


def create(
    store: Store,
    explanation_id: str,
    stage: Stage | None,
    submission: Submission,
) -> Created:
    created = already_created(store, submission)
    if created is not None:
        return created
    with store.database.reading() as session:
        answer = replays.recorded_answer(session, explanation_id, submission.tenant, stage)
    receipt = stored_receipt(store.artifacts.of(submission.tenant), answer.digest)

    def create_row(session: Session) -> str:
        return replays.create(session, store.artifacts, answer, receipt).id

    return create_once(store, submission, create_row)


def read_replay(store: Store, tenant: str, replay_id: str) -> ReplayResource:
    with store.database.reading() as session:
        replay = replays.get(session, replay_id, tenant)
        return replay_resource(replay, jobs.get(session, replay.job_id, tenant))


def replay_resource(replay: Replay, job: Job) -> ReplayResource:
    report = replay.report
    return ReplayResource(
        id=replay.id,
        explanation=replay.explanation_id,
        stage=replay.stage,
        answer_sha256=replay.answer_digest,
        job=job_resource(job),
        report=None if report is None else ReplayReport.model_validate(report),
        created_at=timestamp(replay.created_at),
        links=ReplayLinks(
            self=f"/v1/replays/{replay.id}",
            explanation=f"/v1/explanations/{replay.explanation_id}",
        ),
    )
