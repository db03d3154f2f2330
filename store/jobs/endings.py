"""Ends jobs and updates everything that depends on them: waiting jobs, denoisers, GNNs."""

from __future__ import annotations

from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import EventType, GnnState, JobKind, JobState, TrainingState
from d4explain.contracts.probe_reports import ProbeCheck, ProbeReport
from store.database import artifact_ledger, job_series, job_totals, webhook_outbox
from store.database.sessions import read_clock
from store.database.tables import (
    Denoiser,
    Evaluation,
    EvaluationShard,
    Gnn,
    Job,
    WitnessSet,
)
from store.database.tables.base import JsonObject
from store.jobs.job_events import append, append_state
from store.jobs.submission import Priority

_TRAINED_BY: dict[JobKind, type[Denoiser] | type[WitnessSet]] = {
    JobKind.TRAIN: Denoiser,
    JobKind.WITNESSES: WitnessSet,
}

# A final answer can do without them.
_LIVE = (JobState.QUEUED, JobState.RUNNING)
_DISPENSABLE = frozenset({JobKind.WITNESSES, JobKind.PROVISIONAL})


def end(session: Session, job: Job, state: JobState, error: JsonObject | None = None) -> None:
    """Ends a job and updates its dependents; the caller holds the lock of the row."""
    job.state = state
    job.error = error
    job.waiting_for = None
    job.also_waiting_for = None
    job.waiting_for_provisional = None
    job.waiting_for_shards = None
    job.lease_owner = None
    job.lease_until = None
    job.finished_at = read_clock(session)
    session.flush()
    append_state(session, job)
    job_totals.note_end(session, job)
    job_series.note_end(session, job)
    webhook_outbox.note_end(session, job)
    if job.kind is JobKind.EVALUATION_SHARD:
        _note_shard_end(session, job)
    if state is JobState.SUCCEEDED:
        if job.checkpoint is not None:
            artifact_ledger.release(session, job.tenant_id, job.checkpoint["digest"])
            job.checkpoint = None
        _release_waiters(session, job)
        return
    table = _TRAINED_BY.get(job.kind)
    if table is not None:
        session.execute(
            update(table)
            .where(table.job_id == job.id, table.state == TrainingState.TRAINING)
            .values(state=TrainingState.FAILED)
        )
    if job.kind is JobKind.PROBE:
        _reject_unprobed(session, job)
    if job.kind in _DISPENSABLE:
        _release_waiters(session, job)
    else:
        _fail_waiters(session, job)


def requeue(session: Session, job: Job, priority: Priority) -> None:
    """Requeues a job, to be announced at once; the caller holds the lock of the row."""
    job.state = JobState.QUEUED
    job.priority = int(priority)
    unreserve(session, job)
    append_state(session, job)


def unreserve(session: Session, job: Job) -> None:
    """Removes the lease of a queued job, to be announced at once; the caller holds the lock."""
    job.lease_owner = None
    job.lease_until = None
    job.next_dispatch_at = read_clock(session)
    job.dispatches = 0
    session.flush()


def with_reason(job: Job, type_: str, message: str, at: float) -> JsonObject:
    """The job's error after a failed attempt, with the reasons of earlier attempts."""
    clean = message.replace("\x00", "�")[:4000]  # PostgreSQL text cannot contain NUL
    earlier = (job.error or {}).get("attempts", [])
    reason = {"attempt": job.attempts_used, "type": type_, "message": clean, "at": at}
    return {"type": type_, "message": clean, "attempts": [*earlier, reason]}


def _waiters(session: Session, job: Job) -> list[Job]:
    return list(
        session.scalars(
            select(Job)
            .where(
                or_(
                    Job.waiting_for == job.id,
                    Job.also_waiting_for == job.id,
                    Job.waiting_for_provisional == job.id,
                ),
                Job.state == JobState.QUEUED,
            )
            .order_by(Job.id)  # a fixed order avoids deadlocks
            .with_for_update()
            .execution_options(populate_existing=True)
        )
    )


