"""Finds jobs that nobody works on: abandoned, never announced, or waiting too long."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Select, exists, or_, select, update
from sqlalchemy.orm import Session

from store.database import now, read_clock
from store.endings import end, requeue, with_reason
from store.job_policy import policy_of
from store.job_states import JobState
from store.submission import Priority
from store.tables import Job

_MOST_DOUBLINGS = 6  # 15 s · 2⁶ = 16 minutes between announcements at most


def reap(session: Session, limit: int = 200) -> list[str]:
    """Takes jobs from workers that fell silent and ends those that waited too long."""
    reaped = []
    for job in _held_rows(session, select(Job).where(_is_abandoned()).limit(limit)):
        reaped.append(job.id)
        _recover(session, job)
    for job in _held_rows(session, select(Job).where(_is_overdue()).limit(limit)):
        reaped.append(job.id)
        message = "the job was not started before its time in the queue ran out"
        error = with_reason(job, "queue_time", message, read_clock(session))
        end(session, job, JobState.EXPIRED, error)
    return reaped


def due(session: Session, limit: int = 100) -> list[Job]:
    """Jobs to announce now; each is marked to be announced again later, should nobody claim it."""
    pause = policy_of(session).redispatch_seconds
    announced = _held_rows(
        session,
        select(Job).where(_is_due()).order_by(Job.priority, Job.next_dispatch_at).limit(limit),
    )
    if announced:
        at = read_clock(session)
        for job in announced:
            job.next_dispatch_at = at + pause * 2 ** min(job.dispatches, _MOST_DOUBLINGS)
            job.dispatches += 1
        session.flush()
    return announced


def never_announced(session: Session, limit: int = 100) -> list[Job]:
    """Of the jobs to announce now those that are new to the queue; reads and marks nothing."""
    new = select(Job).where(_is_due(), Job.dispatches == 0)
    return list(session.scalars(new.order_by(Job.priority, Job.next_dispatch_at).limit(limit)))


def is_anything_to_reap(session: Session) -> bool:
    """Whether `reap` would find a job; reads only."""
    return bool(session.scalar(select(exists().where(or_(_is_abandoned(), _is_overdue())))))


def is_anything_due(session: Session) -> bool:
    """Whether `due` would find a job; reads only."""
    return bool(session.scalar(select(exists().where(_is_due()))))


def announce_again(session: Session, job_ids: list[str]) -> None:
    """Makes jobs due at once, since their announcement did not get through."""
    session.execute(
        update(Job)
        .where(Job.id.in_(job_ids), Job.state == JobState.QUEUED)
        .values(next_dispatch_at=now(), dispatches=0)
        .execution_options(synchronize_session=False)
    )


def announce_all_again(session: Session) -> None:
    """Makes every queued job due, since the broker has lost its messages."""
    session.execute(
        update(Job)
        .where(Job.state == JobState.QUEUED, Job.waiting_for.is_(None))
        .values(next_dispatch_at=now(), dispatches=0)
        .execution_options(synchronize_session=False)
    )


def _recover(session: Session, job: Job) -> None:
    message = f"worker {job.lease_owner} fell silent"
    error = with_reason(job, "lease_expired", message, read_clock(session))
    if job.cancel_requested:
        end(session, job, JobState.CANCELED, error)
    elif job.attempts_used >= job.max_attempts:
        end(session, job, JobState.FAILED, error)
    else:
        job.error = error
        requeue(session, job, Priority.RECOVERED)


def _held_rows(session: Session, query: Select[Job]) -> list[Job]:
    # Rows that another process holds are being dealt with already.
    query = query.with_for_update(skip_locked=True)
    return list(session.scalars(query.execution_options(populate_existing=True)))


def _is_abandoned() -> ColumnElement[bool]:
    return (Job.state == JobState.RUNNING) & (Job.lease_until < now())


def _is_overdue() -> ColumnElement[bool]:
    return (Job.state == JobState.QUEUED) & Job.started_at.is_(None) & (Job.expires_at < now())


def _is_due() -> ColumnElement[bool]:
    return (
        (Job.state == JobState.QUEUED) & Job.waiting_for.is_(None) & (Job.next_dispatch_at <= now())
    )
