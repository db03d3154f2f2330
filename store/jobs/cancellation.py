"""Cancels jobs on request."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind, JobState
from store.database.tables import Job
from store.errors import Conflict
from store.jobs.endings import end
from store.jobs.job_events import append_state
from store.jobs.submission import get, locked


def cancel(session: Session, job_id: str, tenant: str) -> Job:
    """Ends a queued job at once and asks a running one to stop.

    A training that the job waited for continues: other jobs may need it. The job of a provisional
    answer is canceled with that of the final answer, and shards with the job of their evaluation;
    the reverse does not hold.
    """
    # Lock what the job waits for first, as the ends of these jobs do.
    waiting = get(session, job_id, tenant)
    parts = _locked_shards(session, waiting)
    if waiting.waiting_for_provisional is not None:
        parts.append(locked(session, waiting.waiting_for_provisional, tenant))
    job = locked(session, job_id, tenant)
    if job.state.is_terminal:
        raise Conflict(f"job {job.id} is {job.state}; only a queued or running job can be canceled")
    _cancel(session, job)
    for part in parts:
        if not part.state.is_terminal:
            _cancel(session, part)
    return job


def _locked_shards(session: Session, job: Job) -> list[Job]:
    """The live shards of an evaluation."""
    if job.kind is not JobKind.EVALUATION:
        return []
    shards = (
        select(Job)
        .where(
            Job.subject_id == job.subject_id,
            Job.tenant_id == job.tenant_id,
            Job.kind == JobKind.EVALUATION_SHARD,
            Job.state.in_((JobState.QUEUED, JobState.RUNNING)),
        )
        .order_by(Job.id)
    )
    return list(session.scalars(shards.with_for_update().execution_options(populate_existing=True)))


def _cancel(session: Session, job: Job) -> None:
    if job.state is JobState.QUEUED:
        job.cancel_requested = True
        end(session, job, JobState.CANCELED, job.error)
    elif not job.cancel_requested:
        job.cancel_requested = True
        session.flush()
        append_state(session, job)
    session.flush()
