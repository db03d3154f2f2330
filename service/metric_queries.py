"""Numbers about the whole deployment, read from the database when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind, JobState, Queue
from store.database import job_totals
from store.database.tables import Job, Worker
from store.jobs import workers

# An index begins with the state, so that this costs nothing for the many that have ended.
_IS_LIVE = Job.state.in_((JobState.QUEUED, JobState.RUNNING))


@dataclass(frozen=True)
class QueueCounts:
    queued: int  # ready to run
    waiting: int  # queued behind a training
    running: int


def jobs_by_kind_and_state(session: Session) -> dict[tuple[JobKind, JobState], int]:
    """All jobs there ever were; combinations without a job are 0.

    Only jobs that have not ended are looked at; of the others there are totals.
    """
    found = {(kind, state): 0 for kind in JobKind for state in JobState}
    found |= job_totals.read(session)
    rows = session.execute(
        select(Job.kind, Job.state, func.count()).where(_IS_LIVE).group_by(Job.kind, Job.state)
    )
    for kind, state, count in rows:
        found[kind, state] = count
    return found


def queues(session: Session) -> dict[Queue, QueueCounts]:
    waits = case((Job.waiting_for.is_not(None), 1), else_=0)
    rows = session.execute(
        select(Job.queue, Job.state, waits, func.count())
        .where(_IS_LIVE)
        .group_by(Job.queue, Job.state, waits)
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


def live_workers(session: Session) -> list[Worker]:
    return workers.live(session)


def served_queues(alive: list[Worker]) -> dict[Queue, int]:
    """How many live workers serve each queue."""
    listed = [worker.queues.split(",") for worker in alive]
    return {queue: sum(queue.value in served for served in listed) for queue in Queue}
