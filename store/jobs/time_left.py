"""Estimates when jobs will end, from their progress and from what runs before them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobState, Queue
from store.database.sessions import read_clock
from store.database.tables import Job
from store.jobs import workers

_MIN_SECONDS = 1.0  # of a job that should have ended already
_LIVE = (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True)
class AwaitedTraining:
    """A training that another job waits for."""

    job: Job
    seconds_left: float | None  # of its own work; None if unknown


@dataclass(frozen=True)
class Outlook:
    """The trainings that a job still waits for, and when it will have ended."""

    trainings: tuple[AwaitedTraining, ...] = ()
    seconds_left: float | None = None  # None if unknown


def outlook(session: Session, job: Job) -> Outlook:
    """What a job that has not ended waits for; its own work comes after the trainings."""
    own = work_left(job, read_clock(session))
    return with_own_work(training_outlook(session, job), own)


def with_own_work(trainings: Outlook, own: float | None) -> Outlook:
    if trainings.seconds_left is None or own is None:
        return replace(trainings, seconds_left=None)
    return replace(trainings, seconds_left=trainings.seconds_left + own)


def training_outlook(session: Session, job: Job) -> Outlook:
    """The trainings that a job waits for, and when all of them will have ended.

    Trainings share the workers of their queue, also with older trainings for other GNNs. The
    estimate is the work of all of these over the number of workers, but at least the longest one
    that the job waits for. Trainings that stop early end sooner.
    """
    ids = [id_ for id_ in (job.waiting_for, job.also_waiting_for) if id_ is not None]
    if not ids:
        return Outlook(seconds_left=0.0)
    at = read_clock(session)
    rows = session.scalars(select(Job).where(Job.id.in_(ids)).order_by(Job.kind))
    trainings = tuple(AwaitedTraining(row, work_left(row, at)) for row in rows)
    known = [each.seconds_left for each in trainings if each.seconds_left is not None]
    if len(known) < len(ids):
        return Outlook(trainings)
    newest = max(each.job.created_at for each in trainings)
    is_before = (Job.queue == Queue.TRAIN, Job.state.in_(_LIVE), Job.created_at <= newest)
    work = sum(work_left(row, at) or 0.0 for row in session.scalars(select(Job).where(*is_before)))
    serving = [worker for worker in workers.live(session) if "train" in worker.queues.split(",")]
    return Outlook(trainings, max(*known, work / max(1, len(serving))))


def work_left(job: Job, at: float) -> float | None:
    """Seconds of work that a job still needs; None if unknown."""
    if job.state.is_terminal:
        return 0.0
    reported = ((job.progress or {}).get("metrics") or {}).get("eta_seconds")
    if isinstance(reported, int | float):
        return float(reported)
    if job.estimated_seconds is None or job.state is JobState.QUEUED or job.started_at is None:
        return job.estimated_seconds
    return max(_MIN_SECONDS, job.estimated_seconds - (at - job.started_at))
