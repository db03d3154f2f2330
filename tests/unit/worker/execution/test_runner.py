from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from sqlalchemy import Connection, event, update

from d4explain.contracts.requests import DenoiserConfig
from d4explain.gnn.errors import RefusedError
from models.errors import UnknownClassError
from store import jobs
from store.artifacts.disk_space import DiskSpace
from store.database.tables import Job
from store.errors import LeaseLost
from store.jobs import JobKind, JobState, Queue
from store.settings import Settings
from store.store import Store
from worker.execution.control import Stopped, StopReason
from worker.execution.failures import failure_of
from worker.execution.handler_api import Handler, Outcome, Work
from worker.execution.runner import Runner
from worker.loading.library import Library

LEASE = 0.6
GRACE = 0.5
SLICE = 1.2


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


def runner_for(
    store: Store,
    handler: Handler,
    exits: Exits | None = None,
    *,
    ended: Callable[[Sequence[str]], None] = lambda job_ids: None,
    slice_seconds: float = 60.0,
    training_seconds: float = 60.0,
) -> Runner:
    return Runner(
        store,
        Library(store.artifacts, torch.device("cpu")),
        dict.fromkeys((JobKind.PREDICT, JobKind.COUNTERFACTUAL, JobKind.TRAIN), handler),
        "test",
        queues=[Queue.TRAIN, Queue.SAMPLE, Queue.LIGHT],
        exit_process=exits or Exits(),
        ended=ended,
        slice_seconds=slice_seconds,
        training_seconds=training_seconds,
    )


def submit(store: Store) -> str:
    with store.database.transaction() as session:
        return jobs.submit(session, kind=JobKind.PREDICT).id


def asked(store: Store, count: int, denoiser: str = "den_1", tenant: str = "default") -> list[str]:
    """Explanation jobs of one denoiser."""
    with store.database.transaction() as session:
        return [
            jobs.submit(
                session, kind=JobKind.COUNTERFACTUAL, denoiser_id=denoiser, tenant=tenant
            ).id
            for _ in range(count)
        ]


def states(store: Store, job_ids: Sequence[str]) -> list[JobState]:
    with store.database.reading() as session:
        return [session.get_one(Job, job_id).state for job_id in job_ids]


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
        raise RefusedError("the artifact is not what it should be")

    runner_for(store, lambda work: Outcome(record=record)).run(job_id)
    done = job(store, job_id)
    assert done.state is JobState.FAILED
    assert done.error is not None
    assert "artifact" in done.error["message"]


class Disk(DiskSpace):
    """As full as a test says; a refused write is forgotten at once."""

    def __init__(self) -> None:
        super().__init__({})
        self.words: str | None = None
        self.refusals = 0

    def shortage(self) -> str | None:
        return self.words

    def note_refusal(self) -> None:
        self.refusals += 1


def test_a_full_disk_costs_a_job_no_attempt(store: Store) -> None:
    disk = Disk()
    store = replace(store, disk=disk)
    job_id = submit(store)
    refusals: list[Exception] = [OSError(errno.ENOSPC, "No space left on device") for _ in range(4)]

    def handler(work: Work) -> Outcome:
        if refusals:
            raise refusals.pop()
        return Outcome(result={"answer": 42})

    runner = runner_for(store, handler)
    for _ in range(4):  # more often than the job has attempts
        runner.run(job_id)
        assert job(store, job_id).state is JobState.QUEUED
    assert disk.refusals == 4
    runner.run(job_id)
    done = job(store, job_id)
    assert done.state is JobState.SUCCEEDED
    assert done.attempts_used == 1


def test_no_job_is_begun_before_there_is_room(store: Store) -> None:
    disk = Disk()
    disk.words = "only 0.1 MiB are free for artifacts"
    store = replace(store, disk=disk)
    job_id = submit(store)
    thread = in_thread(lambda: runner_for(store, lambda work: Outcome()).run(job_id))
    time.sleep(0.3)
    assert job(store, job_id).state is JobState.QUEUED
    disk.words = None
    thread.join(timeout=10)
    assert job(store, job_id).state is JobState.SUCCEEDED


