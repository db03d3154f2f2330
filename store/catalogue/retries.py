"""Submits an ended job again because a user asked; `reaper` requeues the jobs of dead workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import GnnState, JobKind, JobState
from d4explain.contracts.requests import DenoiserConfig
from store.catalogue import denoisers, witness_sets
from store.catalogue.data_life.input_locks import lock_inputs
from store.catalogue.evaluations import evaluations
from store.database.tables import (
    Comparison,
    Dataset,
    Denoiser,
    Evaluation,
    Explanation,
    Gnn,
    Job,
    Replay,
    WitnessSet,
)
from store.errors import Conflict
from store.jobs.submission import get as get_job
from store.jobs.submission import locked, submit


def retry(session: Session, job_id: str, tenant: str) -> Job:
    """Creates a new job with the same subject and request, linked to the old one."""
    _lock_provisional(session, get_job(session, job_id, tenant))
    job = locked(session, job_id, tenant)
    if not job.state.is_terminal or job.state is JobState.SUCCEEDED:
        raise Conflict(
            f"job {job.id} is {job.state}; only a failed, canceled or expired job can be retried"
        )
    earlier = session.scalar(select(Job.id).where(Job.retry_of == job.id))
    if earlier is not None:
        raise Conflict(f"job {job.id} was already retried as {earlier}")
    return _RETRIES[job.kind](session, job)


def _lock_provisional(session: Session, job: Job) -> None:
    """Locks the job of a provisional answer before that of the final one, as its end does."""
    if job.kind not in (JobKind.COUNTERFACTUAL, JobKind.CLASS):
        return
    provisional = session.scalar(
        select(Explanation.provisional_job_id).where(
            Explanation.id == job.subject_id, Explanation.tenant_id == job.tenant_id
        )
    )
    if provisional is not None:
        locked(session, provisional, job.tenant_id)


def _retry_training(session: Session, job: Job) -> Job:
    denoiser = _existing(session, Denoiser, job.denoiser_id, job)
    _, training = denoisers.get_or_create(
        session,
        gnn=_existing(session, Gnn, denoiser.gnn_id, job),
        dataset=_existing(session, Dataset, denoiser.dataset_id, job),
        objective=denoiser.objective,
        config=DenoiserConfig.model_validate(denoiser.config),
    )
    if training is None or training.retry_of != job.id:
        raise Conflict(f"denoiser {denoiser.id} has been trained by another job since {job.id}")
    return training


def _retry_witnesses(session: Session, job: Job) -> Job:
    row = _existing(session, WitnessSet, job.witness_set_id, job)
    _, training = witness_sets.get_or_create(
        session,
        gnn=_existing(session, Gnn, row.gnn_id, job),
        dataset=_existing(session, Dataset, row.dataset_id, job),
    )
    if training is None or training.retry_of != job.id:
        raise Conflict(f"witness set {row.id} has been trained by another job since {job.id}")
    return training


def _retry_explanation(session: Session, job: Job) -> Job:
    explanation = _existing(session, Explanation, job.subject_id, job)
    gnn = _existing(session, Gnn, explanation.gnn_id, job)
    dataset = _existing(session, Dataset, explanation.dataset_id, job)
    training = None
    if explanation.denoiser_id is None:
        lock_inputs(session, gnn, dataset)
    else:
        denoiser = _existing(session, Denoiser, explanation.denoiser_id, job)
        _, training = denoisers.get_or_create(
            session,
            gnn=gnn,
            dataset=dataset,
            objective=denoiser.objective,
            config=DenoiserConfig.model_validate(denoiser.config),
        )
    witnesses = judging = None
    if explanation.witness_set_id is not None:
        witnesses, judging = witness_sets.get_or_create(session, gnn=gnn, dataset=dataset)
        explanation.witness_set_id = witnesses.id
    again = _copy(session, job, training=training, witnesses=witnesses, judging=judging)
    explanation.job_id = again.id
    if again.is_blocked and explanation.provisional_digest is None:
        _repeat_provisional(session, explanation, again)
    session.flush()
    return again


def _repeat_provisional(session: Session, explanation: Explanation, final: Job) -> None:
    """Gives the explanation another chance of a provisional answer, if it should have had one."""
    if explanation.provisional_job_id is None:
        return
    before = locked(session, explanation.provisional_job_id, explanation.tenant_id)
    if before.state.is_terminal or before.cancel_requested:
        _start_provisional(session, explanation, before, final)


def _retry_provisional(session: Session, job: Job) -> Job:
    """Repeats it while the final answer waits; later it would come too late."""
    explanation = _existing(session, Explanation, job.subject_id, job)
    final = locked(session, explanation.job_id, job.tenant_id)
    if not final.is_blocked or final.error is not None:
        raise Conflict(
            f"job {job.id} is for a provisional answer, which is no longer needed: the job of the "
            f"final answer, {final.id}, is {final.state}"
        )
    return _start_provisional(session, explanation, job, final)


def _start_provisional(session: Session, explanation: Explanation, before: Job, final: Job) -> Job:
    again = _copy(session, before)
    # Witnesses that are ready judge the provisional answer, too.
    again.witness_set_id = None if final.also_waiting_for else final.witness_set_id
    final.waiting_for_provisional = again.id
    explanation.provisional_job_id = again.id
    session.flush()
    return again


def _retry_prediction(session: Session, job: Job) -> Job:
    _existing(session, Gnn, job.gnn_id, job)
    return _copy(session, job)


def _retry_replay(session: Session, job: Job) -> Job:
    replay = _existing(session, Replay, job.subject_id, job)
    again = _copy(session, job)
    again.witness_set_id = job.witness_set_id
    replay.job_id = again.id
    session.flush()
    return again


def _retry_evaluation(session: Session, job: Job) -> Job:
    """Repeats the shards without rows; the others keep theirs."""
    evaluation = _existing(session, Evaluation, job.subject_id, job)
    gnn = _existing(session, Gnn, evaluation.gnn_id, job)
    dataset = _existing(session, Dataset, evaluation.dataset_id, job)
    missing = [
        shard
        for shard in evaluations.shards(session, evaluation.id, job.tenant_id)
        if shard.rows_digest is None
    ]
    live = [
        one for one in missing if not get_job(session, one.job_id, job.tenant_id).state.is_terminal
    ]
    if live:
        raise Conflict(
            f"shard job {live[0].job_id} of {evaluation.id} is still running; wait for it"
        )
    training = judging = witnesses = None
    lock_inputs(session, gnn, dataset)
    if missing and evaluation.denoiser_id is not None:
        denoiser = _existing(session, Denoiser, evaluation.denoiser_id, job)
        _, training = denoisers.get_or_create(
            session,
            gnn=gnn,
            dataset=dataset,
            objective=denoiser.objective,
            config=DenoiserConfig.model_validate(denoiser.config),
        )
    if evaluation.witness_set_id is not None:
        witnesses, judging = witness_sets.get_or_create(session, gnn=gnn, dataset=dataset)
        evaluation.witness_set_id = witnesses.id
    again = _copy(session, job, witnesses=witnesses, waiting_for_shards=bool(missing))
    evaluation.job_id = again.id
    for shard in missing:
        before = get_job(session, shard.job_id, job.tenant_id)
        shard.job_id = _copy(
            session, before, training=training, witnesses=witnesses, judging=judging
        ).id
    session.flush()
    return again


def _refuse_shard(session: Session, job: Job) -> Job:
    evaluation = _existing(session, Evaluation, job.subject_id, job)
    raise Conflict(
        f"job {job.id} is a shard of {evaluation.id}; retry the job of the evaluation, "
        f"{evaluation.job_id}, which repeats all shards without rows"
    )


def _retry_comparison(session: Session, job: Job) -> Job:
    comparison = _existing(session, Comparison, job.subject_id, job)
    again = _copy(session, job)
    comparison.job_id = again.id
    session.flush()
    return again


def _retry_probe(session: Session, job: Job) -> Job:
    gnn = _existing(session, Gnn, job.gnn_id, job)
    again = _copy(session, job)
    gnn.state = GnnState.PROBING
    gnn.report = None
    gnn.job_id = again.id
    session.flush()
    return again


def _copy(
    session: Session,
    job: Job,
    *,
    training: Job | None = None,
    witnesses: WitnessSet | None = None,
    judging: Job | None = None,
    waiting_for_shards: bool = False,
) -> Job:
    return submit(
        session,
        kind=job.kind,
        subject_id=job.subject_id,
        gnn_id=job.gnn_id,
        dataset_id=job.dataset_id,
        denoiser_id=job.denoiser_id,
        witness_set_id=None if witnesses is None else witnesses.id,
        request_digest=job.request_digest,
        waiting_for=None if training is None else training.id,
        also_waiting_for=None if judging is None else judging.id,
        waiting_for_shards=waiting_for_shards,
        retry_of=job.id,
        estimated_seconds=job.estimated_seconds,
        seed=job.seed,
        metadata=job.caller_metadata,
        tenant=job.tenant_id,
    )


Row = TypeVar(
    "Row", Denoiser, WitnessSet, Explanation, Gnn, Dataset, Replay, Evaluation, Comparison
)


def _existing(session: Session, table: type[Row], id_: str | None, job: Job) -> Row:
    row = session.get(table, id_, populate_existing=True) if id_ else None
    if row is None or row.tenant_id != job.tenant_id:
        raise Conflict(
            f"job {job.id} cannot be retried: its GNN, dataset, denoiser or explanation was deleted"
        )
    return row


_RETRIES: dict[JobKind, Callable[[Session, Job], Job]] = {
    JobKind.PROBE: _retry_probe,
    JobKind.PREDICT: _retry_prediction,
    JobKind.TRAIN: _retry_training,
    JobKind.WITNESSES: _retry_witnesses,
    JobKind.PROVISIONAL: _retry_provisional,
    JobKind.COUNTERFACTUAL: _retry_explanation,
    JobKind.CLASS: _retry_explanation,
    JobKind.GLOBAL: _retry_explanation,
    JobKind.REPLAY: _retry_replay,
    JobKind.EVALUATION: _retry_evaluation,
    JobKind.EVALUATION_SHARD: _refuse_shard,
    JobKind.COMPARISON: _retry_comparison,
}
