"""Comparisons of two evaluations."""

from __future__ import annotations

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from d4explain.contracts.evaluations.results import ComparisonResult
from d4explain.contracts.job_states import JobKind, JobState
from store.database import audit_entries
from store.database.audit_entries import Action
from store.database.identifiers import new_id
from store.database.lists import caller_metadata
from store.database.lists.filters import NO_FILTERS, Filters
from store.database.lists.paging import Page, page_of
from store.database.tables import Comparison, Evaluation, Job
from store.database.tables.audit import Source
from store.database.tables.base import JsonObject
from store.errors import NotFound
from store.jobs.claims import Claim, held
from store.jobs.submission import submit


def create(
    session: Session,
    *,
    baseline: Evaluation,
    candidate: Evaluation,
    request_digest: str,
    seed: int,
    metadata: JsonObject | None = None,
) -> Comparison:
    """Writes the comparison and its job."""
    comparison_id = new_id("cmp")
    job = submit(
        session,
        kind=JobKind.COMPARISON,
        subject_id=comparison_id,
        gnn_id=candidate.gnn_id,
        dataset_id=candidate.dataset_id,
        request_digest=request_digest,
        seed=seed,
        metadata=metadata,
        tenant=candidate.tenant_id,
    )
    comparison = Comparison(
        id=comparison_id,
        tenant_id=candidate.tenant_id,
        baseline_id=baseline.id,
        candidate_id=candidate.id,
        job_id=job.id,
        request_digest=request_digest,
        caller_metadata=metadata or None,
        created_at=job.created_at,
    )
    session.add(comparison)
    session.flush()
    caller_metadata.write(session, [comparison])
    return comparison


def get(session: Session, comparison_id: str, tenant: str) -> Comparison:
    comparison = session.scalar(
        select(Comparison)
        .where(Comparison.id == comparison_id, Comparison.tenant_id == tenant)
        .execution_options(populate_existing=True)
    )
    if comparison is None:
        raise NotFound("comparison", comparison_id)
    return comparison


def page(
    session: Session,
    cursor: str | None = None,
    limit: int = 50,
    *,
    tenant: str,
    evaluation_id: str | None = None,
    gnn_id: str | None = None,
    state: JobState | None = None,
    filters: Filters = NO_FILTERS,
) -> Page[Comparison]:
    """Only comparisons of this evaluation, or of evaluations of this GNN, if given."""
    query = select(Comparison).where(Comparison.tenant_id == tenant)
    query = filters.applied_to(query, Comparison, tenant)
    if state is not None:
        query = query.join(Job, Job.id == Comparison.job_id).where(Job.state == state)
    if evaluation_id is not None:
        query = query.where(
            or_(Comparison.baseline_id == evaluation_id, Comparison.candidate_id == evaluation_id)
        )
    if gnn_id is not None:
        mine = select(Evaluation.id).where(
            Evaluation.gnn_id == gnn_id, Evaluation.tenant_id == tenant
        )
        query = query.where(
            or_(Comparison.baseline_id.in_(mine), Comparison.candidate_id.in_(mine))
        )
    return page_of(session, query, Comparison, cursor, limit)


def finish(session: Session, claim: Claim, result: ComparisonResult) -> None:
    """Stores the result; call it in the transaction that ends the job."""
    job = held(session, claim)
    comparison = get(session, job.subject_id or "", job.tenant_id)
    comparison.result = result.model_dump(mode="json")
    session.flush()
    action = Action("store_comparison", job.tenant_id, job.subject_id, source=Source.WORKER)
    audit_entries.note(session, action)
