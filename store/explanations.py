"""Explanations that were asked for."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.claims import Claim, held
from store.errors import NotFound
from store.identifiers import new_id
from store.job_states import JobKind
from store.paging import Page, page_of
from store.submission import submit
from store.tables import Denoiser, Explanation, Gnn, Job, JsonObject, ReferenceSet

ExplanationKind = Literal["counterfactual", "class"]

_JOB_KINDS: dict[ExplanationKind, JobKind] = {
    "counterfactual": JobKind.COUNTERFACTUAL,
    "class": JobKind.CLASS_EXPLANATION,
}


def create(
    session: Session,
    *,
    kind: ExplanationKind,
    gnn: Gnn,
    dataset: ReferenceSet,
    denoiser: Denoiser,
    train_job: Job | None,
    request_digest: str,
    summary: JsonObject | None = None,
    seed: int = 0,
    tenant: str = "default",
) -> tuple[Explanation, Job]:
    """The explanation and its job, which waits for `train_job`.

    Call in the transaction of `denoisers.get_or_create`, whose locks keep the training from
    ending in between.
    """
    explanation_id = new_id("exp")
    job = submit(
        session,
        kind=_JOB_KINDS[kind],
        subject_id=explanation_id,
        gnn_id=gnn.id,
        dataset_id=dataset.id,
        denoiser_id=denoiser.id,
        request_digest=request_digest,
        waiting_for=train_job.id if train_job else None,
        seed=seed,
        tenant=tenant,
    )
    explanation = Explanation(
        id=explanation_id,
        tenant_id=tenant,
        kind=kind,
        gnn_id=gnn.id,
        dataset_id=dataset.id,
        denoiser_id=denoiser.id,
        job_id=job.id,
        request_digest=request_digest,
        result_digest=None,
        summary=summary,
        created_at=job.created_at,
    )
    session.add(explanation)
    session.flush()
    return explanation, job


def get(session: Session, explanation_id: str, tenant: str = "default") -> Explanation:
    explanation = session.scalar(
        select(Explanation)
        .where(Explanation.id == explanation_id, Explanation.tenant_id == tenant)
        .execution_options(populate_existing=True)
    )
    if explanation is None:
        raise NotFound("explanation", explanation_id)
    return explanation


def page(
    session: Session,
    cursor: str | None = None,
    limit: int = 50,
    tenant: str = "default",
    *,
    kind: ExplanationKind | None = None,
    gnn_id: str | None = None,
) -> Page[Explanation]:
    query = select(Explanation).where(Explanation.tenant_id == tenant)
    if kind is not None:
        query = query.where(Explanation.kind == kind)
    if gnn_id is not None:
        query = query.where(Explanation.gnn_id == gnn_id)
    return page_of(session, query, Explanation, cursor, limit)


def finish(
    session: Session, claim: Claim, *, result_digest: str, summary: JsonObject | None = None
) -> Explanation:
    """Stores where the answer is; call in the transaction that ends the job."""
    job = held(session, claim)
    explanation = get(session, job.subject_id or "", job.tenant_id)
    explanation.result_digest = result_digest
    if summary is not None:
        explanation.summary = summary
    session.flush()
    return explanation
