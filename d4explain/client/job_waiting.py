"""Waits for a job: follows its event stream, or polls if there is none."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import httpx

from d4explain.client.errors import (
    RefusedError,
    UnreachableError,
    UnsuccessfulJobError,
    WaitTimeoutError,
)
from d4explain.client.resources import Job, Progress
from d4explain.client.transport.events import Event
from d4explain.client.transport.http_transport import UNAVAILABLE, HttpTransport
from d4explain.contracts.job_states import JobState

OnProgress = Callable[[Job], None]

MIN_POLL_SECONDS = 0.1
MAX_POLL_SECONDS = 2.0
RESTART_SECONDS = 30.0  # how long a restart of the server may take


async def wait_for_job(
    transport: HttpTransport,
    job_id: str,
    *,
    on_progress: OnProgress | None = None,
    timeout: float | None = None,
    check: bool = True,
) -> Job:
    """The finished job; see `Client.wait`.

    A job that waits for a training is followed by its own events, so that its cancellation is
    noticed at once. They include the progress of the training, without event ids.
    """
    report = on_progress or (lambda _job: None)
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = MIN_POLL_SECONDS
    last_event: str | None = None
    job = await get_job(transport, job_id)
    report(job)
    while True:
        if job.is_done:
            if check and job.state is not JobState.SUCCEEDED:
                raise UnsuccessfulJobError(job)
            return job
        remaining = None if deadline is None else deadline - time.monotonic()
        if remaining is not None and remaining <= 0:
            raise WaitTimeoutError(job, timeout or 0)
        awaited = None
        if job.waiting_for is not None:
            awaited = await _get_job_across_restart(transport, job.waiting_for)
            report(awaited)
        previous_event = last_event
        events = transport.events(f"/v1/jobs/{job_id}/events", last_event, remaining)
        with contextlib.suppress(httpx.HTTPError, RefusedError):
            async with contextlib.aclosing(events):
                async for event in events:
                    is_own = event.id not in (None, last_event)
                    last_event = event.id or last_event
                    if awaited is not None and (is_own or not _continues(awaited, event)):
                        break  # it may wait no longer, or for another job
                    if awaited is not None:
                        awaited = _apply_event(awaited, event)
                        report(awaited)
                        continue
                    job = _apply_event(job, event)
                    if job.is_done:
                        break  # the whole job is fetched below and reported
                    report(job)
        if last_event != previous_event:
            pause = MIN_POLL_SECONDS
        else:
            await transport.connection.sleep(pause if remaining is None else min(pause, remaining))
            pause = min(2 * pause, MAX_POLL_SECONDS)
        job = await _get_job_across_restart(transport, job_id)
        if job.is_done or job.waiting_for is None:
            report(job)


async def get_job(transport: HttpTransport, job_id: str) -> Job:
    return Job.model_validate(await transport.get(f"/v1/jobs/{job_id}"))


async def _get_job_across_restart(transport: HttpTransport, job_id: str) -> Job:
    """The job; waits if the server is restarting."""
    deadline = time.monotonic() + RESTART_SECONDS
    while True:
        try:
            return await get_job(transport, job_id)
        except UnreachableError:
            if time.monotonic() > deadline:
                raise
        except RefusedError as error:
            if error.status != UNAVAILABLE or time.monotonic() > deadline:
                raise
        await transport.connection.sleep(MIN_POLL_SECONDS)


def _continues(awaited: Job, event: Event) -> bool:
    """Whether a progress event is of the same phase of the awaited job as the last one."""
    return awaited.progress is None or awaited.progress.phase == event.data.get("phase")


def _apply_event(job: Job, event: Event) -> Job:
    if event.type == "progress":
        return job.model_copy(update={"progress": Progress.model_validate(event.data)})
    if event.type == "state":
        return Job.model_validate({**job.model_dump(), **event.data})
    return job
