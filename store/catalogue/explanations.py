"""Requested explanations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Required, TypedDict, Unpack

from sqlalchemy import Select, and_, insert, or_, select
from sqlalchemy.orm import Session, aliased

from d4explain.contracts.job_states import EventType, ExplanationKind, JobKind, JobState, Stage
from store.database import artifact_ledger, audit_entries
from store.database.audit_entries import Action
from store.database.identifiers import new_id
from store.database.lists import caller_metadata
from store.database.lists.filters import NO_FILTERS, Filters
from store.database.lists.paging import Page, page_of
from store.database.origins import Origin, current_origin
from store.database.tables import Dataset, Denoiser, Explanation, Gnn, Job, WitnessSet
from store.database.tables.audit import Source
from store.database.tables.base import JsonObject, written
from store.errors import NotFound
from store.jobs.claims import Claim, held
from store.jobs.job_events import append
from store.jobs.submission import NewJob, locked, submit_all
from store.jobs.submission import get as get_job

_INSERT = insert(Explanation)
_JOB_KINDS: dict[ExplanationKind, JobKind] = {
    "counterfactual": JobKind.COUNTERFACTUAL,
    "class": JobKind.CLASS,
    "global": JobKind.GLOBAL,
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
    # Whether a provisional answer is wanted if the job has to wait for a training.
    provisional: bool
    estimated_seconds: float | None  # of the final answer
    summary: JsonObject | None
    seed: int
    origin: Origin  # if it is not that of the current request
    metadata: JsonObject | None  # of its caller


def create(session: Session, **new: Unpack[NewExplanation]) -> tuple[Explanation, Job]:
    """Creates the explanation and its job, which waits for `train_job` and `witness_job`.

    If it waits and `provisional` is set, a second job gives a provisional answer at once.

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
    first = [new_id("job") if _waits(new) and new.get("provisional") else None for new in several]
    jobs = submit_all(
        session,
        [
            *(
                _final_job(id_, new, provisional)
                for id_, new, provisional in zip(ids, several, first, strict=True)
            ),
            *(
                _provisional_job(id_, new, provisional)
                for id_, new, provisional in zip(ids, several, first, strict=True)
                if provisional is not None
            ),
        ],
    )[: len(several)]
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
            "provisional_job_id": provisional,
            "provisional_digest": None,
            "summary": new.get("summary"),
            "caller_metadata": new.get("metadata") or None,
            "created_at": job.created_at,
        }
        for id_, new, job, provisional in zip(ids, several, jobs, first, strict=True)
    ]
    session.connection().execute(_INSERT, rows)
    explanations = [written(Explanation, row) for row in rows]
    caller_metadata.write(session, explanations)
    return list(zip(explanations, jobs, strict=True))


def _waits(new: NewExplanation) -> bool:
    return new["train_job"] is not None or new.get("witness_job") is not None


def _final_job(id_: str, new: NewExplanation, provisional: str | None) -> NewJob:
    witnesses, judging = new.get("witness_set"), new.get("witness_job")
    return NewJob(
        kind=_JOB_KINDS[new["kind"]],
        subject_id=id_,
        gnn_id=new["gnn"].id,
        dataset_id=new["dataset"].id,
        denoiser_id=new["denoiser"].id if new["denoiser"] else None,
        witness_set_id=None if witnesses is None else witnesses.id,
        request_digest=new["request_digest"],
        waiting_for=new["train_job"].id if new["train_job"] else None,
        also_waiting_for=judging.id if judging else None,
        waiting_for_provisional=provisional,
        estimated_seconds=new.get("estimated_seconds"),
        seed=new.get("seed", 0),
        origin=new.get("origin") or current_origin(),
        metadata=new.get("metadata"),
        tenant=new["gnn"].tenant_id,
    )


def _provisional_job(id_: str, new: NewExplanation, provisional: str) -> NewJob:
    """A job that needs no training: no denoiser, and witnesses only if they exist already."""
    witnesses = new.get("witness_set") if new.get("witness_job") is None else None
    return NewJob(
        id=provisional,
        kind=JobKind.PROVISIONAL,
        subject_id=id_,
        gnn_id=new["gnn"].id,
        dataset_id=new["dataset"].id,
        witness_set_id=None if witnesses is None else witnesses.id,
        request_digest=new["request_digest"],
        seed=new.get("seed", 0),
        origin=new.get("origin") or current_origin(),
        metadata=new.get("metadata"),
        tenant=new["gnn"].tenant_id,
    )


