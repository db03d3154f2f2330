"""Evaluations: a job for the figures, and one job for each shard of instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, and_, exists, func, or_, select
from sqlalchemy.orm import Session, aliased

from d4explain.contracts.job_states import JobKind, JobState
from store.database import artifact_ledger, audit_entries
from store.database.audit_entries import Action
from store.database.identifiers import new_id
from store.database.lists import caller_metadata
from store.database.lists.filters import NO_FILTERS, Filters
from store.database.lists.paging import Page, page_of
from store.database.tables import (
    Dataset,
    Denoiser,
    Evaluation,
    EvaluationShard,
    Gnn,
    Job,
    WitnessSet,
)
from store.database.tables.audit import Source
from store.database.tables.base import JsonObject
from store.errors import NotFound
from store.jobs.claims import Claim, held
from store.jobs.submission import NewJob, submit_all


@dataclass(frozen=True)
class NewEvaluation:
    """What an evaluation needs; its trainings are `train_job` and `witness_job`."""

    gnn: Gnn
    dataset: Dataset  # the reference set
    test_dataset_id: str
    denoiser: Denoiser | None
    train_job: Job | None
    witness_set: WitnessSet | None
    witness_job: Job | None
    explainers: Sequence[str]
    instance_count: int
    shard_size: int
    instance_seconds: float  # estimated, of all explainers
    request_digest: str
    graphs_digest: str
    seed: int
    metadata: JsonObject | None = None  # of its caller


def create(session: Session, new: NewEvaluation) -> Evaluation:
    """Writes the evaluation, its job and its shards.

    Call it in the transaction that locked the inputs and found or created the trainings.
    """
    evaluation_id, job_id = new_id("evl"), new_id("job")
    tenant = new.gnn.tenant_id
    firsts = range(0, new.instance_count, new.shard_size)
    counts = [min(new.shard_size, new.instance_count - first) for first in firsts]
    whole = NewJob(
        id=job_id,
        kind=JobKind.EVALUATION,
        waiting_for_shards=True,
        subject_id=evaluation_id,
        gnn_id=new.gnn.id,
        dataset_id=new.dataset.id,
        denoiser_id=new.denoiser.id if new.denoiser else None,
        witness_set_id=new.witness_set.id if new.witness_set else None,
        request_digest=new.request_digest,
        seed=new.seed,
        metadata=new.metadata,
        tenant=tenant,
    )
    jobs = submit_all(session, [whole, *(_shard_job(whole, new, count) for count in counts)])
    evaluation = Evaluation(
        id=evaluation_id,
        tenant_id=tenant,
        gnn_id=new.gnn.id,
        dataset_id=new.dataset.id,
        test_dataset_id=new.test_dataset_id,
        denoiser_id=whole["denoiser_id"],
        witness_set_id=whole["witness_set_id"],
        job_id=job_id,
        explainers=list(new.explainers),
        instance_count=new.instance_count,
        request_digest=new.request_digest,
        graphs_digest=new.graphs_digest,
        caller_metadata=new.metadata or None,
        created_at=jobs[0].created_at,
    )
    session.add(evaluation)
    session.flush()
    session.add_all(
        EvaluationShard(
            id=new_id("shd"),
            tenant_id=tenant,
            evaluation_id=evaluation_id,
            first=first,
            count=count,
            job_id=job.id,
            created_at=job.created_at,
        )
        for first, count, job in zip(firsts, counts, jobs[1:], strict=True)
    )
    session.flush()
    caller_metadata.write(session, [evaluation])
    artifact_ledger.refer(session, tenant, new.graphs_digest)
    return evaluation


def _shard_job(whole: NewJob, new: NewEvaluation, count: int) -> NewJob:
    shard = whole.copy()
    shard["id"] = new_id("job")
    shard["kind"] = JobKind.EVALUATION_SHARD
    shard["waiting_for_shards"] = False
    shard["metadata"] = None  # lists by metadata show an evaluation once, not each of its shards
    shard["waiting_for"] = new.train_job.id if new.train_job else None
    shard["also_waiting_for"] = new.witness_job.id if new.witness_job else None
    shard["estimated_seconds"] = count * new.instance_seconds
    return shard


def get(session: Session, evaluation_id: str, tenant: str) -> Evaluation:
    evaluation = session.scalar(
        select(Evaluation)
        .where(Evaluation.id == evaluation_id, Evaluation.tenant_id == tenant)
        .execution_options(populate_existing=True)
    )
    if evaluation is None:
        raise NotFound("evaluation", evaluation_id)
    return evaluation


def page(
    session: Session,
    cursor: str | None = None,
    limit: int = 50,
    *,
    tenant: str,
    gnn_id: str | None = None,
    state: JobState | None = None,
    filters: Filters = NO_FILTERS,
) -> Page[Evaluation]:
    query = select(Evaluation).where(Evaluation.tenant_id == tenant)
    query = filters.applied_to(query, Evaluation, tenant)
    if state is not None:
        query = _in_state(query, state)
    if gnn_id is not None:
        query = query.where(Evaluation.gnn_id == gnn_id)
    return page_of(session, query, Evaluation, cursor, limit)


def shards(session: Session, evaluation_id: str, tenant: str) -> list[EvaluationShard]:
    """In the order of their instances."""
    mine = select(EvaluationShard).where(
        EvaluationShard.evaluation_id == evaluation_id, EvaluationShard.tenant_id == tenant
    )
    return list(session.scalars(mine.order_by(EvaluationShard.first)))


def shard_of(session: Session, claim: Claim) -> EvaluationShard:
    """The shard that a job explains."""
    shard = session.scalar(
        select(EvaluationShard).where(
            EvaluationShard.job_id == claim.job_id, EvaluationShard.tenant_id == claim.tenant
        )
    )
    if shard is None:
        raise NotFound("shard of job", claim.job_id)
    return shard


def finish_shard(session: Session, claim: Claim, *, rows_digest: str) -> None:
    """Records the rows; call it in the transaction that ends the shard's job."""
    job = held(session, claim)
    shard = shard_of(session, claim)
    shard.rows_digest = rows_digest
    session.flush()
    artifact_ledger.refer(session, job.tenant_id, rows_digest)


