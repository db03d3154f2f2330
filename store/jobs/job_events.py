"""The event log of each job, which clients can follow."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import EventType
from store.database.origins import Origin
from store.database.tables import Job, JobEvent
from store.database.tables.base import JsonObject

_INSERT = insert(JobEvent)


def append(session: Session, job: Job, type_: EventType, data: JsonObject) -> None:
    """Call after writing the job's row: its lock keeps the event ids of a job in order."""
    session.add(JobEvent(tenant_id=job.tenant_id, job_id=job.id, type=type_, data=data))


def append_state(session: Session, job: Job) -> None:
    """Appends the current state of the job and its reason."""
    append(session, job, EventType.STATE, _state(job))


def append_first_states(session: Session, jobs: Sequence[Job], origins: Sequence[Origin]) -> None:
    """Appends the first event of new jobs, which tells their origins, in one statement."""
    rows = [
        {
            "tenant_id": job.tenant_id,
            "job_id": job.id,
            "type": EventType.STATE,
            "data": {**_state(job), **origin.document()},
        }
        for job, origin in zip(jobs, origins, strict=True)
    ]
    if rows:
        session.connection().execute(_INSERT, rows)


def events(
    session: Session, job_id: str, after: int = 0, limit: int = 100, *, tenant: str
) -> list[JobEvent]:
    """Events of one job with ids above `after`, oldest first."""
    return list(
        session.scalars(
            select(JobEvent)
            .where(JobEvent.job_id == job_id, JobEvent.tenant_id == tenant, JobEvent.id > after)
            .order_by(JobEvent.id)
            .limit(limit)
        )
    )


def delete_progress(session: Session, ended_before: float) -> None:
    """Deletes the progress events of jobs that ended long ago; state events stay."""
    ended = select(Job.id).where(Job.finished_at < ended_before)
    session.execute(
        delete(JobEvent)
        .where(JobEvent.type == EventType.PROGRESS, JobEvent.job_id.in_(ended))
        .execution_options(synchronize_session=False)
    )


def _state(job: Job) -> JsonObject:
    return {
        "state": job.state.value,
        "attempt": job.attempts_used,
        "waiting_for": job.awaited,
        "cancel_requested": job.cancel_requested,
        "error": job.error,
    }