def get(session: Session, explanation_id: str, tenant: str) -> Explanation:
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
    *,
    tenant: str,
    kind: ExplanationKind | None = None,
    gnn_id: str | None = None,
    state: JobState | None = None,
    filters: Filters = NO_FILTERS,
) -> Page[Explanation]:
    query = select(Explanation).where(Explanation.tenant_id == tenant)
    query = filters.applied_to(query, Explanation, tenant)
    if state is not None:
        query = _in_state(query, state)
    if kind is not None:
        query = query.where(Explanation.kind == kind)
    if gnn_id is not None:
        query = query.where(Explanation.gnn_id == gnn_id)
    return page_of(session, query, Explanation, cursor, limit)


def finish(
    session: Session, claim: Claim, *, result_digest: str, summary: JsonObject | None = None
) -> Explanation:
    """Stores the digest of the final answer; call it in the transaction that ends the job."""
    job = held(session, claim)
    explanation = get(session, job.subject_id or "", job.tenant_id)
    explanation.result_digest = result_digest
    if summary is not None:
        explanation.summary = summary
    session.flush()
    artifact_ledger.refer(session, job.tenant_id, result_digest)
    _append_answer(session, job, Stage.FINAL, result_digest)
    return explanation


def finish_provisional(
    session: Session, claim: Claim, *, result_digest: str, summary: JsonObject
) -> None:
    """Stores the digest of the provisional answer; call it in the transaction that ends its job.

    The event log of the explanation's job tells of it. An explanation that has ended, because
    somebody canceled it, stays as it is, and so does one whose provisional job was replaced.
    """
    job = held(session, claim)
    explanation = get(session, job.subject_id or "", job.tenant_id)
    final = locked(session, explanation.job_id, job.tenant_id)
    if final.state.is_terminal or explanation.provisional_job_id != job.id:
        return
    explanation.provisional_digest = result_digest
    explanation.summary = summary
    session.flush()
    artifact_ledger.refer(session, job.tenant_id, result_digest)
    _append_answer(session, final, Stage.PROVISIONAL, result_digest)


def state_of(explanation: Explanation, job: Job, provisional: Job | None) -> JobState:
    """The state of an explanation with these jobs; it only goes forward, unless somebody retries.

    An explanation with a provisional answer succeeds even if there will be no final one.
    """
    if job.state.is_terminal:
        return explanation.state_after(job.state)
    has_started = job.started_at is not None or (
        provisional is not None and provisional.started_at is not None
    )
    return JobState.RUNNING if has_started else JobState.QUEUED


def _in_state(query: Select[Explanation], state: JobState) -> Select[Explanation]:
    """Those whose `state_of` is this one."""
    query = query.join(Job, Job.id == Explanation.job_id)
    has_answer = Explanation.provisional_digest.is_not(None)
    if state is JobState.SUCCEEDED:
        stands_in = and_(Job.state.in_((JobState.FAILED, JobState.EXPIRED)), has_answer)
        return query.where(or_(Job.state == state, stands_in))
    if state in (JobState.FAILED, JobState.EXPIRED):
        return query.where(Job.state == state, ~has_answer)
    if state is JobState.CANCELED:
        return query.where(Job.state == state)
    first = aliased(Job)
    query = query.outerjoin(first, first.id == Explanation.provisional_job_id)
    query = query.where(Job.state.in_((JobState.QUEUED, JobState.RUNNING)))
    has_started = or_(Job.started_at.is_not(None), first.started_at.is_not(None))
    return query.where(has_started if state is JobState.RUNNING else ~has_started)


def _append_answer(session: Session, job: Job, stage: Stage, digest: str) -> None:
    action = Action(
        "store_answer",
        job.tenant_id,
        job.subject_id,
        source=Source.WORKER,
        content_sha256=digest,
    )
    audit_entries.note(session, action)
    data = {"stage": stage.value, "sha256": digest, "explanation": job.subject_id}
    append(session, job, EventType.ANSWER, data)
