"""Requeues or fails the jobs of dead workers, expires overdue jobs, finds jobs to announce."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, bindparam, exists, or_, select, update
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobState, Queue
from store.database import job_series
from store.database.job_policy import policy_of
from store.database.sessions import now, read_clock
from store.database.tables import Job
from store.jobs.endings import end, requeue, unreserve, with_reason
from store.jobs.submission import Priority

_MAX_DOUBLINGS = 6  # 15 s · 2⁶ = 16 minutes between announcements at most
_ANNOUNCED = (Job.id, Job.attempt, Job.queue, Job.priority, Job.format)
_ORDER = (Job.priority, Job.next_dispatch_at)
_MARK = (
    update(Job)
    .where(Job.id == bindparam("announced"))
    .values(next_dispatch_at=bindparam("again_at"), dispatches=bindparam("count"))
)


class Announcement(NamedTuple):
    """A job to announce to workers."""

    job_id: str
    attempt: int
    queue: Queue
    priority: int
    format: int

    @classmethod
    def of(cls, job: Job) -> Announcement:
        return cls(job.id, job.attempt, job.queue, job.priority, job.format)


def reap(session: Session, limit: int = 200) -> list[str]:
    """Recovers the jobs of dead workers and expires jobs that waited too long."""
    reaped = []
    for job in _locked_rows(session, select(Job).where(_is_abandoned()).limit(limit)):
        reaped.append(job.id)
        _recover(session, job)
    for job in _locked_rows(session, select(Job).where(_is_overdue()).limit(limit)):
        if job.state.is_terminal:  # a job before it in this loop ended it
            continue
        reaped.append(job.id)
        message = "no worker started the job within the queue time limit (D4_QUEUE_HOURS)"
        error = with_reason(job, "queue_time", message, read_clock(session))
        end(session, job, JobState.EXPIRED, error)
    return reaped


def due(session: Session, limit: int = 100) -> list[Announcement]:
    """Returns jobs to announce now and schedules their next announcement if nobody claims them."""
    pause = policy_of(session).redispatch_seconds
    # Read columns instead of objects: there may be hundreds per second.
    first = select(*_ANNOUNCED, Job.dispatches).where(_is_due()).order_by(*_ORDER).limit(limit)
    rows = session.execute(first.with_for_update(skip_locked=True)).all()
    if rows:
        at = read_clock(session)
        marks = [
            {
                "announced": row.id,
                "again_at": at + pause * 2 ** min(row.dispatches, _MAX_DOUBLINGS),
                "count": row.dispatches + 1,
            }
            for row in rows
        ]
        session.connection().execute(_MARK, marks)
    return [Announcement(row.id, row.attempt, row.queue, row.priority, row.format) for row in rows]


def never_announced(session: Session, limit: int = 100) -> list[Announcement]:
    """Jobs to announce that were never announced; reads only."""
    new = select(*_ANNOUNCED).where(_is_due(), Job.dispatches == 0).order_by(*_ORDER)
    return [Announcement(*row) for row in session.execute(new.limit(limit))]


def is_anything_to_reap(session: Session) -> bool:
    """Whether `reap` would find a job; reads only."""
    return bool(session.scalar(select(exists().where(or_(_is_abandoned(), _is_overdue())))))


def is_anything_due(session: Session) -> bool:
    """Whether `due` would find a job; reads only."""
    return bool(session.scalar(select(exists().where(_is_due()))))


def announce_again(session: Session, job_ids: list[str]) -> None:
    """Makes jobs due at once because their announcement failed."""
    session.execute(
        update(Job)
        .where(Job.id.in_(job_ids), Job.state == JobState.QUEUED)
        .values(next_dispatch_at=now(), dispatches=0)
        .execution_options(synchronize_session=False)
    )


def announce_all_again(session: Session) -> None:
    """Makes all queued jobs due because the broker lost its messages."""
    session.execute(
        update(Job)
        .where(Job.state == JobState.QUEUED, ~Job.is_blocked)
        .values(next_dispatch_at=now(), dispatches=0)
        .execution_options(synchronize_session=False)
    )


def _recover(session: Session, job: Job) -> None:
    if job.state is JobState.QUEUED:  # reserved but not begun: no attempt failed
        unreserve(session, job)
        return
    job_series.note_lease_loss(session, job)
    message = f"worker {job.lease_owner} stopped sending heartbeats"
    error = with_reason(job, "lease_expired", message, read_clock(session))
    if job.cancel_requested:
        end(session, job, JobState.CANCELED, error)
    elif job.attempts_used >= job.max_attempts:
        end(session, job, JobState.FAILED, error)
    else:
        job.error = error
        requeue(session, job, Priority.RECOVERED)


def _locked_rows(session: Session, query: Select[Job]) -> list[Job]:
    # Skip rows that another process is handling.
    query = query.with_for_update(skip_locked=True)
    return list(session.scalars(query.execution_options(populate_existing=True)))


def _is_abandoned() -> ColumnElement[bool]:
    held = Job.state.in_((JobState.RUNNING, JobState.QUEUED))  # running, or reserved
    return held & (Job.lease_until < now())


def _is_overdue() -> ColumnElement[bool]:
    return (
        (Job.state == JobState.QUEUED)
        & Job.started_at.is_(None)
        & (Job.expires_at < now())
        & Job.waiting_for_provisional.is_(None)  # it ends after the provisional job
        & Job.waiting_for_shards.is_(None)  # it ends after its shards
    )


def _is_due() -> ColumnElement[bool]:
    return (
        (Job.state == JobState.QUEUED)
        & ~Job.is_blocked
        & Job.lease_until.is_(None)  # a reserved job needs no message
        & (Job.next_dispatch_at <= now())
    )