def test_a_worker_that_waits_for_room_can_be_shut_down(store: Store) -> None:
    disk = Disk()
    disk.words = "only 0.1 MiB are free for artifacts"
    store = replace(store, disk=disk)
    job_id = submit(store)
    runner = runner_for(store, lambda work: Outcome())
    thread = in_thread(lambda: runner.run(job_id))
    time.sleep(0.1)
    runner.shut_down()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert job(store, job_id).attempts_used == 0


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
        raise UnknownClassError(7, 3)

    runner_for(store, handler).run(job_id)
    failed = job(store, job_id)
    assert (failed.state, failed.attempt) == (JobState.FAILED, 1)
    assert failed.error is not None
    assert failed.error["type"] == "invalid"
    assert failed.error["message"] == "class 7 was asked for; the GNN knows classes 0 to 2"


@pytest.mark.parametrize("error", [ValueError("/srv/secret: bad magic"), KeyError("secret")])
def test_a_mistake_of_ours_is_not_blamed_on_the_caller(error: Exception) -> None:
    failure = failure_of(error)
    assert (failure.kind, failure.retryable) == ("internal", False)
    assert type(error).__name__ in failure.message
    assert "secret" not in failure.message


def test_an_invalid_stored_document_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValidationError) as caught:
        DenoiserConfig.model_validate({"steps": "many"})
    assert failure_of(caught.value).kind == "internal"


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


def test_jobs_of_one_denoiser_are_run_together_each_with_its_own_ending(store: Store) -> None:
    ids = asked(store, 5)
    others = asked(store, 2, denoiser="den_2") + asked(store, 2, tenant="somebody else")
    told: list[str] = []

    def handler(work: Work) -> Outcome:
        return Outcome(result={"job": work.claim.job_id, "attempt": work.claim.attempt})

    runner = runner_for(store, handler, ended=told.extend)
    runner.run(ids[2])  # one message
    for job_id in ids:
        assert job(store, job_id).state is JobState.SUCCEEDED
        assert job(store, job_id).result == {"job": job_id, "attempt": 1}
    assert sorted(told) == sorted(ids)
    assert states(store, others) == [JobState.QUEUED] * 4


def test_one_of_several_fails_alone(store: Store) -> None:
    ids = asked(store, 5)
    bad, unrecordable = ids[1], ids[3]

    def refuse(session: object) -> None:
        raise RefusedError("the artifact is not what it should be")

    def handler(work: Work) -> Outcome:
        if work.claim.job_id == bad:
            raise ValueError("the graph has no nodes")
        if work.claim.job_id == unrecordable:
            return Outcome(record=refuse)
        return Outcome()

    runner_for(store, handler).run(ids[0])
    failed = {job_id for job_id in ids if job(store, job_id).state is JobState.FAILED}
    assert failed == {bad, unrecordable}
    assert states(store, [ids[0], ids[2], ids[4]]) == [JobState.SUCCEEDED] * 3


def test_a_mate_that_waits_is_canceled_alone(store: Store) -> None:
    ids = asked(store, 4)
    begun: list[str] = []
    go_on = threading.Event()

    def handler(work: Work) -> Outcome:
        begun.append(work.claim.job_id)
        if len(begun) == 2:
            go_on.wait(10)
        return Outcome()

    exits = Exits()
    thread = in_thread(lambda: runner_for(store, handler, exits).run(ids[0]))
    wait_until(lambda: len(begun) == 2)
    waiting = next(job_id for job_id in ids if job_id not in begun)
    assert job(store, waiting).lease_owner == "test"  # it is reserved
    with store.database.transaction() as session:
        assert jobs.cancel(session, waiting).state is JobState.CANCELED  # though another one works
    go_on.set()
    thread.join(timeout=5)
    assert waiting not in begun
    assert sorted(states(store, ids)) == ["canceled"] + ["succeeded"] * 3
    assert exits.codes == []