def finish(
    session: Session,
    claim: Claim,
    *,
    result_digest: str,
    parquet_digest: str,
    summary: JsonObject,
) -> None:
    """Stores the figures; call it in the transaction that ends the evaluation's job."""
    job = held(session, claim)
    evaluation = get(session, job.subject_id or "", job.tenant_id)
    evaluation.result_digest = result_digest
    evaluation.parquet_digest = parquet_digest
    evaluation.summary = summary
    session.flush()
    artifact_ledger.refer(session, job.tenant_id, result_digest, parquet_digest)
    action = Action(
        "store_evaluation",
        job.tenant_id,
        job.subject_id,
        source=Source.WORKER,
        content_sha256=result_digest,
    )
    audit_entries.note(session, action)


class Standing(NamedTuple):
    state: JobState
    explained_count: int  # instances whose rows are stored


def standings(session: Session, several: Sequence[Evaluation]) -> dict[str, Standing]:
    """By id. An evaluation runs from the start of its first shard on."""
    explained = (
        select(func.coalesce(func.sum(EvaluationShard.count), 0))
        .where(
            EvaluationShard.evaluation_id == Evaluation.id,
            EvaluationShard.rows_digest.is_not(None),
        )
        .scalar_subquery()
    )
    query = (
        select(Evaluation.id, Job.state, _has_started(), explained)
        .join(Job, Job.id == Evaluation.job_id)
        .where(Evaluation.id.in_([evaluation.id for evaluation in several]))
    )
    return {
        id_: Standing(
            JobState.RUNNING if state is JobState.QUEUED and has_started else state, int(count)
        )
        for id_, state, has_started, count in session.execute(query)
    }


def _in_state(query: Select[Evaluation], state: JobState) -> Select[Evaluation]:
    """Those that `standings` shows in this state."""
    query = query.join(Job, Job.id == Evaluation.job_id)
    if state is JobState.QUEUED:
        return query.where(Job.state == state, ~_has_started())
    if state is JobState.RUNNING:
        waits = Job.state == JobState.QUEUED
        return query.where(or_(Job.state == state, and_(waits, _has_started())))
    return query.where(Job.state == state)


def _has_started() -> ColumnElement[bool]:
    """Whether a shard of the row has ever started."""
    shard = aliased(Job)
    return exists().where(
        shard.subject_id == Evaluation.id,
        shard.kind == JobKind.EVALUATION_SHARD,
        shard.started_at.is_not(None),
    )
