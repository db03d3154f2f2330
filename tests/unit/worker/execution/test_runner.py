from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sqlalchemy import Connection, event, update

from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.gnn.errors import RefusedError
from models.errors import UnknownClassError
from store import jobs
from store.artifacts.disk_space import DiskSpace
from store.database.tables import Job
from store.errors import LeaseLost
from store.jobs import JobKind, JobState, Queue
from store.queue.cleanup import delete_released
from store.settings import Settings
from store.store import Store
from worker.execution.control import Stopped, StopReason
from worker.execution.handler_api import Handler, HandlerContext, HandlerOutput
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


class RecordedExits:
    """Replaces os._exit and records the exit codes."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.happened = threading.Event()

    def __call__(self, code: int) -> None:
        self.codes.append(code)
        self.happened.set()


def runner_for(
    store: Store,
    handler: Handler,
    exits: RecordedExits | None = None,
    *,
    on_ended: Callable[[Sequence[str]], None] = lambda job_ids: None,
    slice_seconds: float = 60.0,
    training_seconds: float = 60.0,
) -> Runner:
    return Runner(
        store,
        Library(store.artifacts, torch.device("cpu")),
        dict.fromkeys((JobKind.PREDICT, JobKind.COUNTERFACTUAL, JobKind.TRAIN), handler),
        "test",
        queues=[Queue.TRAIN, Queue.SAMPLE, Queue.LIGHT],
        exit_process=exits or RecordedExits(),
        on_ended=on_ended,
        slice_seconds=slice_seconds,
        training_seconds=training_seconds,
    )


def submit(store: Store) -> str:
    with store.database.transaction() as session:
        return jobs.submit(session, kind=JobKind.PREDICT, tenant=DEFAULT_TENANT).id


def submit_explanations(
    store: Store, count: int, denoiser: str = "den_1", tenant: str = "default"
) -> list[str]:
    """Submits explanation jobs of one denoiser."""
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
        return jobs.get(session, job_id, tenant=DEFAULT_TENANT)


def in_thread(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)


def until_stopped(context: HandlerContext) -> HandlerOutput:
    """A handler that runs until it is asked to stop."""
    while not context.control.should_stop():
        time.sleep(0.01)
    context.control.raise_if_stopped()
    raise AssertionError("a stopped control raises")


def test_success_writes_result_and_record_together(store: Store) -> None:
    job_id = submit(store)

    def handler(context: HandlerContext) -> HandlerOutput:
        context.control.progress("working", 3, 3, {"loss": 0.5})

        def record(session: object) -> None:
            assert context.claim.job_id == job_id

        return HandlerOutput(result={"answer": 42}, record=record)

    runner_for(store, handler).run(job_id)
    done = job(store, job_id)
    assert done.state is JobState.SUCCEEDED
    assert done.result == {"answer": 42}
    # The last progress is written even if the job is very short.
    assert done.progress == {"phase": "working", "step": 3, "total": 3, "metrics": {"loss": 0.5}}


def test_a_job_fails_if_its_result_cannot_be_recorded(store: Store) -> None:
    job_id = submit(store)

    def record(session: object) -> None:
        raise RefusedError("the artifact is not what it should be")

    runner_for(store, lambda context: HandlerOutput(record=record)).run(job_id)
    done = job(store, job_id)
    assert done.state is JobState.FAILED
    assert done.error is not None
    assert "artifact" in done.error["message"]


class Disk(DiskSpace):
    """A disk whose free space the test sets; forgets refused writes at once."""

    def __init__(self, free_mib: float = 100.0) -> None:
        super().__init__({})
        self.free_mib = free_mib
        self.refusals = 0

    def _free_bytes(self) -> dict[str, int]:
        return {"artifacts": int(self.free_mib * 2**20)}

    def note_refusal(self) -> None:
        self.refusals += 1


def test_a_full_disk_does_not_count_as_an_attempt(store: Store) -> None:
    disk = Disk()
    store = replace(store, disk=disk)
    job_id = submit(store)

    def handler(context: HandlerContext) -> HandlerOutput:
        if disk.refusals < 4:
            disk.free_mib = 0.1
            raise OSError(errno.ENOSPC, "No space left on device")
        return HandlerOutput(result={"answer": 42})

    runner = runner_for(store, handler)
    for refusals in range(1, 5):  # more than the job has attempts
        runner.run(job_id)
        assert job(store, job_id).state is JobState.QUEUED
        assert disk.refusals == refusals
        disk.free_mib = 100.0
    runner.run(job_id)
    done = job(store, job_id)
    assert done.state is JobState.SUCCEEDED
    assert done.attempts_used == 1


def test_a_job_that_never_fits_the_disk_fails_after_its_attempts(store: Store) -> None:
    store = replace(store, disk=Disk(free_mib=40.0))
    job_id = submit(store)

    def handler(context: HandlerContext) -> HandlerOutput:
        raise OSError(errno.ENOSPC, "No space left on device")

    runner = runner_for(store, handler)
    runner.run(job_id)
    assert job(store, job_id).state is JobState.QUEUED
    runner.run(job_id)
    failed = job(store, job_id)
    assert (failed.state, failed.attempts_used) == (JobState.FAILED, 2)
    assert failed.error is not None
    assert failed.error["type"] == "disk_full"
    assert failed.error["message"] == (
        "The disk is full: the job could not store its data. Now 40.0 MiB are free for artifacts."
    )


def test_no_job_starts_before_there_is_disk_space(store: Store) -> None:
    disk = Disk(free_mib=0.1)
    store = replace(store, disk=disk)
    job_id = submit(store)
    thread = in_thread(lambda: runner_for(store, lambda context: HandlerOutput()).run(job_id))
    time.sleep(0.3)
    assert job(store, job_id).state is JobState.QUEUED
    disk.free_mib = 100.0
    thread.join(timeout=10)
    assert job(store, job_id).state is JobState.SUCCEEDED


def test_a_worker_that_waits_for_disk_space_can_be_shut_down(store: Store) -> None:
    store = replace(store, disk=Disk(free_mib=0.1))
    job_id = submit(store)
    runner = runner_for(store, lambda context: HandlerOutput())
    thread = in_thread(lambda: runner.run(job_id))
    time.sleep(0.1)
    runner.shut_down()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert job(store, job_id).attempts_used == 0


def test_a_second_delivery_does_nothing(store: Store) -> None:
    job_id = submit(store)
    runs = []

    def handler(context: HandlerContext) -> HandlerOutput:
        runs.append(context.claim.attempt)
        return HandlerOutput()

    runner = runner_for(store, handler)
    runner.run(job_id)
    runner.run(job_id)
    assert runs == [1]
    assert job(store, job_id).attempt == 1


def test_lease_is_renewed_while_the_handler_works(store: Store) -> None:
    job_id = submit(store)

    def handler(context: HandlerContext) -> HandlerOutput:
        time.sleep(3 * LEASE)
        return HandlerOutput()

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
    exits = RecordedExits()
    thread = in_thread(lambda: runner_for(store, until_stopped, exits).run(job_id))
    wait_until(lambda: job(store, job_id).state is JobState.RUNNING)
    with store.database.transaction() as session:
        jobs.cancel(session, job_id, tenant=DEFAULT_TENANT)
    thread.join(timeout=5)
    assert not thread.is_alive()
    assert job(store, job_id).state is JobState.CANCELED
    assert exits.codes == []


def test_a_handler_that_does_not_stop_is_ended_with_its_process(store: Store) -> None:
    job_id = submit(store)
    exits = RecordedExits()
    proceed = threading.Event()

    def handler(context: HandlerContext) -> HandlerOutput:
        proceed.wait(20)
        return HandlerOutput(result={"too": "late"})

    thread = in_thread(lambda: runner_for(store, handler, exits).run(job_id))
    wait_until(lambda: job(store, job_id).state is JobState.RUNNING)
    with store.database.transaction() as session:
        jobs.cancel(session, job_id, tenant=DEFAULT_TENANT)
    assert exits.happened.wait(10)
    assert job(store, job_id).state is JobState.CANCELED
    proceed.set()
    thread.join()
    # The late result of the handler is refused.
    assert job(store, job_id).state is JobState.CANCELED
    assert job(store, job_id).result is None
    assert exits.codes == [1]


def test_a_lost_lease_forbids_every_write(store: Store) -> None:
    job_id = submit(store)
    stopped_for: list[StopReason | None] = []
    lost = threading.Event()

    def handler(context: HandlerContext) -> HandlerOutput:
        lost.wait(10)
        while not context.control.should_stop():
            time.sleep(0.01)
        stopped_for.append(context.control.reason)
        return HandlerOutput(result={"of": "attempt 1"})

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
def test_transient_errors_are_retried_up_to_the_limit(
    store: Store, error: Exception, kind: str
) -> None:
    job_id = submit(store)

    def handler(context: HandlerContext) -> HandlerOutput:
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


def test_invalid_input_fails_at_once_with_the_reason(store: Store) -> None:
    job_id = submit(store)

    def handler(context: HandlerContext) -> HandlerOutput:
        raise UnknownClassError(7, 3)

    runner_for(store, handler).run(job_id)
    failed = job(store, job_id)
    assert (failed.state, failed.attempt) == (JobState.FAILED, 1)
    assert failed.error is not None
    assert failed.error["type"] == "invalid"
    assert failed.error["message"] == "unknown class 7; the GNN has classes 0 to 2"


def test_shutdown_releases_the_job_without_counting_the_attempt(store: Store) -> None:
    job_id = submit(store)
    runner = runner_for(store, until_stopped)
    thread = in_thread(lambda: runner.run(job_id))
    wait_until(lambda: job(store, job_id).state is JobState.RUNNING)
    runner.shut_down()
    thread.join(timeout=5)
    released = job(store, job_id)
    assert (released.state, released.attempts_used) == (JobState.QUEUED, 0)
    assert runner.is_idle
    # A later message to this worker is released, too.
    runner.run(job_id)
    assert (job(store, job_id).state, job(store, job_id).attempts_used) == (JobState.QUEUED, 0)


def test_a_job_resumes_from_its_newest_checkpoint(store: Store) -> None:
    job_id = submit(store)
    seen: list[tuple[int, bytes]] = []

    def handler(context: HandlerContext) -> HandlerOutput:
        if context.claim.checkpoint is None:
            context.control.checkpoint(b"old", 1)
            context.control.checkpoint(b"new", 2)
            raise OSError("the disk is away")
        digest = context.claim.checkpoint["digest"]
        seen.append((context.claim.checkpoint["step"], store.artifacts.of("default").get(digest)))
        return HandlerOutput()

    runner = runner_for(store, handler)
    runner.run(job_id)
    delete_released(store.database, store.artifacts)
    assert len(list(store.artifacts.listed())) == 1  # the older checkpoint is deleted
    runner.run(job_id)
    assert seen == [(2, b"new")]
    assert job(store, job_id).state is JobState.SUCCEEDED
    delete_released(store.database, store.artifacts)
    assert list(store.artifacts.listed()) == []


def test_progress_reaches_the_database_while_the_handler_works(store: Store) -> None:
    job_id = submit(store)
    seen = threading.Event()

    def handler(context: HandlerContext) -> HandlerOutput:
        for step in range(10_000):
            context.control.progress("working", step, 10_000)
        seen.wait(5)
        return HandlerOutput()

    thread = in_thread(lambda: runner_for(store, handler).run(job_id))
    wait_until(lambda: job(store, job_id).progress is not None)
    seen.set()
    thread.join()
    with store.database.reading() as session:
        events = jobs.events(session, job_id, tenant=DEFAULT_TENANT)
    written = [event.data["step"] for event in events if event.type == "progress"]
    assert written[-1] == 9_999
    assert len(written) <= 3  # throttled: not one write per step


def test_one_message_runs_all_jobs_of_one_denoiser(store: Store) -> None:
    ids = submit_explanations(store, 5)
    others = submit_explanations(store, 2, denoiser="den_2") + submit_explanations(
        store, 2, tenant="another tenant"
    )
    notified: list[str] = []

    def handler(context: HandlerContext) -> HandlerOutput:
        return HandlerOutput(result={"job": context.claim.job_id, "attempt": context.claim.attempt})

    runner = runner_for(store, handler, on_ended=notified.extend)
    runner.run(ids[2])  # one message
    for job_id in ids:
        assert job(store, job_id).state is JobState.SUCCEEDED
        assert job(store, job_id).result == {"job": job_id, "attempt": 1}
    assert sorted(notified) == sorted(ids)
    assert states(store, others) == [JobState.QUEUED] * 4


def test_a_failing_job_does_not_affect_the_others(store: Store) -> None:
    ids = submit_explanations(store, 5)
    bad, unrecordable = ids[1], ids[3]

    def refuse(session: object) -> None:
        raise RefusedError("the artifact is not what it should be")

    def handler(context: HandlerContext) -> HandlerOutput:
        if context.claim.job_id == bad:
            raise ValueError("the graph has no nodes")
        if context.claim.job_id == unrecordable:
            return HandlerOutput(record=refuse)
        return HandlerOutput()

    runner_for(store, handler).run(ids[0])
    failed = {job_id for job_id in ids if job(store, job_id).state is JobState.FAILED}
    assert failed == {bad, unrecordable}
    assert states(store, [ids[0], ids[2], ids[4]]) == [JobState.SUCCEEDED] * 3


def test_a_reserved_job_can_be_canceled(store: Store) -> None:
    ids = submit_explanations(store, 4)
    started: list[str] = []
    proceed = threading.Event()

    def handler(context: HandlerContext) -> HandlerOutput:
        started.append(context.claim.job_id)
        if len(started) == 2:
            proceed.wait(10)
        return HandlerOutput()

    exits = RecordedExits()
    thread = in_thread(lambda: runner_for(store, handler, exits).run(ids[0]))
    wait_until(lambda: len(started) == 2)
    waiting = next(job_id for job_id in ids if job_id not in started)
    assert job(store, waiting).lease_owner == "test"  # it is reserved
    with store.database.transaction() as session:
        assert (
            jobs.cancel(session, waiting, tenant=DEFAULT_TENANT).state is JobState.CANCELED
        )  # although another job runs
    proceed.set()
    thread.join(timeout=5)
    assert waiting not in started
    assert sorted(states(store, ids)) == ["canceled"] + ["succeeded"] * 3
    assert exits.codes == []


def test_a_reserved_job_with_a_lost_lease_is_left_to_its_new_owner(store: Store) -> None:
    ids = submit_explanations(store, 3)
    started: list[str] = []
    proceed = threading.Event()

    def handler(context: HandlerContext) -> HandlerOutput:
        started.append(context.claim.job_id)
        if len(started) == 2:
            proceed.wait(10)
        return HandlerOutput(result={"of": "the first owner"})

    thread = in_thread(lambda: runner_for(store, handler).run(ids[0]))
    wait_until(lambda: len(started) == 2)
    lost = next(job_id for job_id in ids if job_id not in started)
    with store.database.transaction() as session:
        session.execute(update(Job).where(Job.id == lost).values(lease_until=0.0))
        assert jobs.claim(session, lost, "another worker", 60) is not None
    proceed.set()
    thread.join(timeout=5)
    still = job(store, lost)
    assert (still.state, still.attempt, still.lease_owner) == ("running", 1, "another worker")
    assert sorted(states(store, ids)) == ["running", "succeeded", "succeeded"]


def test_at_most_one_job_of_a_time_slice_is_running(store: Store) -> None:
    ids = submit_explanations(store, 5)
    seen: list[list[str]] = []

    def handler(context: HandlerContext) -> HandlerOutput:
        assert job(store, context.claim.job_id).attempt == context.claim.attempt
        seen.append(sorted(states(store, ids)))
        return HandlerOutput()

    runner_for(store, handler).run(ids[0])
    assert seen == [["queued"] * (4 - n) + ["running"] + ["succeeded"] * n for n in range(5)]
    assert states(store, ids) == ["succeeded"] * 5


def test_a_killed_process_costs_reserved_jobs_no_attempt(store: Store) -> None:
    ids = submit_explanations(store, 5)
    killer = ids[2]

    def handler(context: HandlerContext) -> HandlerOutput:
        if context.claim.job_id == killer:  # as if the process were killed here
            with store.database.transaction() as session:
                session.execute(
                    update(Job).where(Job.lease_owner.is_not(None)).values(lease_until=0.0)
                )
                jobs.reap(session)
            raise LeaseLost(context.claim.job_id, context.claim.attempt)
        return HandlerOutput()

    runner = runner_for(store, handler)
    for job_id in ids * 3:
        runner.run(job_id)
    ended = {job_id: job(store, job_id) for job_id in ids}
    assert (ended[killer].state, ended[killer].attempts_used) == (JobState.FAILED, 2)
    for job_id in set(ids) - {killer}:
        assert (ended[job_id].state, ended[job_id].attempt) == (JobState.SUCCEEDED, 1)
        assert ended[job_id].error is None


def test_shutdown_releases_all_claimed_jobs(store: Store) -> None:
    ids = submit_explanations(store, 4)
    started: list[str] = []

    def handler(context: HandlerContext) -> HandlerOutput:
        started.append(context.claim.job_id)
        return HandlerOutput() if len(started) == 1 else until_stopped(context)

    runner = runner_for(store, handler)
    thread = in_thread(lambda: runner.run(ids[0]))
    wait_until(lambda: len(started) == 2)
    runner.shut_down()
    thread.join(timeout=5)
    assert sorted(states(store, ids)) == ["queued"] * 3 + ["succeeded"]
    assert sum(job(store, job_id).attempts_used for job_id in ids) == 1


def test_reserved_jobs_behind_a_long_job_are_released(store: Store) -> None:
    ids = submit_explanations(store, 4)
    started: list[str] = []
    proceed = threading.Event()

    def handler(context: HandlerContext) -> HandlerOutput:
        started.append(context.claim.job_id)
        if len(started) == 2:
            proceed.wait(20)
        return HandlerOutput()

    thread = in_thread(lambda: runner_for(store, handler, slice_seconds=2 * SLICE).run(ids[0]))
    wait_until(lambda: len(started) == 2)
    # The ending of the first job is written while the second one runs.
    wait_until(lambda: job(store, started[0]).state is JobState.SUCCEEDED, 2)
    wait_until(lambda: [job(store, job_id).lease_owner for job_id in ids].count(None) == 3)
    assert states(store, ids).count(JobState.QUEUED) == 2
    assert job(store, started[1]).state is JobState.RUNNING
    proceed.set()
    thread.join(timeout=5)
    assert len(started) == 2


def test_a_time_slice_ends_although_jobs_wait(store: Store) -> None:
    ids = submit_explanations(store, 30)
    started: list[str] = []

    def handler(context: HandlerContext) -> HandlerOutput:
        started.append(context.claim.job_id)
        time.sleep(SLICE / 6)
        return HandlerOutput()

    before = time.monotonic()
    runner_for(store, handler, slice_seconds=SLICE).run(ids[0])
    assert time.monotonic() - before < 3 * SLICE
    assert len(started) <= 8
    assert states(store, ids).count(JobState.QUEUED) == 30 - len(started)


def test_another_tenants_job_runs_between_two_time_slices(store: Store) -> None:
    many = submit_explanations(store, 20)
    served: list[str] = []

    def handler(context: HandlerContext) -> HandlerOutput:
        served.append(context.claim.tenant)
        if len(served) == 1:
            submit_explanations(store, 1, tenant="b")
        time.sleep(SLICE / 3)
        return HandlerOutput()

    runner = runner_for(store, handler, slice_seconds=SLICE)
    runner.run(many[0])
    first = len(served)
    waiting = [job_id for job_id in many if job(store, job_id).state is JobState.QUEUED]
    runner.run(waiting[0])  # the message of tenant b's job is the last in the queue
    assert served[:first] == ["default"] * first
    assert served[first:] == ["b"] + ["default"] * (len(served) - first - 1)
    assert len(served) > first + 1  # the announced job runs, too


def trainings(store: Store, *tenants: str) -> list[str]:
    with store.database.transaction() as session:
        return [
            jobs.submit(session, kind=JobKind.TRAIN, denoiser_id=f"den_{n}", tenant=tenant).id
            for n, tenant in enumerate(tenants)
        ]


def test_trainings_of_tenants_alternate(store: Store) -> None:
    ids = trainings(store, "a", "a", "a", "b")
    served: list[str] = []

    def handler(context: HandlerContext) -> HandlerOutput:
        served.append(context.claim.tenant)
        return HandlerOutput()

    runner = runner_for(store, handler)
    for job_id in ids:  # messages arrive in the order of submission
        runner.run(job_id)
    assert served == ["a", "b", "a", "a"]


def test_the_message_of_a_short_job_starts_no_training(store: Store) -> None:
    (training,) = trainings(store, "a")
    short = submit(store)
    runner = runner_for(store, lambda context: HandlerOutput())
    runner.run(short)
    assert states(store, [training, short]) == ["queued", "succeeded"]
    another = submit(store)
    runner.run(training)
    assert states(store, [training, another]) == ["succeeded", "queued"]


def test_a_resumable_job_yields_only_if_another_waits(store: Store) -> None:
    seen: list[bool] = []

    def handler(context: HandlerContext) -> HandlerOutput:
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline and not context.control.should_yield():
            time.sleep(0.01)
        seen.append(context.control.should_yield())
        if seen[-1]:
            raise Stopped(StopReason.YIELDED)
        return HandlerOutput()

    first, second = trainings(store, "default", "default")
    runner = runner_for(store, handler, training_seconds=0.1)
    runner.run(first)
    released = job(store, first)
    assert (released.state, released.attempt, released.attempts_used) == (JobState.QUEUED, 1, 0)
    runner.run(second)  # now the first job waits
    with store.database.transaction() as session:
        jobs.cancel(session, first, tenant=DEFAULT_TENANT)
    runner.run(second)  # now no job waits
    assert seen == [True, True, False]
    assert job(store, second).state is JobState.SUCCEEDED


def test_the_message_of_a_finished_job_needs_no_write_transaction(store: Store) -> None:
    ids = submit_explanations(store, 3)
    runner = runner_for(store, lambda context: HandlerOutput())
    runner.run(ids[0])
    transactions: list[str] = []

    def note(connection: Connection) -> None:
        transactions.append(str(connection.get_execution_options().get("reading", False)))

    event.listen(store.database.engine, "begin", note)
    for job_id in ids:
        runner.run(job_id)
    assert transactions == ["True"] * 3  # one read each
