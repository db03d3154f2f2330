"""One attempt at a job: claimed by compare-and-set, every write fenced by its number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, tuple_, update
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import EventType, JobKind, JobState
from store.database import artifact_ledger, job_series
from store.database.origins import UNKNOWN, Origin, of_jobs
from store.database.sessions import now, read_clock
from store.database.tables import Job
from store.database.tables.base import JsonObject
from store.errors import LeaseLost
from store.jobs.endings import end, requeue, unreserve, with_reason
from store.jobs.job_events import append, append_state
from store.jobs.submission import JOB_FORMAT, Priority

_LOCKED = "held jobs"  # of a session, which lives for one transaction


@dataclass(frozen=True)
class Claim:
    """The right to work on a job; `attempt` and `owner` are the fencing token.

    A reserved job stays queued, with a lease; `attempt` is the number that `begin` will give it.
    Another worker may take the job and get the same number, so the token includes the owner.
    """

    job_id: str
    attempt: int
    owner: str
    kind: JobKind
    tenant: str
    subject_id: str | None
    gnn_id: str | None
    dataset_id: str | None
    denoiser_id: str | None
    witness_set_id: str | None
    request_digest: str | None
    checkpoint: JsonObject | None
    seed: int
    created_at: float
    origin: Origin = UNKNOWN


@dataclass(frozen=True)
class Beat:
    held: bool
    cancel_requested: bool


def is_free() -> tuple[ColumnElement[bool], ...]:
    """Conditions of a job that can be claimed."""
    abandoned = and_(Job.state == JobState.RUNNING, Job.lease_until < now())
    return (or_(_is_unreserved(), abandoned), *_may_run())


def is_waiting() -> tuple[ColumnElement[bool], ...]:
    """Conditions of a job that only waits for a worker."""
    return (_is_unreserved(), *_may_run())


def claim(session: Session, job_id: str, owner: str, lease_seconds: float) -> Claim | None:
    """Claims and begins the job; None if another worker holds it or it has ended."""
    free = select(Job).where(Job.id == job_id, *is_free())
    for job in _leased(session, free.with_for_update(), owner, lease_seconds):
        job.state = JobState.RUNNING
        job.attempt += 1
        job.started_at = read_clock(session) if job.started_at is None else job.started_at
        session.flush()
        append_state(session, job)
        job_series.note_claim(session, job)
        return _claim_of(job, owner, job.attempt, _origins(session, [job]))
    return None


def reserve_matching(
    session: Session, first: Claim, lease_seconds: float, limit: int
) -> list[Claim]:
    """Reserves queued jobs with the tenant, kind and denoiser of a claimed job, oldest first.

    They do not begin: the worker calls `begin` for each one in turn.
    """
    matching = (
        select(Job)
        .where(
            Job.tenant_id == first.tenant,
            Job.kind == first.kind,
            Job.denoiser_id == first.denoiser_id,
            *is_waiting(),
        )
        .order_by(Job.priority, Job.created_at, Job.id)
        .limit(limit)
        .with_for_update(skip_locked=True)  # another worker is claiming a locked row
    )
    reserved = _leased(session, matching, first.owner, lease_seconds)
    found = _origins(session, reserved)
    return [_claim_of(job, first.owner, job.attempt + 1, found) for job in reserved]


def begin(session: Session, claim: Claim) -> None:
    """Counts the attempt of a reserved job; raises LeaseLost if another worker holds it.

    Commit this before the work starts, so that a job that kills its worker uses up an attempt.
    """
    begun = session.scalars(
        update(Job)
        .where(_is_reserved(claim))
        .values(
            state=JobState.RUNNING,
            attempt=claim.attempt,
            started_at=func.coalesce(Job.started_at, now()),
        )
        .returning(Job)
        .execution_options(synchronize_session=False, populate_existing=True)
    ).one_or_none()
    if begun is not None:
        append_state(session, begun)
        job_series.note_claim(session, begun)
    else:  # it may have begun already if the reply to an earlier commit was lost
        held(session, claim)


def give_back(session: Session, claim: Claim) -> None:
    """Frees a reserved job that has not begun."""
    job = session.scalar(
        select(Job)
        .where(_is_reserved(claim))
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if job is None:
        raise LeaseLost(claim.job_id, claim.attempt)
    unreserve(session, job)


def _leased(session: Session, free: Select[Job], owner: str, lease_seconds: float) -> list[Job]:
    """Compare and set: the query locks the rows before this changes them."""
    taken = session.scalars(free.execution_options(populate_existing=True)).all()
    if not taken:
        return []
    at = read_clock(session)
    for job in taken:
        job.lease_owner = owner
        job.lease_until = at + lease_seconds
    session.flush()
    return list(taken)


def heartbeat(session: Session, claims: Sequence[Claim], lease_seconds: float) -> list[Beat]:
    """Renews leases; if one is not held, stop: another attempt may be running."""
    if not claims:
        return []
    running = [(claim.job_id, claim.attempt, claim.owner) for claim in claims]
    reserved = [(id_, attempt - 1, owner) for id_, attempt, owner in running]
    fence = tuple_(Job.id, Job.attempt, Job.lease_owner)
    held = or_(
        and_(Job.state == JobState.RUNNING, fence.in_(running)),
        and_(Job.state == JobState.QUEUED, fence.in_(reserved)),
    )
    if len(claims) > 1:
        # Lock in the order in which endings are written, to avoid deadlocks.
        session.execute(select(Job.id).where(held).order_by(Job.id).with_for_update()).all()
    rows = session.execute(
        update(Job)
        .where(held)
        .values(lease_until=now() + lease_seconds)
        .returning(Job.id, Job.attempt, Job.lease_owner, Job.state, Job.cancel_requested)
        .execution_options(synchronize_session=False)
    ).all()
    renewed = {
        (row.id, row.attempt + (row.state is JobState.QUEUED), row.lease_owner): (
            row.cancel_requested
        )
        for row in rows
    }
    return [Beat(held=key in renewed, cancel_requested=renewed.get(key, False)) for key in running]


def held(session: Session, claim: Claim) -> Job:
    """Locks the claimed job until the transaction ends; raises LeaseLost if it was taken away."""
    locked = session.info.setdefault(_LOCKED, {})
    known: Job | None = locked.get(claim.job_id)
    if known is not None:  # the lock excludes other changes
        if (known.attempt, known.lease_owner) != (claim.attempt, claim.owner):
            raise LeaseLost(claim.job_id, claim.attempt)
        return known
    job = session.scalar(
        select(Job)
        .where(*_fence(claim))
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if job is None:
        raise LeaseLost(claim.job_id, claim.attempt)
    locked[claim.job_id] = job
    return job


def record_progress(session: Session, claim: Claim, progress: JsonObject) -> None:
    job = held(session, claim)
    shown = _finite(progress)
    job.progress = shown
    session.flush()
    append(session, job, EventType.PROGRESS, shown)


def record_checkpoint(session: Session, claim: Claim, digest: str, step: int) -> None:
    """Stores the checkpoint from which the next attempt resumes."""
    job = held(session, claim)
    if job.checkpoint is not None:
        artifact_ledger.release(session, job.tenant_id, job.checkpoint["digest"])
    job.checkpoint = {"digest": digest, "step": step}
    session.flush()
    artifact_ledger.refer(session, job.tenant_id, digest)


def succeed(session: Session, claim: Claim, result: JsonObject | None = None) -> None:
    job = held(session, claim)
    job.result = result
    end(session, job, JobState.SUCCEEDED)


def fail(session: Session, claim: Claim, error_type: str, message: str, retryable: bool) -> None:
    """Ends this attempt; requeues the job if the error is retryable and attempts are left."""
    job = held(session, claim)
    error = with_reason(job, error_type, message, read_clock(session))
    if job.cancel_requested:
        end(session, job, JobState.CANCELED, error)
    elif retryable and job.attempts_used < job.max_attempts:
        job.error = error
        requeue(session, job, Priority.RECOVERED)
    else:
        end(session, job, JobState.FAILED, error)


def cancel_running(session: Session, claim: Claim) -> None:
    """Ends a job whose worker has stopped on request."""
    job = held(session, claim)
    end(session, job, JobState.CANCELED, job.error)


def expire(session: Session, claim: Claim) -> None:
    """Ends a job that exceeded its time limit."""
    job = held(session, claim)
    message = "the job exceeded its time limit (D4_JOB_TIME_LIMIT_SECONDS)"
    error = with_reason(job, "time_limit", message, read_clock(session))
    end(session, job, JobState.EXPIRED, error)


def release(session: Session, claim: Claim) -> None:
    """Requeues the job without counting the attempt, as after a shutdown.

    The attempt number is not reused: it fences the released attempt.
    """
    job = held(session, claim)
    job.releases += 1
    if job.cancel_requested:
        end(session, job, JobState.CANCELED, job.error)
    else:
        requeue(session, job, Priority.RECOVERED)


def _may_run() -> tuple[ColumnElement[bool], ...]:
    return (
        Job.format <= JOB_FORMAT,
        ~Job.is_blocked,
        Job.cancel_requested.is_(False),
        Job.attempt - Job.releases < Job.max_attempts,
    )


def _is_unreserved() -> ColumnElement[bool]:
    lapsed = or_(Job.lease_until.is_(None), Job.lease_until < now())
    return and_(Job.state == JobState.QUEUED, lapsed)


def _is_reserved(claim: Claim) -> ColumnElement[bool]:
    return and_(
        Job.id == claim.job_id,
        Job.attempt == claim.attempt - 1,
        Job.state == JobState.QUEUED,
        Job.lease_owner == claim.owner,
    )


def _origins(session: Session, taken: Sequence[Job]) -> dict[str, Origin]:
    return of_jobs(session, [job.id for job in taken])


def _claim_of(job: Job, owner: str, attempt: int, found: Mapping[str, Origin]) -> Claim:
    return Claim(
        job_id=job.id,
        attempt=attempt,
        owner=owner,
        kind=job.kind,
        tenant=job.tenant_id,
        subject_id=job.subject_id,
        gnn_id=job.gnn_id,
        dataset_id=job.dataset_id,
        denoiser_id=job.denoiser_id,
        witness_set_id=job.witness_set_id,
        request_digest=job.request_digest,
        checkpoint=job.checkpoint,
        seed=job.seed,
        created_at=job.created_at,
        origin=found.get(job.id, UNKNOWN),
    )


def _fence(claim: Claim) -> tuple[ColumnElement[bool], ...]:
    return (
        Job.id == claim.job_id,
        Job.attempt == claim.attempt,
        Job.lease_owner == claim.owner,
        Job.state == JobState.RUNNING,
    )


def _finite(data: JsonObject) -> JsonObject:
    """JSON has no NaN: a diverged loss becomes null."""
    return {key: _finite_value(value) for key, value in data.items()}


def _finite_value(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return _finite(value)
    if isinstance(value, list | tuple):
        return [_finite_value(item) for item in value]
    return value
