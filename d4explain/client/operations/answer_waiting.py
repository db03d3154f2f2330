"""Waits for the answers of an explanation: a provisional one at once, and the final one."""

from __future__ import annotations

import time

from d4explain.client.errors import UnsuccessfulJobError
from d4explain.client.job_waiting import OnProgress, wait_for_job
from d4explain.client.operations.explanation_requests import get_explanation
from d4explain.client.resources import Explanation
from d4explain.client.transport.http_transport import HttpTransport
from d4explain.contracts.job_states import JobState, Stage


async def wait_for_answer(
    transport: HttpTransport,
    explanation: Explanation,
    stage: Stage,
    *,
    on_progress: OnProgress | None = None,
    timeout: float | None = None,
) -> Explanation:
    """The explanation once it has the answer, or an earlier answer that is the last one.

    An explanation without a provisional answer is waited for until its end.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    jobs = [explanation.job.id]
    first = explanation.answer(Stage.PROVISIONAL)
    if stage is Stage.PROVISIONAL and first is not None:
        jobs.insert(0, first.job)
    for job_id in jobs:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        await wait_for_job(transport, job_id, on_progress=on_progress, timeout=left, check=False)
        current = await get_explanation(transport, explanation.id)
        if current.result is not None and current.state is not JobState.CANCELED:
            return current
    raise UnsuccessfulJobError(current.job)
