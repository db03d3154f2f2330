"""Jobs: their state, their events, their end."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from d4explain.contracts.job_states import EventType, JobKind, JobState
from service import examples
from service.context import Context, ContextOf, in_thread
from service.http.admission import ticket_of
from service.http.body_limits import body_was_read
from service.http.faults import reject
from service.http.idempotency import Created, Submission, once, submission_of
from service.http.openapi import IDEMPOTENCY_KEY, IF_NONE_MATCH, PREFER, answer, problems
from service.http.pagination import GnnFilter, PageQuery, page_from
from service.http.responses import accepted_headers, page_reply, poll_headers, reply, tagged
from service.http.waiting import NO_WAIT, Preference, disconnection, preference
from service.resources import JobResource, PageOf, job_resource, timestamp
from service.submission.resource_ids import checked_id, gnn_filter
from store import jobs
from store.catalogue import retries
from store.database.tables import JobEvent
from store.store import Store

router = APIRouter(tags=["jobs"])

_LOOK_AGAIN_SECONDS = 2.0  # even without a signal: event ids may become visible out of order
_FAREWELL_SECONDS = 2
_EVENT_BATCH = 200
_LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "Events after this one; without it, all of the job's events.",
    "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"},
    "example": "41",
}


class JobsQuery(PageQuery):
    state: JobState | None = None
    kind: JobKind | None = None
    gnn: GnnFilter | None = None


@router.get(
    "/v1/jobs",
    summary="List jobs, newest first",
    responses={
        200: answer("A page of jobs.", PageOf[JobResource], examples.page(examples.TRAIN_JOB)),
        **problems(),
    },
)
def list_jobs(
    request: Request, context: ContextOf, query: Annotated[JobsQuery, Query()]
) -> Response:
    with context.store.database.reading() as session:
        page = page_from(
            lambda: jobs.page(
                session,
                query.cursor,
                query.limit,
                state=query.state,
                kind=query.kind,
                gnn_id=gnn_filter(session, query.gnn),
            ),
            job_resource,
        )
    return page_reply(request, page, query.repeated())


@router.get(
    "/v1/jobs/{job_id}",
    summary="One job",
    description="With `Prefer: wait=n` the answer comes when the job has ended, or after n "
    "seconds.",
    responses={
        200: answer("The job.", JobResource, examples.TRAIN_JOB),
        304: answer("The client has this answer already."),
        **problems(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [PREFER, IF_NONE_MATCH]},
)
async def get_job(request: Request, context: ContextOf, job_id: str) -> Response:
    wait = preference(request.headers.get("prefer"), default=0)
    wait = await until_ended(request, context, checked_id("job", job_id), wait)
    job = await in_thread(read_job, context.store, job_id)
    return tagged(request, reply(job, headers={**poll_headers(job), **wait.headers}))


@router.post(
    "/v1/jobs/{job_id}/cancel",
    summary="Cancel a job",
    description="A queued job is canceled at once (200); a running one is asked to stop (202). "
    "A training that other jobs wait for goes on when one of those is canceled.",
    responses={
        200: answer("The job is canceled.", JobResource, examples.CANCELED_JOB),
        202: answer(
            "The job will stop.", JobResource, {**examples.TRAIN_JOB, "cancel_requested": True}
        ),
        **problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def cancel_job(context: ContextOf, job_id: str) -> Response:
    with context.store.database.transaction() as session:
        job = job_resource(jobs.cancel(session, checked_id("job", job_id)))
    if job.state.is_terminal:
        return reply(job)
    return reply(job, 202, accepted_headers(f"/v1/jobs/{job.id}"))


@router.post(
    "/v1/jobs/{job_id}/retry",
    summary="Try an ended job again",
    description="Makes a new job with the same request, linked by `retry_of`; possible once, and "
    "from every end but success.",
    status_code=202,
    responses={
        202: answer("The new job.", JobResource, examples.RETRY_JOB),
        **problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
    openapi_extra={"parameters": [IDEMPOTENCY_KEY]},
)
def retry_job(request: Request, context: ContextOf, job_id: str) -> Response:
    made = retry(context.store, checked_id("job", job_id), submission_of(request))
    context.wake_dispatcher()
    headers = {**accepted_headers(f"/v1/jobs/{made.id}"), **made.headers}
    return reply(read_job(context.store, made.id), 202, headers)


@router.get(
    "/v1/jobs/{job_id}/events",
    summary="Follow a job (server-sent events)",
    description="`state` and `progress` events, from the first or after `Last-Event-ID`. "
    "The stream ends after the job's last event; a client that reconnects then gets 204, which "
    "tells an EventSource to stop.",
    response_class=Response,
    responses={
        200: answer("The events.", example=examples.EVENTS, media_type="text/event-stream"),
        204: answer("The job has ended and has no further events."),
        **problems(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [_LAST_EVENT_ID]},
)
async def follow_job(request: Request, context: ContextOf, job_id: str) -> Response:
    after = _last_event_id(request.headers.get("last-event-id"))
    job = await in_thread(read_job, context.store, checked_id("job", job_id))
    if job.state.is_terminal and not await in_thread(_events, context.store, job_id, after):
        return Response(status_code=204)
    return EventSourceResponse(
        _stream(context, job_id, after),
        ping=context.heartbeat_seconds,
        # When the service stops, the stream ends by itself; cutting it would look like a fault.
        shutdown_grace_period=_FAREWELL_SECONDS,
    )


def read_job(store: Store, job_id: str) -> JobResource:
    with store.database.reading() as session:
        return job_resource(jobs.get(session, job_id))


def retry(store: Store, job_id: str, submission: Submission) -> Created:
    return once(store, submission, lambda session: retries.retry(session, job_id).id)


async def until_ended(
    request: Request, context: Context, job_id: str, wait: Preference
) -> Preference:
    """Returns when the job has ended, when the wait is over, or when the service stops.

    Where too many requests wait already it returns at once, with the preference that was applied.
    Raises `ClientDisconnect` when the client leaves.
    """
    if wait.seconds <= 0:
        return wait
    body_was_read(request)
    deadline = time.monotonic() + wait.seconds
    with (
        ticket_of(request).waiting() as may_wait,
        context.watch.subscribe(job_id) as change,
        disconnection(request, change.set) as has_left,
    ):
        if not may_wait:
            return NO_WAIT
        while not context.watch.stopping:
            job = await in_thread(read_job, context.store, job_id)
            left = deadline - time.monotonic()
            if job.state.is_terminal or left <= 0:
                break
            await change.wait(min(left, _LOOK_AGAIN_SECONDS))
            if has_left():
                raise ClientDisconnect
    return wait


async def _stream(context: Context, job_id: str, after: int) -> AsyncIterator[ServerSentEvent]:
    with context.watch.subscribe(job_id) as change:
        while not context.watch.stopping:
            found = await in_thread(_events, context.store, job_id, after)
            for event in found:
                after = event.id
                yield _sent(event)
                if _is_last(event):
                    return
            if len(found) < _EVENT_BATCH:
                await change.wait(_LOOK_AGAIN_SECONDS)


def _events(store: Store, job_id: str, after: int) -> list[JobEvent]:
    with store.database.reading() as session:
        return jobs.events(session, job_id, after, _EVENT_BATCH)


def _sent(event: JobEvent) -> ServerSentEvent:
    data: dict[str, Any] = {**event.data, "at": timestamp(event.at)}
    return ServerSentEvent(
        json.dumps(data, ensure_ascii=False, separators=(",", ":")),
        id=str(event.id),
        event=event.type.value,
    )


def _is_last(event: JobEvent) -> bool:
    return event.type is EventType.STATE and JobState(event.data["state"]).is_terminal


def _last_event_id(header: str | None) -> int:
    if not header:
        return 0
    if not (header.isascii() and header.isdigit() and len(header) <= 18):
        reject("Last-Event-ID", "should be the id of an event", "header")
    return int(header)
