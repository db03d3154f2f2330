"""Estimates when jobs will end, from their progress and from what runs before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobState, Queue
from store.database.tables import Job
from store.jobs import workers

_LIVE = (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True)
class TrainingQueue:
    """All trainings that have not ended, and the workers that serve them."""

    jobs: Mapping[str, Job] = field(default_factory=dict)  # by id
    worker_count: int = 0

    @classmethod
    def read(cls, session: Session) -> TrainingQueue:
        """Reads everything in one query, so that a page of jobs needs no more than one job."""
        serving = select(func.count()).where(*workers.serve(Queue.TRAIN)).scalar_subquery()
        live = select(Job, serving).where(Job.queue == Queue.TRAIN, Job.state.in_(_LIVE))
        rows = session.execute(live).all()
        return cls({job.id: job for job, _ in rows}, rows[0][1] if rows else 0)

    def awaited_by(self, job: Job) -> list[Job]:
        """The trainings that a job waits for."""
        ids = (job.waiting_for, job.also_waiting_for)
        return [self.jobs[id_] for id_ in ids if id_ is not None and id_ in self.jobs]

    def seconds_left(self, job: Job) -> float | None:
        """Until the job has ended, if nothing newer comes before it; None if unknown.

        Trainings share the workers of their queue, also with older trainings for other GNNs. They
        end after the work of all of these over the number of workers, but not before the longest
        one that the job waits for. Those that stop early end sooner.
        """
        own = work_left(job)
        trainings = self.awaited_by(job)
        if not trainings or own is None:
            return own
        left = {id_: work_left(training) for id_, training in self.jobs.items()}
        longest = [left[training.id] for training in trainings]
        known = [seconds for seconds in longest if seconds is not None]
        if len(known) < len(longest):
            return None
        newest = max(training.created_at for training in trainings)
        work = sum(left[id_] or 0.0 for id_, one in self.jobs.items() if one.created_at <= newest)
        return max(*known, work / max(1, self.worker_count)) + own


def work_left(job: Job) -> float | None:
    """Seconds of work that a job still needs: as it reports, or as estimated; None if unknown."""
    if job.state.is_terminal:
        return 0.0
    reported = ((job.progress or {}).get("metrics") or {}).get("eta_seconds")
    return float(reported) if isinstance(reported, int | float) else job.estimated_seconds
