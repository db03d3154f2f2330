"""Counts jobs and workers for `/metrics` and `/readyz`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind, JobState, Queue
from d4explain.contracts.webhooks import DeliveryState
from store.database import job_totals
from store.database.clock import now
from store.database.tables import Job, Worker
from store.database.tables.webhooks import WebhookDelivery
from store.jobs import workers

# An index starts with the state, so ended jobs cost nothing.
_IS_LIVE = Job.state.in_((JobState.QUEUED, JobState.RUNNING))


@dataclass(frozen=True)
class QueueCounts:
    queued: int  # ready to run
    waiting: int  # queued until a training ends
    running: int


def jobs_by_kind_and_state(
    session: Session, tenant: str | None = None
) -> dict[tuple[JobKind, JobState], int]:
    """Counts of all jobs ever submitted, including zeros; of all tenants if none is given.

    Counts live jobs; totals of ended jobs are stored.
    """
    counts = {(kind, state): 0 for kind in JobKind for state in JobState}
    counts |= job_totals.read(session, tenant)
    rows = session.execute(
        select(Job.kind, Job.state, func.count())
        .where(_IS_LIVE, *_of(tenant))
        .group_by(Job.kind, Job.state)
    )
    for kind, state, count in rows:
        counts[kind, state] = count
    return counts


def queue_counts(session: Session, tenant: str | None = None) -> dict[Queue, QueueCounts]:
    is_waiting = case((Job.is_blocked, 1), else_=0)
    rows = session.execute(
        select(Job.queue, Job.state, is_waiting, func.count())
        .where(_IS_LIVE, *_of(tenant))
        .group_by(Job.queue, Job.state, is_waiting)
    )
    counts = {(queue, state, bool(wait)): count for queue, state, wait, count in rows}
    return {
        queue: QueueCounts(
            queued=counts.get((queue, JobState.QUEUED, False), 0),
            waiting=counts.get((queue, JobState.QUEUED, True), 0),
            running=sum(counts.get((queue, JobState.RUNNING, wait), 0) for wait in (True, False)),
        )
        for queue in Queue
    }


def queue_ages(session: Session, tenant: str | None = None) -> dict[Queue, float]:
    """Seconds since the oldest job that is ready to run was submitted; 0 for an empty queue."""
    rows = session.execute(
        select(Job.queue, now() - func.min(Job.created_at))
        .where(Job.state == JobState.QUEUED, ~Job.is_blocked, *_of(tenant))
        .group_by(Job.queue)
    )
    ages = {queue: max(0.0, float(age)) for queue, age in rows}
    return {queue: ages.get(queue, 0.0) for queue in Queue}


def _of(tenant: str | None) -> tuple[ColumnElement[bool], ...]:
    return () if tenant is None else (Job.tenant_id == tenant,)


def deliveries_by_state(session: Session) -> dict[DeliveryState, int]:
    """Notifications that were not delivered: those that wait, and those given up lately."""
    shown = (DeliveryState.PENDING, DeliveryState.GIVEN_UP)
    state = WebhookDelivery.state
    query = select(state, func.count()).where(state.in_(shown)).group_by(state)
    counts: dict[DeliveryState, int] = dict.fromkeys(shown, 0)
    counts.update((row[0], row[1]) for row in session.execute(query))
    return counts


@dataclass(frozen=True)
class UnknownFormat:
    """Queued jobs that no live worker of their queue can read."""

    queue: Queue
    format: int
    count: int
    newest_known: int


def unknown_formats(session: Session, live: list[Worker]) -> list[UnknownFormat]:
    """Queues without any worker are left out: they have another problem."""
    known = {
        queue: max(worker.job_format for worker in live if queue in worker.queues.split(","))
        for queue, count in served_queues(live).items()
        if count
    }
    rows = session.execute(
        select(Job.queue, Job.format, func.count())
        .where(Job.state == JobState.QUEUED, ~Job.is_blocked)
        .group_by(Job.queue, Job.format)
        .order_by(Job.queue, Job.format)
    )
    return [
        UnknownFormat(queue, format_, count, known[queue])
        for queue, format_, count in rows
        if queue in known and format_ > known[queue]
    ]


def live_workers(session: Session) -> list[Worker]:
    return workers.live(session)


def served_queues(live: list[Worker]) -> dict[Queue, int]:
    """Number of live workers per queue."""
    queues_by_worker = [worker.queues.split(",") for worker in live]
    return {queue: sum(queue.value in queues for queues in queues_by_worker) for queue in Queue}
