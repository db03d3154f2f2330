"""Who waits for a worker: jobs of one tenant that need the same thing are one party."""

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
    party: FairGroup
    job_id: str  # one of its jobs that can be claimed
    seconds: float  # that its oldest job has waited, by the database's clock


def group_of(session: Session, job_id: str) -> FairGroup | None:
    """Of a job that can be claimed; None for a duplicate, a waiting or an ended job."""
    row = session.execute(
        select(Job.tenant_id, Job.kind, Job.denoiser_id).where(Job.id == job_id, *is_free())
    ).one_or_none()
    return None if row is None else FairGroup(row.tenant_id, row.kind, row.denoiser_id)


def waiting_groups(session: Session, queues: Sequence[Queue]) -> list[Waiting]:
    """All parties with a job that can be claimed in these queues, in no order."""
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
    """Whether a job waits in the queue that a claimed one came from."""
    return bool(
        session.scalar(select(exists().where(Job.queue == claim.kind.queue, *is_waiting())))
    )
