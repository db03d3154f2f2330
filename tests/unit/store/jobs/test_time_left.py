"""Estimates of the time left, against closed forms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind
from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from store.database.sessions import Database
from store.database.tables import Job
from store.jobs import TrainingQueue, workers
from tests.store_rows import claim_job


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    with database.transaction() as opened:
        yield opened


def training(session: Session, seconds: float | None, kind: JobKind = JobKind.TRAIN) -> Job:
    return jobs.submit(session, kind=kind, estimated_seconds=seconds, tenant=DEFAULT_TENANT)


def waiting(session: Session, *trainings: Job, seconds: float | None = 1.0) -> Job:
    one, other = (*[job.id for job in trainings], None, None)[:2]
    return jobs.submit(
        session,
        kind=JobKind.COUNTERFACTUAL,
        waiting_for=one,
        also_waiting_for=other,
        estimated_seconds=seconds,
        tenant=DEFAULT_TENANT,
    )


def serve(session: Session, *queues: str) -> None:
    for number, queue in enumerate(queues):
        workers.beat(session, name=f"w{number}", queues=queue.split(","), device="cpu", pid=number)


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ((), 91.0),  # one after the other, once there is a worker
        (("train", "sample,light"), 91.0),
        (("train", "train"), 61.0),  # side by side: the longer one
        (("train,sample", "sample,train,light", "train"), 61.0),
    ],
)
def test_trainings_share_the_workers_of_their_queue(
    session: Session, queues: tuple[str, ...], expected: float
) -> None:
    serve(session, *queues)
    job = waiting(session, training(session, 60.0), training(session, 30.0, JobKind.WITNESSES))
    queue = TrainingQueue.read(session)
    assert {one.kind for one in queue.awaited_by(job)} == {JobKind.TRAIN, JobKind.WITNESSES}
    assert queue.seconds_left(job) == pytest.approx(expected)


def test_older_trainings_come_first_and_newer_ones_do_not(session: Session) -> None:
    serve(session, "train")
    older = training(session, 100.0)
    own = training(session, 10.0)
    own.created_at = older.created_at + 1
    newer = training(session, 1000.0)
    newer.created_at = older.created_at + 2
    session.flush()
    job = waiting(session, own)
    assert TrainingQueue.read(session).seconds_left(job) == pytest.approx(111.0)


def test_a_running_training_reports_its_own_estimate(session: Session) -> None:
    own = training(session, 100.0)
    job = waiting(session, own)
    claim = claim_job(session, own.id)
    jobs.record_progress(session, claim, {"phase": "training", "metrics": {"eta_seconds": 7.0}})
    assert TrainingQueue.read(session).seconds_left(job) == pytest.approx(8.0)


def test_the_time_left_is_unknown_if_a_part_of_it_is(session: Session) -> None:
    unknown = training(session, None)
    queue = TrainingQueue.read(session)
    assert queue.seconds_left(waiting(session, unknown)) is None
    assert queue.seconds_left(waiting(session, training(session, 5.0), seconds=None)) is None


def test_a_job_that_waits_for_nothing_has_its_own_work(session: Session) -> None:
    job = waiting(session, seconds=3.0)
    assert TrainingQueue().seconds_left(job) == 3.0
    assert TrainingQueue().awaited_by(job) == []
