"""Requested explanations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Required, TypedDict, Unpack

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind
from store.database.identifiers import new_id
from store.database.paging import Page, page_of
from store.database.table_base import JsonObject, written
from store.database.tables import Dataset, Denoiser, Explanation, Gnn, Job, WitnessSet
from store.errors import NotFound
from store.jobs.claims import Claim, held
from store.jobs.submission import NewJob, submit_all
from store.jobs.submission import get as get_job

ExplanationKind = Literal["counterfactual", "class"]

_INSERT = insert(Explanation)
_JOB_KINDS: dict[ExplanationKind, JobKind] = {
    "counterfactual": JobKind.COUNTERFACTUAL,
    "class": JobKind.CLASS,
}


class NewExplanation(TypedDict, total=False):
    """The fields of a new explanation."""

    id: str  # if it was assigned before
    kind: Required[ExplanationKind]
    gnn: Required[Gnn]
    dataset: Required[Dataset]
    denoiser: Required[Denoiser | None]  # None for the explainer `search`
    train_job: Required[Job | None]
    witness_set: WitnessSet | None  # None or missing if nobody judges
    witness_job: Job | None
    request_digest: Required[str]
    summary: JsonObject | None
    seed: int
    tenant: str


def create(session: Session, **new: Unpack[NewExplanation]) -> tuple[Explanation, Job]:
    """Creates the explanation and its job, which waits for `train_job` and `witness_job`.

    Call it in the transaction of `denoisers.get_or_create` and `witness_sets.get_or_create`: their
    locks prevent the trainings from ending before the job is written. Without a denoiser and a
    witness set, call `lock_inputs` instead.
    """
    ((written, job),) = create_all(session, [new])
    tenant = written.tenant_id
    return get(session, written.id, tenant), get_job(session, job.id, tenant)


def create_all(
    session: Session, several: Sequence[NewExplanation]
) -> list[tuple[Explanation, Job]]:
    """Like `create` for several explanations, with the number of statements of one.

    The returned objects are not part of the session, as with `submit_all`.
    """
    if not several:
        return []
    ids = [new.get("id") or new_id("exp") for new in several]
    jobs = submit_all(
        session,
        [
            NewJob(
                kind=_JOB_KINDS[new["kind"]],
                subject_id=id_,
                gnn_id=new["gnn"].id,
                dataset_id=new["dataset"].id,
                denoiser_id=new["denoiser"].id if new["denoiser"] else None,
                witness_set_id=_witness_set_id(new),
                request_digest=new["request_digest"],
                waiting_for=new["train_job"].id if new["train_job"] else None,
                also_waiting_for=judging.id if judging else None,
                seed=new.get("seed", 0),
                tenant=new.get("tenant", "default"),
            )
            for id_, new in zip(ids, several, strict=True)
            for judging in [new.get("witness_job")]
        ],
    )
    rows = [
        {
            "id": id_,
            "tenant_id": job.tenant_id,
            "kind": new["kind"],
            "gnn_id": new["gnn"].id,
            "dataset_id": new["dataset"].id,
            "denoiser_id": job.denoiser_id,
            "witness_set_id": job.witness_set_id,
            "job_id": job.id,
            "request_digest": new["request_digest"],
            "result_digest": None,
            "summary": new.get("summary"),
            "created_at": job.created_at,
        }
        for id_, new, job in zip(ids, several, jobs, strict=True)
    ]
    session.connection().execute(_INSERT, rows)
    return [(written(Explanation, row), job) for row, job in zip(rows, jobs, strict=True)]


def _witness_set_id(new: NewExplanation) -> str | None:
    witnesses = new.get("witness_set")
    return None if witnesses is None else witnesses.id


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
    """Stores the digest of the result; call it in the transaction that ends the job."""
    job = held(session, claim)
    explanation = get(session, job.subject_id or "", job.tenant_id)
    explanation.result_digest = result_digest
    if summary is not None:
        explanation.summary = summary
    session.flush()
    return explanation