def test_a_mate_whose_lease_is_lost_is_left_to_its_new_owner(store: Store) -> None:
    ids = asked(store, 3)
    begun: list[str] = []
    go_on = threading.Event()

    def handler(work: Work) -> Outcome:
        begun.append(work.claim.job_id)
        if len(begun) == 2:
            go_on.wait(10)
        return Outcome(result={"of": "the first owner"})

    thread = in_thread(lambda: runner_for(store, handler).run(ids[0]))
    wait_until(lambda: len(begun) == 2)
    lost = next(job_id for job_id in ids if job_id not in begun)
    with store.database.transaction() as session:
        session.execute(update(Job).where(Job.id == lost).values(lease_until=0.0))
        assert jobs.claim(session, lost, "another worker", 60) is not None
    go_on.set()
    thread.join(timeout=5)
    still = job(store, lost)
    assert (still.state, still.attempt, still.lease_owner) == ("running", 1, "another worker")
    assert sorted(states(store, ids)) == ["running", "succeeded", "succeeded"]


def test_one_job_of_a_slice_at_most_has_begun_and_not_ended(store: Store) -> None:
    ids = asked(store, 5)
    seen: list[list[str]] = []

    def handler(work: Work) -> Outcome:
        assert job(store, work.claim.job_id).attempt == work.claim.attempt
        seen.append(sorted(states(store, ids)))
        return Outcome()

    runner_for(store, handler).run(ids[0])
    assert seen == [["queued"] * (4 - n) + ["running"] + ["succeeded"] * n for n in range(5)]
    assert states(store, ids) == ["succeeded"] * 5


def test_mates_of_a_job_that_kills_its_process_are_not_charged(store: Store) -> None:
    ids = asked(store, 5)
    killer = ids[2]

    def handler(work: Work) -> Outcome:
        if work.claim.job_id == killer:  # as if the process had ended here
            with store.database.transaction() as session:
                session.execute(
                    update(Job).where(Job.lease_owner.is_not(None)).values(lease_until=0.0)
                )
                jobs.reap(session)
            raise LeaseLost(work.claim.job_id, work.claim.attempt)
        return Outcome()

    runner = runner_for(store, handler)
    for job_id in ids * 3:
        runner.run(job_id)
    ended = {job_id: job(store, job_id) for job_id in ids}
    assert (ended[killer].state, ended[killer].attempts_used) == (JobState.FAILED, 2)
    for job_id in set(ids) - {killer}:
        assert (ended[job_id].state, ended[job_id].attempt) == (JobState.SUCCEEDED, 1)
        assert ended[job_id].error is None


def test_shutdown_gives_all_of_them_back(store: Store) -> None:
    ids = asked(store, 4)
    begun: list[str] = []

    def handler(work: Work) -> Outcome:
        begun.append(work.claim.job_id)
        return Outcome() if len(begun) == 1 else until_stopped(work)

    runner = runner_for(store, handler)
    thread = in_thread(lambda: runner.run(ids[0]))
    wait_until(lambda: len(begun) == 2)
    runner.shut_down()
    thread.join(timeout=5)
    assert sorted(states(store, ids)) == ["queued"] * 3 + ["succeeded"]
    assert sum(job(store, job_id).attempts_used for job_id in ids) == 1


def test_mates_behind_a_job_that_takes_long_are_handed_to_others(store: Store) -> None:
    ids = asked(store, 4)
    begun: list[str] = []
    go_on = threading.Event()

    def handler(work: Work) -> Outcome:
        begun.append(work.claim.job_id)
        if len(begun) == 2:
            go_on.wait(20)
        return Outcome()

    thread = in_thread(lambda: runner_for(store, handler, slice_seconds=SLICE).run(ids[0]))
    wait_until(lambda: len(begun) == 2)
    # The first one's ending does not wait for the second job's end.
    wait_until(lambda: job(store, begun[0]).state is JobState.SUCCEEDED, 2)
    wait_until(lambda: [job(store, job_id).lease_owner for job_id in ids].count(None) == 3)
    assert states(store, ids).count(JobState.QUEUED) == 2
    assert job(store, begun[1]).state is JobState.RUNNING
    go_on.set()
    thread.join(timeout=5)
    assert len(begun) == 2


