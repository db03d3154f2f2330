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

    An explanation without a provisional answer is waited for until its end. Somebody may have
    retried its job since `explanation` was read.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    current = await get_explanation(transport, explanation.id)
    first = current.answer(Stage.PROVISIONAL)
    job_id = first.job if stage is Stage.PROVISIONAL and first is not None else current.job.id
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        await wait_for_job(transport, job_id, on_progress=on_progress, timeout=left, check=False)
        current = await get_explanation(transport, explanation.id)
        has_ended = current.state.is_terminal
        if (
            current.result is not None
            and current.state is not JobState.CANCELED
            and (has_ended or stage is Stage.PROVISIONAL)
        ):
            return current
        if has_ended:
            raise UnsuccessfulJobError(current.job)
        job_id = current.job.id
