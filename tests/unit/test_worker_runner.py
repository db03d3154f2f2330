from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from sqlalchemy import update

from store import jobs
from store.jobs import JobKind, JobState
from store.opened import Store
from store.settings import Settings
from store.tables import Job
from worker.control import StopReason
from worker.failures import failure_of
from worker.loading import Library
from worker.runner import Runner
from worker.work import Handler, Outcome, Work

LEASE = 0.6
GRACE = 0.5


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    settings = Settings(
        data_dir=tmp_path,
        lease_seconds=LEASE,
        cancel_grace_seconds=GRACE,
        job_time_limit_seconds=30.0,
        max_attempts=2,
    )
    with Store.open(settings) as opened:
        yield opened


class Exits:
    """Stands for os._exit: remembers that the process would have ended."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.happened = threading.Event()

    def __call__(self, code: int) -> None:
        self.codes.append(code)
        self.happened.set()


def runner_for(store: Store, handler: Handler, exits: Exits | None = None) -> Runner:
    library = Library(store.artifacts, torch.device("cpu"))
    return Runner(store, library, {JobKind.PREDICT: handler}, "test", exit_process=exits or Exits())


def submit(store: Store) -> str:
    with store.database.transaction() as session:
        return jobs.submit(session, kind=JobKind.PREDICT).id


def job(store: Store, job_id: str) -> Job:
    with store.database.reading() as session:
        return jobs.get(session, job_id)


def in_thread(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def until_stopped(work: Work) -> Outcome:
    """A handler that works until it is asked to stop, and then does."""
    while not work.control.should_stop():
        time.sleep(0.01)
    work.control.raise_if_stopped()
    raise AssertionError("a stopped control raises")


def test_success_writes_result_and_record_together(store: Store) -> None:
    job_id = submit(store)

    def handler(work: Work) -> Outcome:
        work.control.progress("working", 3, 3, {"loss": 0.5})

        def record(session: object) -> None:
            assert work.claim.job_id == job_id

        return Outcome(result={"answer": 42}, record=record)

    runner_for(store, handler).run(job_id)
    done = job(store, job_id)
    assert done.state is JobState.SUCCEEDED
    assert done.result == {"answer": 42}
    # The last progress is never lost, however short the job was.
    assert done.progress == {"phase": "working", "step": 3, "total": 3, "metrics": {"loss": 0.5}}


def test_a_record_that_fails_leaves_no_success(store: Store) -> None:
    job_id = submit(store)

    def record(session: object) -> None:
        raise ValueError("the artifact is not what it should be")

    runner_for(store, lambda work: Outcome(record=record)).run(job_id)
    done = job(store, job_id)
    assert done.state is JobState.FAILED
    assert done.error is not None
    assert "artifact" in done.error["message"]


def test_a_second_delivery_does_nothing(store: Store) -> None:
    job_id = submit(store)
    runs = []

    def handler(work: Work) -> Outcome:
        runs.append(work.claim.attempt)
        return Outcome()

    runner = runner_for(store, handler)
    runner.run(job_id)
    runner.run(job_id)
    assert runs == [1]
    assert job(store, job_id).attempt == 1


def test_lease_is_renewed_while_the_handler_works(store: Store) -> None:
    job_id = submit(store)

    def handler(work: Work) -> Outcome:
        time.sleep(3 * LEASE)
        return Outcome()

    thread = in_thread(lambda: runner_for(store, handler).run(job_id))
    reaped = []
    while thread.is_alive():
        with store.database.transaction() as session:
            reaped += jobs.reap(session)
        time.sleep(0.05)
    thread.join()
    assert reaped == []
    assert job(store, job_id).state is JobState.SUCCEEDED


def test_a_running_job_is_canceled_between_two_steps(store: Store) -> None:
    job_id = submit(store)
    exits = Exits()
    thread = in_thread(lambda: runner_for(store, until_stopped, exits).run(job_id))
    wait_until(lambda: job(store, job_id).state is JobState.RUNNING)
    with store.database.transaction() as session:
        jobs.cancel(session, job_id)
    thread.join(timeout=5)
    assert not thread.is_alive()
    assert job(store, job_id).state is JobState.CANCELED
    assert exits.codes == []


def test_a_handler_that_does_not_stop_ends_with_its_process(store: Store) -> None:
    job_id = submit(store)
    exits = Exits()
    go_on = threading.Event()

    def handler(work: Work) -> Outcome:
        go_on.wait(20)
        return Outcome(result={"too": "late"})

    thread = in_thread(lambda: runner_for(store, handler, exits).run(job_id))
    wait_until(lambda: job(store, job_id).state is JobState.RUNNING)
    with store.database.transaction() as session:
        jobs.cancel(session, job_id)
    assert exits.happened.wait(10)
    assert job(store, job_id).state is JobState.CANCELED
    go_on.set()
    thread.join()
    # What the handler found after its end was refused.
    assert job(store, job_id).state is JobState.CANCELED
    assert job(store, job_id).result is None
    assert exits.codes == [1]


def test_a_lost_lease_forbids_every_write(store: Store) -> None:
    job_id = submit(store)
    stopped_for: list[StopReason | None] = []
    lost = threading.Event()

    def handler(work: Work) -> Outcome:
        lost.wait(10)
        while not work.control.should_stop():
            time.sleep(0.01)
        stopped_for.append(work.control.reason)
        return Outcome(result={"of": "attempt 1"})

    thread = in_thread(lambda: runner_for(store, handler).run(job_id))
    wait_until(lambda: job(store, job_id).state is JobState.RUNNING)
    with store.database.transaction() as session:
        # As if this worker had been paused for longer than its lease.
        session.execute(update(Job).values(lease_until=0.0))
        second = jobs.claim(session, job_id, "another worker", 60)
    assert second is not None
    lost.set()
    thread.join(timeout=5)
    assert stopped_for == [StopReason.LEASE_LOST]
    running = job(store, job_id)
    assert (running.state, running.attempt, running.result) == (JobState.RUNNING, 2, None)
    with store.database.transaction() as session:
        jobs.succeed(session, second, {"of": "attempt 2"})
    assert job(store, job_id).result == {"of": "attempt 2"}


def test_time_limit_expires_the_job(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, lease_seconds=LEASE, job_time_limit_seconds=0.3)
    with Store.open(settings) as store:
        job_id = submit(store)
        runner_for(store, until_stopped).run(job_id)
        done = job(store, job_id)
    assert done.state is JobState.EXPIRED
    assert done.error is not None
    assert done.error["type"] == "time_limit"


@pytest.mark.parametrize(
    ("error", "kind"),
    [(OSError("disk full"), "worker"), (MemoryError(), "out_of_memory")],
    ids=["disk", "memory"],
)
def test_passing_faults_are_tried_again_up_to_the_limit(
    store: Store, error: Exception, kind: str
) -> None:
    job_id = submit(store)

    def handler(work: Work) -> Outcome:
        raise error

    runner = runner_for(store, handler)
    runner.run(job_id)
    again = job(store, job_id)
    assert (again.state, again.attempt) == (JobState.QUEUED, 1)
    runner.run(job_id)
    failed = job(store, job_id)
    assert failed.state is JobState.FAILED
    assert failed.error is not None
    assert [attempt["type"] for attempt in failed.error["attempts"]] == [kind, kind]


def test_torch_without_memory_is_a_passing_fault() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    failure = failure_of(caught.value)
    assert (failure.kind, failure.retryable) == ("out_of_memory", True)


def test_wrong_input_fails_at_once_and_says_why(store: Store) -> None:
    job_id = submit(store)

    def handler(work: Work) -> Outcome:
        raise ValueError("class 7 was asked for; the GNN knows classes 0 to 2")

    runner_for(store, handler).run(job_id)
    failed = job(store, job_id)
    assert (failed.state, failed.attempt) == (JobState.FAILED, 1)
    assert failed.error is not None
    assert failed.error["message"] == "class 7 was asked for; the GNN knows classes 0 to 2"


def test_shutdown_gives_the_job_back_without_counting_the_attempt(store: Store) -> None:
    job_id = submit(store)
    runner = runner_for(store, until_stopped)
    thread = in_thread(lambda: runner.run(job_id))
    wait_until(lambda: job(store, job_id).state is JobState.RUNNING)
    runner.shut_down()
    thread.join(timeout=5)
    released = job(store, job_id)
    assert (released.state, released.attempts_used) == (JobState.QUEUED, 0)
    assert runner.is_idle
    # A message that still reaches this worker is handed on as well.
    runner.run(job_id)
    assert (job(store, job_id).state, job(store, job_id).attempts_used) == (JobState.QUEUED, 0)


def test_a_job_goes_on_from_its_newest_checkpoint(store: Store) -> None:
    job_id = submit(store)
    seen: list[tuple[int, bytes]] = []

    def handler(work: Work) -> Outcome:
        if work.claim.checkpoint is None:
            work.control.checkpoint(b"old", 1)
            work.control.checkpoint(b"new", 2)
            raise OSError("the disk is away")
        digest = work.claim.checkpoint["digest"]
        seen.append((work.claim.checkpoint["step"], store.artifacts.get(digest)))
        return Outcome()

    runner = runner_for(store, handler)
    runner.run(job_id)
    assert len(list(store.artifacts.listed())) == 1  # the older one was dropped
    runner.run(job_id)
    assert seen == [(2, b"new")]
    assert job(store, job_id).state is JobState.SUCCEEDED
    assert list(store.artifacts.listed()) == []


def test_progress_reaches_the_database_while_the_handler_works(store: Store) -> None:
    job_id = submit(store)
    seen = threading.Event()

    def handler(work: Work) -> Outcome:
        for step in range(10_000):
            work.control.progress("working", step, 10_000)
        seen.wait(5)
        return Outcome()

    thread = in_thread(lambda: runner_for(store, handler).run(job_id))
    wait_until(lambda: job(store, job_id).progress is not None)
    seen.set()
    thread.join()
    with store.database.reading() as session:
        events = jobs.events(session, job_id)
    written = [event.data["step"] for event in events if event.type == "progress"]
    assert written[-1] == 9_999
    assert len(written) <= 3  # throttled: not one write per step
