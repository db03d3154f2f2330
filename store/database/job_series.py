"""The metrics of jobs, observed in the transactions that claim, recover and end them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import EventType, JobKind
from store.database import observations
from store.database.observations import Observation, Series, SeriesType
from store.database.tables import Job, JobEvent

JOB_SECONDS = Series(
    "d4_job_seconds",
    "Seconds of ended jobs by phase. waiting: until the trainings before it ended; queued: until "
    "a worker started it; running: from its first start to its end; the others are parts of the "
    "last attempt of succeeded jobs, `training` of all attempts.",
    SeriesType.HISTOGRAM,
    labels=("kind", "phase"),
    buckets=(
        *(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        *(60, 120, 300, 600, 1800, 3600),
    ),
)
JOB_CLAIMS = Series(
    "d4_job_claims", "Attempts that workers began.", SeriesType.COUNTER, labels=("kind",)
)
LEASE_LOSSES = Series(
    "d4_lease_losses",
    "Running jobs whose worker stopped sending heartbeats.",
    SeriesType.COUNTER,
    labels=("kind",),
)
# Only these wait for other jobs.
_WAITING_KINDS = frozenset({JobKind.COUNTERFACTUAL, JobKind.CLASS})


def note_claim(session: Session, job: Job) -> None:
    _count(session, JOB_CLAIMS, job)


def note_lease_loss(session: Session, job: Job) -> None:
    _count(session, LEASE_LOSSES, job)


def note_phases(session: Session, kind: JobKind, tenant: str, phases: Mapping[str, float]) -> None:
    """Seconds of the parts of a job, as its worker measured them."""
    observations.note(
        session,
        [
            Observation(JOB_SECONDS, tenant, (seconds,), (kind.value, phase))
            for phase, seconds in phases.items()
        ],
    )


def note_end(session: Session, job: Job) -> None:
    """Times of a job that ends in this transaction, by the database's clock."""
    if job.started_at is None or job.finished_at is None:
        return
    released = _released_at(session, job)
    phases = {
        "queued": job.started_at - (job.created_at if released is None else released),
        "running": job.finished_at - job.started_at,
    }
    if released is not None:
        phases["waiting"] = released - job.created_at
    note_phases(
        session,
        job.kind,
        job.tenant_id,
        {phase: max(0.0, seconds) for phase, seconds in phases.items()},
    )


def _released_at(session: Session, job: Job) -> float | None:
    """When the jobs that it waited for had ended; None if it waited for none."""
    if job.kind not in _WAITING_KINDS:
        return None
    states = session.execute(
        select(JobEvent.at, JobEvent.data)
        .where(JobEvent.job_id == job.id, JobEvent.type == EventType.STATE)
        .order_by(JobEvent.id)
    ).all()
    if not states or states[0].data.get("waiting_for") is None:
        return None
    return next((at for at, data in states if data.get("waiting_for") is None), None)


def _count(session: Session, series: Series, job: Job) -> None:
    observations.note(session, [Observation(series, job.tenant_id, (1.0,), (job.kind.value,))])
