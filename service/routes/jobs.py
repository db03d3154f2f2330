"""Jobs: state, events, cancellation and retries."""

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
from service.context import Context, ContextOf, run_in_thread
from service.http.faults import reject
from service.http.idempotency import Created, Submission, create_once, submission_of
from service.http.middleware.admission import slot_of
from service.http.middleware.body_limits import release_body_memory
from service.http.openapi import IDEMPOTENCY_KEY, IF_NONE_MATCH, PREFER, problem_responses, response
from service.http.pagination import METADATA_FILTER, GnnFilter, ListQuery, converted_page, read_page
from service.http.principals import Explainer, Reader
from service.http.responses import (
    accepted_headers,
    json_response,
    page_response,
    poll_headers,
    with_etag,
)
from service.http.waiting import NO_WAIT, Preference, parse_prefer, watch_disconnect
from service.resource_builders import job_resource
from service.resources import JobResource, PageOf
from service.submission.resource_ids import checked_id, gnn_filter
from store import jobs
from store.catalogue import retries
from store.catalogue.data_life import deletions
from store.database.clock import timestamp
from store.database.tables import JobEvent
from store.errors import NotFound
from store.store import Store

router = APIRouter(tags=["jobs"])

_POLL_SECONDS = 2.0  # also without a signal: event ids may become visible out of order
_SHUTDOWN_SECONDS = 2
_EVENT_BATCH = 200
_LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "Sends the events after this one; without it, all events of the job.",
    "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"},
    "example": "41",
}


class JobsQuery(ListQuery):
    state: JobState | None = None
    kind: JobKind | None = None
    gnn: GnnFilter | None = None


@router.get(
    "/v1/jobs",
    summary="List jobs, newest first",
    responses={
        200: response("A page of jobs.", PageOf[JobResource], examples.page(examples.TRAIN_JOB)),
        **problem_responses(),
    },
    openapi_extra={"parameters": [METADATA_FILTER]},
)
def list_jobs(
    request: Request,
    context: ContextOf,
    principal: Reader,
    query: Annotated[JobsQuery, Query()],
) -> Response:
    with context.store.database.reading() as session:
        rows = read_page(
            lambda: jobs.page(
                session,
                query.cursor,
                query.limit,
                tenant=principal.tenant,
                state=query.state,
                kind=query.kind,
                gnn_id=gnn_filter(session, query.gnn, principal.tenant),
                filters=query.filters,
            )
        )
        queue = jobs.TrainingQueue.read(session)
    page = converted_page(rows, lambda row: job_resource(row, queue))
    return page_response(request, page, query.link_parameters())


@router.get(
    "/v1/jobs/{job_id}",
    summary="One job",
    description="`Prefer: wait=n` waits until the job has ended, at most n seconds.",
    responses={
        200: response("The job.", JobResource, examples.TRAIN_JOB),
        304: response("Not modified."),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [PREFER, IF_NONE_MATCH]},
)
async def get_job(request: Request, context: ContextOf, principal: Reader, job_id: str) -> Response:
    wait = parse_prefer(request.headers.get("prefer"), default=0)
    checked_id("job", job_id)
    wait = await wait_for_job(request, context, principal.tenant, job_id, wait)
    job = await run_in_thread(read_job, context.store, principal.tenant, job_id)
    return with_etag(request, json_response(job, headers={**poll_headers(job), **wait.headers}))


