"""Waits for the answer of an explanation."""

from __future__ import annotations

from d4explain.client.errors import UnsuccessfulJobError
from d4explain.client.job_waiting import OnProgress, wait_for_job
from d4explain.client.operations.explanation_requests import get_explanation
from d4explain.client.resources import Explanation
from d4explain.client.transport.http_transport import HttpTransport


async def wait_for_answer(
    transport: HttpTransport,
    explanation: Explanation,
    *,
    on_progress: OnProgress | None = None,
    timeout: float | None = None,
) -> Explanation:
    """The explanation with its result; raises `UnsuccessfulJobError` if there is none."""
    await wait_for_job(transport, explanation.job.id, on_progress=on_progress, timeout=timeout)
    finished = await get_explanation(transport, explanation.id)
    if finished.result is None:
        raise UnsuccessfulJobError(finished.job)
    return finished