def test_a_slice_ends_however_many_jobs_wait(store: Store) -> None:
    ids = asked(store, 30)
    begun: list[str] = []

    def handler(work: Work) -> Outcome:
        begun.append(work.claim.job_id)
        time.sleep(SLICE / 6)
        return Outcome()

    started = time.monotonic()
    runner_for(store, handler, slice_seconds=SLICE).run(ids[0])
    assert time.monotonic() - started < 3 * SLICE
    assert len(begun) <= 8
    assert states(store, ids).count(JobState.QUEUED) == 30 - len(begun)


def test_another_tenants_job_comes_between_two_slices(store: Store) -> None:
    many = asked(store, 20)
    served: list[str] = []

    def handler(work: Work) -> Outcome:
        served.append(work.claim.tenant)
        if len(served) == 1:
            asked(store, 1, tenant="b")
        time.sleep(SLICE / 3)
        return Outcome()

    runner = runner_for(store, handler, slice_seconds=SLICE)
    runner.run(many[0])
    first = len(served)
    waiting = [job_id for job_id in many if job(store, job_id).state is JobState.QUEUED]
    runner.run(waiting[0])  # the message of b's job is still behind all others
    assert served[:first] == ["default"] * first
    assert served[first:] == ["b"] + ["default"] * (len(served) - first - 1)
    assert len(served) > first + 1  # and the announced one is run, too


def trainings(store: Store, *tenants: str) -> list[str]:
    with store.database.transaction() as session:
        return [
            jobs.submit(session, kind=JobKind.TRAIN, denoiser_id=f"den_{n}", tenant=tenant).id
            for n, tenant in enumerate(tenants)
        ]


def test_trainings_of_tenants_take_turns(store: Store) -> None:
    ids = trainings(store, "a", "a", "a", "b")
    served: list[str] = []

    def handler(work: Work) -> Outcome:
        served.append(work.claim.tenant)
        return Outcome()

    runner = runner_for(store, handler)
    for job_id in ids:  # messages come in the order of submission
        runner.run(job_id)
    assert served == ["a", "b", "a", "a"]


def test_the_message_of_a_short_job_begins_no_training(store: Store) -> None:
    (training,) = trainings(store, "a")
    short = submit(store)
    runner = runner_for(store, lambda work: Outcome())
    runner.run(short)
    assert states(store, [training, short]) == ["queued", "succeeded"]
    another = submit(store)
    runner.run(training)
    assert states(store, [training, another]) == ["succeeded", "queued"]


def test_a_job_that_can_be_resumed_makes_way_for_another_alone(store: Store) -> None:
    seen: list[bool] = []

    def handler(work: Work) -> Outcome:
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline and not work.control.should_yield():
            time.sleep(0.01)
        seen.append(work.control.should_yield())
        if seen[-1]:
            raise Stopped(StopReason.YIELDED)
        return Outcome()

    first, second = trainings(store, "default", "default")
    runner = runner_for(store, handler, training_seconds=0.1)
    runner.run(first)
    released = job(store, first)
    assert (released.state, released.attempt, released.attempts_used) == (JobState.QUEUED, 1, 0)
    runner.run(second)  # now the first one waits
    with store.database.transaction() as session:
        jobs.cancel(session, first)
    runner.run(second)  # and now nobody does
    assert seen == [True, True, False]
    assert job(store, second).state is JobState.SUCCEEDED


def test_a_message_of_a_job_that_is_done_costs_no_transaction(store: Store) -> None:
    ids = asked(store, 3)
    runner = runner_for(store, lambda work: Outcome())
    runner.run(ids[0])
    begun: list[str] = []

    def note(connection: Connection) -> None:
        begun.append(str(connection.get_execution_options().get("reading", False)))

    event.listen(store.database.engine, "begin", note)
    for job_id in ids:
        runner.run(job_id)
    assert begun == ["True"] * 3  # one read each
