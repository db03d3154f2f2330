"""Deletes resources that are older than their retention time, in small batches.

A tenant's own times are set by its admin; the deployment's apply to all others. Resources on hold
and resources that something uses are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from sqlalchemy import ColumnElement, Select, exists, func, select, union
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import InstrumentedAttribute, Session

from d4explain.contracts.job_states import JobState
from store.catalogue import datasets
from store.catalogue.data_life import deletions
from store.catalogue.evaluations.deletions import delete_comparison, delete_evaluation
from store.database import audit_entries
from store.database.audit_entries import Action
from store.database.sessions import Database, read_clock
from store.database.tables import (
    Comparison,
    Dataset,
    Denoiser,
    Evaluation,
    EvaluationShard,
    Explanation,
    Gnn,
    Hold,
    Job,
    TenantPolicy,
    WitnessSet,
)
from store.database.tables.audit import Source
from store.errors import Conflict, NotFound
from store.settings import Settings

_DAY = 24 * 3600.0
_BATCH = 50  # resources that one transaction deletes
_LIVE = (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True)
class Retention:
    """Days; 0 keeps the resources until somebody deletes them."""

    explanations: float = 0.0  # since they were requested; evaluations and comparisons, too
    jobs: float = 0.0  # since they ended; predictions, and jobs that a retry has replaced
    networks: float = 0.0  # denoisers and witnesses, since they were last used
    datasets: float = 0.0  # reference sets that nothing refers to, since they were stored


KEEP_ALL = Retention()


def retention_of(settings: Settings) -> Retention:
    """The times of tenants that have set no other ones."""
    return Retention(
        explanations=settings.retention_explanation_days,
        jobs=settings.retention_job_days,
        networks=settings.retention_network_days,
        datasets=settings.retention_dataset_days,
    )


class _Kind(StrEnum):
    EXPLANATIONS = "explanations"
    COMPARISONS = "comparisons"
    EVALUATIONS = "evaluations"
    JOBS = "jobs"
    DENOISERS = "denoisers"
    WITNESS_SETS = "witness sets"
    DATASETS = "datasets"


# How each kind is deleted, and what the audit log calls it: the names of the API's actions.
_DELETE: dict[_Kind, tuple[Callable[[Session, str, str], object], str]] = {
    _Kind.EXPLANATIONS: (deletions.delete_explanation, "delete_explanation"),
    _Kind.COMPARISONS: (delete_comparison, "delete_comparison"),
    _Kind.EVALUATIONS: (delete_evaluation, "delete_evaluation"),
    _Kind.JOBS: (deletions.delete_job, "delete_job"),
    _Kind.DENOISERS: (deletions.delete_denoiser, "delete_denoiser"),
    _Kind.WITNESS_SETS: (deletions.delete_witness_set, "delete_witness_set"),
    _Kind.DATASETS: (datasets.delete, "delete_dataset"),
}


def of_tenant(session: Session, tenant: str, default: Retention) -> Retention:
    """The tenant's own times; the deployment's for kinds that it has not set."""
    own = session.scalar(select(TenantPolicy.retention).where(TenantPolicy.tenant_id == tenant))
    return replace(default, **(own or {}))


def set_for_tenant(
    session: Session, tenant: str, days: dict[str, float | None], default: Retention
) -> Retention:
    """Replaces a tenant's own times; None means the deployment's."""
    own = {kind: float(value) for kind, value in days.items() if value is not None}
    upsert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    new = upsert(TenantPolicy).values(tenant_id=tenant, quotas={}, retention=own)
    session.execute(
        new.on_conflict_do_update(index_elements=["tenant_id"], set_={"retention": own})
    )
    return of_tenant(session, tenant, default)


def delete_expired(
    database: Database,
    default: Retention,
    *,
    at: float | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Deletes what is too old at this time, by default now; returns the number of resources."""
    with database.reading() as session:
        moment = read_clock(session) if at is None else at
        times = {
            tenant: retention
            for tenant in _tenants(session)
            if any(asdict(retention := of_tenant(session, tenant, default)).values())
        }
    count = 0
    for tenant, retention in times.items():
        for kind, days in _days(retention).items():
            if days:
                query = _expired(kind, tenant, moment - days * _DAY)
                count += _delete_all(database, tenant, kind, query, should_stop)
    return count