def _release_waiters(session: Session, job: Job) -> None:
    """Releases jobs that wait for no other job.

    Two jobs may end at once; the lock of the waiter's row lets only the second one release it.
    """
    for waiter in _waiters(session, job):
        for slot in ("waiting_for", "also_waiting_for", "waiting_for_provisional"):
            if getattr(waiter, slot) == job.id:
                setattr(waiter, slot, None)
        if waiter.is_blocked:
            session.flush()
            append_state(session, waiter)
        elif waiter.error is not None:  # a training failed while the provisional job ran
            end(session, waiter, JobState.FAILED, waiter.error)
        else:
            requeue(session, waiter, Priority.RELEASED)


def _fail_waiters(session: Session, job: Job) -> None:
    """Fails jobs that cannot run any more.

    The job of a final answer ends after that of the provisional one, so that an explanation ends
    once: until then it keeps the reason.
    """
    cause = f": {job.error['message']}" if job.error else ""
    for waiter in _waiters(session, job):
        message = f"the {job.kind} job {job.id} that it waited for has {_PAST[job.state]}{cause}"
        error = with_reason(waiter, "dependency", message, read_clock(session))
        if waiter.waiting_for_provisional is None:
            end(session, waiter, JobState.FAILED, error)
            continue
        waiter.waiting_for = None
        waiter.also_waiting_for = None
        waiter.error = error
        session.flush()
        append_state(session, waiter)


def _note_shard_end(session: Session, shard: Job) -> None:
    """Updates the progress of the evaluation; its last shard releases its job, or fails it.

    A failed shard does not end the others: their rows are kept, and a retry repeats only what is
    missing. Locks the job of a shard before that of the evaluation, as a cancellation does.
    """
    query = select(Evaluation.job_id).where(Evaluation.id == shard.subject_id).scalar_subquery()
    job = session.scalar(
        select(Job)
        .where(Job.id == query)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if job is None or not job.waiting_for_shards:
        return
    mine = EvaluationShard.evaluation_id == shard.subject_id
    has_rows = EvaluationShard.rows_digest.is_not(None)
    done = session.scalar(select(func.sum(EvaluationShard.count)).where(mine, has_rows)) or 0
    total = session.scalar(select(func.sum(EvaluationShard.count)).where(mine)) or 0
    shards = Job.subject_id == shard.subject_id, Job.kind == JobKind.EVALUATION_SHARD
    started = session.scalar(select(func.min(Job.started_at)).where(*shards))
    job.progress = _shard_progress(done, total, started, read_clock(session))
    live = session.scalar(select(func.count()).where(*shards, Job.state.in_(_LIVE)))
    session.flush()
    append(session, job, EventType.PROGRESS, job.progress)
    if live:
        return
    job.waiting_for_shards = None
    if done == total:
        requeue(session, job, Priority.RELEASED)
        return
    missing = session.scalar(select(func.count()).where(mine, ~has_rows))
    cause = f": {shard.error['message']}" if shard.error else ""
    message = (
        f"{missing} shards have no rows; the last job that ended without rows, {shard.id}, has "
        f"{_PAST.get(shard.state, shard.state)}{cause}. A retry repeats only these shards"
    )
    if shard.state is JobState.SUCCEEDED:
        message = f"{missing} shards have no rows. A retry repeats only these shards"
    error = with_reason(job, "dependency", message, read_clock(session))
    end(session, job, JobState.FAILED, error)


def _shard_progress(done: int, total: int, started: float | None, at: float) -> JsonObject:
    """In instances; the time left is that of the instances so far."""
    metrics = {}
    if started is not None and 0 < done < total:
        metrics["eta_seconds"] = round((at - started) / done * (total - done), 1)
    return {"phase": "explaining", "step": done, "total": total, "metrics": metrics}


_PAST = {
    JobState.FAILED: "failed",
    JobState.CANCELED: "been canceled",
    JobState.EXPIRED: "expired",
}


def _reject_unprobed(session: Session, job: Job) -> None:
    reason = job.error["message"] if job.error else f"the probe has {_PAST[job.state]}"
    report = ProbeReport(
        passed=False, checks=[ProbeCheck(name="probe", passed=False, detail=reason)]
    )
    session.execute(
        update(Gnn)
        .where(Gnn.job_id == job.id, Gnn.state == GnnState.PROBING)
        .values(state=GnnState.REJECTED, report=report.model_dump())
    )
