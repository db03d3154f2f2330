"""Groups of waiting jobs that workers serve in turn: same tenant, kind and denoiser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind, Queue
from store.database.clock import now
from store.database.tables import Job
from store.jobs.claims import Claim, is_free, is_waiting


@dataclass(frozen=True)
class FairGroup:
    tenant: str
    kind: JobKind
    denoiser_id: str | None


@dataclass(frozen=True)
class Waiting:
    group: FairGroup
    job_id: str  # a job of the group that can be claimed
    seconds: float  # waiting time of the group's oldest job, by the database's clock


def group_of(session: Session, job_id: str) -> FairGroup | None:
    """The group of a job; None if the job cannot be claimed."""
    row = session.execute(
        select(Job.tenant_id, Job.kind, Job.denoiser_id).where(Job.id == job_id, *is_free())
    ).one_or_none()
    return None if row is None else FairGroup(row.tenant_id, row.kind, row.denoiser_id)


def waiting_groups(session: Session, queues: Sequence[Queue]) -> list[Waiting]:
    """All groups that have a claimable job in these queues, in no particular order."""
    rows = session.execute(
        select(
            Job.tenant_id,
            Job.kind,
            Job.denoiser_id,
            func.min(Job.id).label("job_id"),
            (now() - func.min(Job.created_at)).label("seconds"),
        )
        .where(Job.queue.in_(queues), *is_waiting())
        .group_by(Job.tenant_id, Job.kind, Job.denoiser_id)
    )
    return [
        Waiting(FairGroup(row.tenant_id, row.kind, row.denoiser_id), row.job_id, row.seconds)
        for row in rows
    ]


def is_another_waiting(session: Session, claim: Claim) -> bool:
    """Whether another job waits in the queue of a claimed job."""
    return bool(
        session.scalar(select(exists().where(Job.queue == claim.kind.queue, *is_waiting())))
    )
