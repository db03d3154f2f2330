"""Cancels jobs on request."""

from __future__ import annotations

from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobState
from store.database.tables import Job
from store.errors import Conflict
from store.jobs.endings import end
from store.jobs.job_events import append_state
from store.jobs.submission import get, locked


def cancel(session: Session, job_id: str, tenant: str) -> Job:
    """Ends a queued job at once and asks a running one to stop.

    A training that the job waited for continues: other jobs may need it. The job of a provisional
    answer is canceled with that of the final answer; the reverse does not hold.
    """
    # Lock the provisional job first, as its end does.
    provisional_id = get(session, job_id, tenant).waiting_for_provisional
    provisional = None if provisional_id is None else locked(session, provisional_id, tenant)
    job = locked(session, job_id, tenant)
    if job.state.is_terminal:
        raise Conflict(f"job {job.id} is {job.state}; only a queued or running job can be canceled")
    _cancel(session, job)
    if provisional is not None and not provisional.state.is_terminal:
        _cancel(session, provisional)
    return job


def _cancel(session: Session, job: Job) -> None:
    if job.state is JobState.QUEUED:
        job.cancel_requested = True
        end(session, job, JobState.CANCELED, job.error)
    elif not job.cancel_requested:
        job.cancel_requested = True
        session.flush()
        append_state(session, job)
    session.flush()