@router.post(
    "/v1/jobs/{job_id}/cancel",
    summary="Cancel a job",
    description="A queued job is canceled immediately (200); a running job is asked to stop (202). "
    "Canceling a job does not cancel the training that it waits for.",
    responses={
        200: response("The job is canceled.", JobResource, examples.CANCELED_JOB),
        202: response(
            "The job will stop.", JobResource, {**examples.TRAIN_JOB, "cancel_requested": True}
        ),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def cancel_job(context: ContextOf, principal: Explainer, job_id: str) -> Response:
    with context.store.database.transaction() as session:
        job = job_resource(jobs.cancel(session, checked_id("job", job_id), principal.tenant))
    if job.state.is_terminal:
        return json_response(job)
    return json_response(job, 202, accepted_headers(f"/v1/jobs/{job.id}"))


@router.delete(
    "/v1/jobs/{job_id}",
    summary="Delete an ended job",
    description="Deletes a prediction with its result, or a job that a retry has replaced, with "
    "its events. Rejected with 409 before it ends, while it is on hold, and if an explanation, a "
    "GNN or a denoiser shows it as its own: it is deleted together with that one.",
    status_code=204,
    responses={
        204: response("Deleted."),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def delete_job(context: ContextOf, principal: Explainer, job_id: str) -> Response:
    with context.store.database.transaction() as session:
        deletions.delete_job(session, checked_id("job", job_id), principal.tenant)
    return Response(status_code=204)


@router.post(
    "/v1/jobs/{job_id}/retry",
    summary="Retry a job",
    description="Creates a new job with the same request and `retry_of`. A job can be retried "
    "once, if it has ended without success.",
    status_code=202,
    responses={
        202: response("The new job.", JobResource, examples.RETRY_JOB),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
    openapi_extra={"parameters": [IDEMPOTENCY_KEY]},
)
def retry_job(request: Request, context: ContextOf, principal: Explainer, job_id: str) -> Response:
    submission = submission_of(request, principal.tenant)
    created = retry(context.store, checked_id("job", job_id), submission)
    context.wake_dispatcher()
    headers = {**accepted_headers(f"/v1/jobs/{created.id}"), **created.headers}
    return json_response(read_job(context.store, principal.tenant, created.id), 202, headers)


@router.get(
    "/v1/jobs/{job_id}/events",
    summary="Follow a job (server-sent events)",
    description="Sends `state`, `progress` and, for explanations, `answer` events, from the first "
    "or after `Last-Event-ID`. While the job waits for a training, it sends the training's "
    "progress, without event ids. "
    "The stream ends after the job's last event; a client that reconnects then gets 204, which "
    "stops an EventSource.",
    response_class=Response,
    responses={
        200: response("The events.", example=examples.EVENTS, media_type="text/event-stream"),
        204: response("The job has ended and has no further events."),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [_LAST_EVENT_ID]},
)
async def follow_job(
    request: Request, context: ContextOf, principal: Reader, job_id: str
) -> Response:
    after = _last_event_id(request.headers.get("last-event-id"))
    tenant = principal.tenant
    job = await run_in_thread(read_job, context.store, tenant, checked_id("job", job_id))
    if job.state.is_terminal and not await run_in_thread(
        _events, context.store, tenant, job_id, after
    ):
        return Response(status_code=204)
    return EventSourceResponse(
        _stream(context, tenant, job_id, after),
        ping=context.heartbeat_seconds,
        # When the service stops, `_stream` ends; a cut connection would look like an error.
        shutdown_grace_period=_SHUTDOWN_SECONDS,
    )


def read_job(store: Store, tenant: str, job_id: str) -> JobResource:
    with store.database.reading() as session:
        job = jobs.get(session, job_id, tenant)
        queue = jobs.TrainingQueue.read(session) if job.is_blocked else jobs.TrainingQueue()
        return job_resource(job, queue)


def _has_ended(store: Store, tenant: str, job_id: str) -> bool:
    with store.database.reading() as session:
        return jobs.get(session, job_id, tenant).state.is_terminal


def retry(store: Store, job_id: str, submission: Submission) -> Created:
    return create_once(
        store,
        submission,
        lambda session: retries.retry(session, job_id, submission.tenant).id,
    )


async def wait_for_job(
    request: Request, context: Context, tenant: str, job_id: str, wait: Preference
) -> Preference:
    """Waits until the job has ended, the time is over or the service stops.

    Returns the preference that was applied: `NO_WAIT` if too many requests wait already. Raises
    `ClientDisconnect` if the client disconnects.
    """
    if wait.seconds <= 0:
        return wait
    release_body_memory(request)
    deadline = time.monotonic() + wait.seconds
    with (
        slot_of(request).waiting() as may_wait,
        context.job_watcher.subscribe(job_id) as change,
        watch_disconnect(request, change.set) as has_disconnected,
    ):
        if not may_wait:
            return NO_WAIT
        while not context.job_watcher.stopping:
            has_ended = await run_in_thread(_has_ended, context.store, tenant, job_id)
            left = deadline - time.monotonic()
            if has_ended or left <= 0:
                break
            await change.wait(min(left, _POLL_SECONDS))
            if has_disconnected():
                raise ClientDisconnect
    return wait


async def _stream(
    context: Context, tenant: str, job_id: str, after: int
) -> AsyncIterator[ServerSentEvent]:
    shown: dict[str, Any] | None = None  # progress of the trainings that the job waits for
    with context.job_watcher.subscribe(job_id) as change:
        while not context.job_watcher.stopping:
            events = await run_in_thread(_events, context.store, tenant, job_id, after)
            for event in events:
                after = event.id
                yield _to_sse(event)
                if _is_last(event):
                    return
            if len(events) == _EVENT_BATCH:
                continue
            try:
                progress = await run_in_thread(_training_progress, context.store, tenant, job_id)
            except NotFound:  # deleted while the client follows it
                return
            if progress is not None and progress != shown:
                shown = progress
                yield ServerSentEvent(_compact(progress), event=EventType.PROGRESS.value)
            await change.wait(_POLL_SECONDS)


def _training_progress(store: Store, tenant: str, job_id: str) -> dict[str, Any] | None:
    """The progress of the training that a job waits for, and the time left for the job itself.

    It has no event id: a client that reconnects gets the newest one.
    """
    waiting = read_job(store, tenant, job_id)
    if not waiting.trainings:
        return None
    if waiting.progress is None:
        return None
    return {**waiting.progress, "seconds_left": waiting.seconds_left}


def _events(store: Store, tenant: str, job_id: str, after: int) -> list[JobEvent]:
    with store.database.reading() as session:
        return jobs.events(session, job_id, after, _EVENT_BATCH, tenant=tenant)


def _to_sse(event: JobEvent) -> ServerSentEvent:
    data: dict[str, Any] = {**event.data, "at": timestamp(event.at)}
    return ServerSentEvent(
        _compact(data),
        id=str(event.id),
        event=event.type.value,
    )


def _compact(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _is_last(event: JobEvent) -> bool:
    return event.type is EventType.STATE and JobState(event.data["state"]).is_terminal


def _last_event_id(header: str | None) -> int:
    if not header:
        return 0
    if not (header.isascii() and header.isdigit() and len(header) <= 18):
        reject("Last-Event-ID", "should be the id of an event", "header")
    return int(header)
