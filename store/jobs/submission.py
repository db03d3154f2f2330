"""Submits jobs and reads them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Required, TypedDict, Unpack

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind, JobState
from store.database import artifact_ledger
from store.database.identifiers import new_id
from store.database.job_policy import policy_of
from store.database.lists import caller_metadata
from store.database.lists.filters import NO_FILTERS, Filters
from store.database.lists.paging import Page, page_of
from store.database.origins import Origin, current_origin
from store.database.sessions import read_clock
from store.database.tables import Job
from store.database.tables.base import JsonObject, written
from store.errors import NotFound
from store.jobs.job_events import append_first_states

# The newest format of jobs that this program writes and reads. Raise it with a change that workers
# of earlier versions would misread: a new kind, or a field that they must not ignore.
JOB_FORMAT = 4

_INSERT = insert(Job)  # built once: every submission runs it


class Priority(IntEnum):
    """Priorities of the broker; the lowest number is served first."""

    RECOVERED = 0  # its attempt ended early; it has waited before
    RELEASED = 3  # its training is done; it has waited for that
    NEW = 6


class NewJob(TypedDict, total=False):
    """The fields of a new job."""

    id: str  # if it was assigned before
    kind: Required[JobKind]
    subject_id: str | None
    gnn_id: str | None
    dataset_id: str | None
    denoiser_id: str | None
    witness_set_id: str | None
    request_digest: str | None
    waiting_for: str | None
    also_waiting_for: str | None  # a second job to wait for
    waiting_for_provisional: str | None  # the job of the provisional answer
    waiting_for_shards: bool  # those of the same subject
    estimated_seconds: float | None
    retry_of: str | None
    seed: int
    priority: int
    origin: Origin  # if it is not that of the current request
    metadata: JsonObject | None  # of its caller
    tenant: Required[str]


def submit(session: Session, **new: Unpack[NewJob]) -> Job:
    """Writes a queued job; the dispatcher announces it after the commit."""
    (written,) = submit_all(session, [new])
    return get(session, written.id, written.tenant_id)


def submit_all(session: Session, several: Sequence[NewJob]) -> list[Job]:
    """Like `submit` for several jobs, with the number of statements of one.

    The returned jobs are not part of the session, which saves the cost of tracking them.
    """
    if not several:
        return []
    policy = policy_of(session)
    created_at = read_clock(session)
    rows = [
        {
            "id": new.get("id") or new_id("job"),
            "tenant_id": new["tenant"],
            "kind": new["kind"],
            "queue": new["kind"].queue,
            "format": JOB_FORMAT,
            "state": JobState.QUEUED,
            "attempt": 0,
            "releases": 0,
            "max_attempts": policy.max_attempts,
            "priority": int(new.get("priority", Priority.NEW)),
            "cancel_requested": False,
            "waiting_for": new.get("waiting_for"),
            "also_waiting_for": new.get("also_waiting_for"),
            "waiting_for_provisional": new.get("waiting_for_provisional"),
            "waiting_for_shards": new.get("waiting_for_shards") or None,
            "estimated_seconds": new.get("estimated_seconds"),
            "subject_id": new.get("subject_id"),
            "gnn_id": new.get("gnn_id"),
            "dataset_id": new.get("dataset_id"),
            "denoiser_id": new.get("denoiser_id"),
            "witness_set_id": new.get("witness_set_id"),
            "request_digest": new.get("request_digest"),
            "retry_of": new.get("retry_of"),
            "seed": new.get("seed", 0),
            "created_at": created_at,
            "expires_at": created_at + policy.queue_seconds,
            "next_dispatch_at": created_at,
            "dispatches": 0,
            "caller_metadata": new.get("metadata") or None,
        }
        for new in several
    ]
    session.connection().execute(_INSERT, rows)
    jobs = [written(Job, row) for row in rows]
    append_first_states(session, jobs, [new.get("origin") or current_origin() for new in several])
    caller_metadata.write(session, jobs)
    for job in jobs:
        artifact_ledger.refer(session, job.tenant_id, job.request_digest)
    return jobs


def get(session: Session, job_id: str, tenant: str) -> Job:
    return _found(session, job_id, tenant, lock=False)


def get_all(session: Session, job_ids: Sequence[str], tenant: str) -> dict[str, Job]:
    """The jobs by id, in one query; unknown ids are left out."""
    found = session.scalars(select(Job).where(Job.id.in_(job_ids), Job.tenant_id == tenant))
    return {job.id: job for job in found}


def locked(session: Session, job_id: str, tenant: str) -> Job:
    """Reads the job and locks it until the transaction ends."""
    return _found(session, job_id, tenant, lock=True)


def page(
    session: Session,
    cursor: str | None = None,
    limit: int = 50,
    *,
    tenant: str,
    state: JobState | None = None,
    kind: JobKind | None = None,
    gnn_id: str | None = None,
    filters: Filters = NO_FILTERS,
) -> Page[Job]:
    query = filters.applied_to(select(Job).where(Job.tenant_id == tenant), Job, tenant)
    if state is not None:
        query = query.where(Job.state == state)
    if kind is not None:
        query = query.where(Job.kind == kind)
    if gnn_id is not None:
        query = query.where(Job.gnn_id == gnn_id)
    return page_of(session, query, Job, cursor, limit)


def _found(session: Session, job_id: str, tenant: str, *, lock: bool) -> Job:
    query = select(Job).where(Job.id == job_id, Job.tenant_id == tenant)
    if lock:
        query = query.with_for_update()
    job = session.scalar(query.execution_options(populate_existing=True))
    if job is None:
        raise NotFound("job", job_id)
    return job
