"""Deletes explanations, denoisers and jobs, and notes what was deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, delete, or_, select, update
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobState
from store.catalogue.data_life.holds import refuse_if_held
from store.database import artifact_ledger
from store.database.lists import caller_metadata
from store.database.tables import (
    Comparison,
    Deletion,
    Denoiser,
    Evaluation,
    EvaluationShard,
    Explanation,
    Gnn,
    Job,
    Replay,
    Trained,
    WitnessSet,
)
from store.errors import Conflict, NotFound
from store.jobs.submission import locked
from store.webhooks import endpoints

_LIVE = (JobState.QUEUED, JobState.RUNNING)


def note(session: Session, kind: str, id_: str, tenant: str, digests: Iterable[str | None]) -> None:
    """Notes that a resource was deleted, releases its artifacts and forgets its metadata."""
    released = sorted({digest for digest in digests if digest is not None})
    artifact_ledger.release(session, tenant, *released)
    session.add(Deletion(tenant_id=tenant, resource_id=id_, kind=kind, digests=released))
    caller_metadata.forget(session, [id_])
    endpoints.forget(session, tenant, subjects=[id_])


def delete_explanation(session: Session, explanation_id: str, tenant: str) -> list[str]:
    """Deletes an explanation with its jobs, events, replays and notifications.

    Returns the digests of its answers.

    The GNN, the reference set and what was trained for them stay.
    """
    provisional = _explanation(session, explanation_id, tenant).provisional_job_id
    # Lock the provisional job first, as its end does, and the explanation last, as retries do.
    locked_jobs(session, Job.id == provisional, tenant)
    replays = select(Replay.id).where(Replay.explanation_id == explanation_id)
    mine = or_(Job.subject_id == explanation_id, Job.subject_id.in_(replays))
    locked_jobs(session, mine, tenant)
    explanation = _explanation(session, explanation_id, tenant, lock=True)
    jobs = locked_jobs(session, mine, tenant)
    refuse_if_held(session, explanation.id, tenant=tenant)
    live = [job for job in jobs if not job.state.is_terminal]
    if live:
        raise Conflict(
            f"explanation {explanation.id} has the {live[0].kind} job {live[0].id}, which is "
            f"{live[0].state}; cancel it or wait until it ends"
        )
    answers = [explanation.provisional_digest, explanation.result_digest]
    digests = [*answers, explanation.request_digest, *artifacts_of(jobs)]
    session.delete(explanation)
    session.flush()
    delete_rows(session, jobs, tenant)
    note(session, "explanation", explanation.id, tenant, digests)
    session.flush()
    return [digest for digest in answers if digest is not None]


def delete_denoiser(session: Session, denoiser_id: str, tenant: str) -> None:
    """Deletes a denoiser and, with the last one of its GNN and reference set, their witnesses.

    Explanations and training jobs stay as records.
    """
    denoiser = session.scalar(
        select(Denoiser)
        .where(Denoiser.id == denoiser_id, Denoiser.tenant_id == tenant)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if denoiser is None:
        raise NotFound("denoiser", denoiser_id)
    refuse_if_held(session, denoiser.id, tenant=tenant)
    user = _live_job(session, Job.denoiser_id == denoiser.id)
    if user is not None:
        raise Conflict(
            f"denoiser {denoiser.id} is in use by the {user.kind} job {user.id}, which is "
            f"{user.state}; cancel it or wait until it ends"
        )
    pair = (denoiser.gnn_id, denoiser.dataset_id)
    delete_trained(session, denoiser)
    if not _has_denoisers(session, *pair):
        for witness_set in _witness_sets(session, *pair):
            if not _is_protected(session, witness_set):
                delete_trained(session, witness_set)


def delete_witness_set(session: Session, witness_set_id: str, tenant: str) -> None:
    """Deletes a witness set; the next explanation that needs one trains it again."""
    row = session.scalar(
        select(WitnessSet)
        .where(WitnessSet.id == witness_set_id, WitnessSet.tenant_id == tenant)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if row is None:
        raise NotFound("witness set", witness_set_id)
    refuse_if_held(session, row.id, tenant=tenant)
    user = _live_job(session, Job.witness_set_id == row.id)
    if user is not None:
        raise Conflict(
            f"witness set {row.id} is in use by the {user.kind} job {user.id}, which is "
            f"{user.state}; cancel it or wait until it ends"
        )
    delete_trained(session, row)


def delete_trained(session: Session, row: Trained) -> None:
    """Deletes a denoiser or witness set that nothing protects; the caller holds its lock."""
    forgotten = forget_inputs(session, row.id, row.tenant_id)
    kind = "denoiser" if isinstance(row, Denoiser) else "witness set"
    note(session, kind, row.id, row.tenant_id, [row.weights_digest, *forgotten])
    session.delete(row)
    session.flush()


def delete_job(session: Session, job_id: str, tenant: str) -> None:
    """Deletes an ended job with its events, unless a resource shows it as its own."""
    job = locked(session, job_id, tenant)
    refuse_if_held(session, job.id, tenant=tenant)
    if not job.state.is_terminal:
        raise Conflict(
            f"job {job.id} is {job.state}; only an ended job can be deleted, so cancel it first"
        )
    owner = _owner(session, job)
    if owner is not None:
        raise Conflict(f"job {job.id} belongs to {owner}; it is deleted together with it")
    session.execute(
        update(Job)
        .where(Job.retry_of == job.id)
        .values(retry_of=None)
        .execution_options(synchronize_session=False)
    )
    delete_rows(session, [job], tenant)
    note(session, "job", job.id, tenant, artifacts_of([job]))
    session.flush()


def forget_inputs(session: Session, subject_id: str, tenant: str) -> list[str]:
    """Removes request, checkpoint and metadata from the ended jobs of a deleted resource.

    The jobs stay as records, without their notifications. Returns the digests.
    """
    jobs = locked_jobs(session, Job.subject_id == subject_id, tenant)
    digests = artifacts_of(jobs)
    for job in jobs:
        job.request_digest = None
        job.checkpoint = None
        job.caller_metadata = None
    session.flush()
    _forget(session, jobs, tenant)
    return digests


def find(session: Session, resource_id: str, tenant: str) -> Deletion | None:
    """The note about a deleted resource, while it is kept."""
    return session.get(Deletion, (tenant, resource_id))


def _explanation(
    session: Session, explanation_id: str, tenant: str, *, lock: bool = False
) -> Explanation:
    query = select(Explanation).where(
        Explanation.id == explanation_id, Explanation.tenant_id == tenant
    )
    if lock:
        query = query.with_for_update()
    explanation = session.scalar(query.execution_options(populate_existing=True))
    if explanation is None:
        raise NotFound("explanation", explanation_id)
    return explanation


def locked_jobs(session: Session, condition: ColumnElement[bool], tenant: str) -> list[Job]:
    query = select(Job).where(condition, Job.tenant_id == tenant).order_by(Job.id)
    return list(session.scalars(query.with_for_update().execution_options(populate_existing=True)))


def artifacts_of(jobs: Sequence[Job]) -> list[str]:
    checkpoints = [job.checkpoint["digest"] for job in jobs if job.checkpoint]
    return [*(job.request_digest for job in jobs if job.request_digest), *checkpoints]


def _forget(session: Session, jobs: Sequence[Job], tenant: str) -> None:
    ids = [job.id for job in jobs]
    caller_metadata.forget(session, ids)
    endpoints.forget(session, tenant, subjects=ids, jobs=ids)


def delete_rows(session: Session, jobs: Sequence[Job], tenant: str) -> None:
    """In one statement: they refer to each other. The database deletes their events."""
    session.flush()
    _forget(session, jobs, tenant)
    session.execute(
        delete(Job)
        .where(Job.id.in_([job.id for job in jobs]))
        .execution_options(synchronize_session=False)
    )
    for job in jobs:
        session.expunge(job)


def _live_job(session: Session, condition: ColumnElement[bool]) -> Job | None:
    return session.scalar(select(Job).where(condition, Job.state.in_(_LIVE)).limit(1))


def _has_denoisers(session: Session, gnn_id: str, dataset_id: str) -> bool:
    query = select(Denoiser.id).where(Denoiser.gnn_id == gnn_id, Denoiser.dataset_id == dataset_id)
    return session.scalar(query.limit(1)) is not None


def _witness_sets(session: Session, gnn_id: str, dataset_id: str) -> Sequence[WitnessSet]:
    query = select(WitnessSet).where(
        WitnessSet.gnn_id == gnn_id, WitnessSet.dataset_id == dataset_id
    )
    return session.scalars(query.with_for_update()).all()


def _is_protected(session: Session, row: WitnessSet) -> bool:
    try:
        refuse_if_held(session, row.id, tenant=row.tenant_id)
    except Conflict:
        return True
    return _live_job(session, Job.witness_set_id == row.id) is not None


def _owner(session: Session, job: Job) -> str | None:
    """The resource that shows the job as its own."""
    explanation = session.scalar(
        select(Explanation.id).where(
            or_(Explanation.job_id == job.id, Explanation.provisional_job_id == job.id)
        )
    )
    if explanation is not None:
        return f"explanation {explanation}"
    owners: tuple[tuple[type[Denoiser | WitnessSet | Gnn | Evaluation | Comparison], str], ...] = (
        (Denoiser, "denoiser"),
        (WitnessSet, "witness set"),
        (Gnn, "GNN"),
        (Evaluation, "evaluation"),
        (Comparison, "comparison"),
    )
    shard = session.scalar(
        select(EvaluationShard.evaluation_id).where(EvaluationShard.job_id == job.id)
    )
    if shard is not None:
        return f"evaluation {shard}"
    for table, kind in owners:
        owner = session.scalar(select(table.id).where(table.job_id == job.id))
        if owner is not None:
            return f"{kind} {owner}"
    return None