def _days(retention: Retention) -> dict[_Kind, float]:
    """In this order: an explanation may be the last that refers to a reference set."""
    return {
        _Kind.EXPLANATIONS: retention.explanations,
        _Kind.COMPARISONS: retention.explanations,
        _Kind.EVALUATIONS: retention.explanations,
        _Kind.JOBS: retention.jobs,
        _Kind.DENOISERS: retention.networks,
        _Kind.WITNESS_SETS: retention.networks,
        _Kind.DATASETS: retention.datasets,
    }


def _delete_all(
    database: Database,
    tenant: str,
    kind: _Kind,
    expired: Select[str],
    should_stop: Callable[[], bool],
) -> int:
    deleted, last = 0, ""
    delete, name = _DELETE[kind]
    while not should_stop():
        with database.reading() as session:  # by id, so that no resource is tried twice
            ids = expired.subquery()
            rest = select(ids.c.id).where(ids.c.id > last).order_by(ids.c.id).limit(_BATCH)
            batch = session.scalars(rest).all()
        if not batch:
            break
        last = batch[-1]
        for id_ in batch:
            try:
                with database.transaction() as session:
                    delete(session, id_, tenant)
                    audit_entries.note(session, Action(name, tenant, id_, Source.RETENTION))
                deleted += 1
            except (Conflict, NotFound):
                pass  # somebody uses, holds or has deleted it since the query
    return deleted


def _expired(kind: _Kind, tenant: str, before: float) -> Select[str]:
    match kind:
        case _Kind.EXPLANATIONS:
            old = (
                select(Explanation.id)
                .join(Job, Job.id == Explanation.job_id)
                .where(Explanation.tenant_id == tenant, Explanation.created_at < before)
                .where(Job.state.not_in(_LIVE))
            )
            return old.where(_is_free(Explanation.id))
        case _Kind.COMPARISONS | _Kind.EVALUATIONS:
            owner = Comparison if kind is _Kind.COMPARISONS else Evaluation
            ended = (
                select(owner.id)
                .join(Job, Job.id == owner.job_id)
                .where(owner.tenant_id == tenant, owner.created_at < before)
                .where(Job.state.not_in(_LIVE))
            )
            return ended.where(_is_free(owner.id))
        case _Kind.JOBS:
            owners = [
                exists().where(column == Job.id)
                for column in (
                    Explanation.job_id,
                    Explanation.provisional_job_id,
                    Denoiser.job_id,
                    WitnessSet.job_id,
                    Gnn.job_id,
                    Evaluation.job_id,
                    EvaluationShard.job_id,
                    Comparison.job_id,
                )
            ]
            return (
                select(Job.id)
                .where(
                    Job.tenant_id == tenant, Job.finished_at < before, *(~owned for owned in owners)
                )
                .where(_is_free(Job.id))
            )
        case _Kind.DENOISERS | _Kind.WITNESS_SETS:
            table = Denoiser if kind is _Kind.DENOISERS else WitnessSet
            user = Job.denoiser_id if kind is _Kind.DENOISERS else Job.witness_set_id
            return (
                select(table.id)
                .where(
                    table.tenant_id == tenant,
                    func.coalesce(table.used_at, table.created_at) < before,
                    ~exists().where(user == table.id, Job.state.in_(_LIVE)),
                )
                .where(_is_free(table.id))
            )
        case _Kind.DATASETS:
            users = [
                exists().where(column == Dataset.id)
                for column in (
                    Explanation.dataset_id,
                    Evaluation.dataset_id,
                    Evaluation.test_dataset_id,
                    Denoiser.dataset_id,
                    WitnessSet.dataset_id,
                    Job.dataset_id,
                )
            ]
            return (
                select(Dataset.id)
                .where(
                    Dataset.tenant_id == tenant,
                    Dataset.created_at < before,
                    *(~used for used in users),
                )
                .where(_is_free(Dataset.id))
            )


def _is_free(id_: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    return ~exists().where(Hold.resource_id == id_)


def _tenants(session: Session) -> list[str]:
    tables = (Explanation, Evaluation, Comparison, Job, Denoiser, WitnessSet, Dataset)
    return sorted(session.scalars(union(*(select(table.tenant_id) for table in tables))))
