from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from store import jobs
from store.catalogue import retries
from store.database.job_policy import JobPolicy
from store.database.sessions import Database, now, read_clock
from store.errors import Conflict, LeaseLost, NotFound
from store.jobs import Claim, FairGroup, Job, JobKind, JobState, Priority, Queue
from store.jobs.job_events import delete_progress


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migrated") / "test.sqlite"
    database = Database(f"sqlite:///{path}")
    database.migrate()
    database.close()
    return path


@pytest.fixture
def database(tmp_path: Path, migrated: Path) -> Iterator[Database]:
    shutil.copy(migrated, tmp_path)
    database = Database(f"sqlite:///{tmp_path / migrated.name}", policy=JobPolicy(max_attempts=3))
    yield database
    database.close()


def submitted(database: Database, waiting_for: str | None = None) -> str:
    with database.transaction() as session:
        return jobs.submit(
            session, kind=JobKind.PREDICT, gnn_id="gnn_1", seed=5, waiting_for=waiting_for
        ).id


def claimed(database: Database, job_id: str, lease_seconds: float = 60) -> Claim:
    with database.transaction() as session:
        claim = jobs.claim(session, job_id, "worker", lease_seconds)
    assert claim is not None
    return claim


def seen(database: Database, job_id: str) -> Job:
    with database.reading() as session:
        return jobs.get(session, job_id)


def states(database: Database, job_id: str) -> list[str]:
    with database.reading() as session:
        events = jobs.events(session, job_id)
    return [event.data["state"] for event in events if event.type == "state"]


def reaped(database: Database) -> list[str]:
    with database.transaction() as session:
        return jobs.reap(session)


def test_a_job_runs_once_and_its_story_is_told(database: Database) -> None:
    job_id = submitted(database)
    job = seen(database, job_id)
    assert (job.state, job.queue, job.attempt, job.seed) == ("queued", "light", 0, 5)
    claim = claimed(database, job_id)
    assert (claim.attempt, claim.gnn_id, claim.seed) == (1, "gnn_1", 5)
    with database.transaction() as session:
        jobs.record_progress(session, claim, {"phase": "predict", "step": 1, "total": 2})
        jobs.succeed(session, claim, {"answer": 42})
    job = seen(database, job_id)
    assert (job.state, job.result, job.error) == ("succeeded", {"answer": 42}, None)
    assert job.created_at <= job.started_at <= job.finished_at  # type: ignore[operator]
    assert states(database, job_id) == ["queued", "running", "succeeded"]
    with database.reading() as session:
        first, *others = jobs.events(session, job_id, limit=2)
        later = jobs.events(session, job_id, after=first.id)
    assert [event.type for event in later] == ["state", "progress", "state"]
    assert others[0].id == later[0].id


def test_of_many_claims_one_wins(database: Database) -> None:
    ids = [submitted(database) for _ in range(5)]

    def claim(turn: int) -> str | None:
        with database.transaction() as session:
            won = jobs.claim(session, ids[turn % 5], f"worker {turn}", 60)
        return won.job_id if won else None

    with ThreadPoolExecutor(8) as pool:
        won = [job_id for job_id in pool.map(claim, range(40)) if job_id]
    assert sorted(won) == sorted(ids)


def test_ids_unknown_or_of_another_tenant_are_not_found(database: Database) -> None:
    job_id = submitted(database)
    with database.transaction() as session:
        for use in (jobs.get, jobs.cancel, retries.retry):
            with pytest.raises(NotFound):
                use(session, "job_unknown")
            with pytest.raises(NotFound):
                use(session, job_id, tenant="another")
        assert jobs.claim(session, "job_unknown", "worker", 60) is None
        assert jobs.page(session, tenant="another").items == []


def test_an_abandoned_job_goes_to_the_next_worker_and_the_first_is_fenced_off(
    database: Database,
) -> None:
    job_id = submitted(database)
    first = claimed(database, job_id, lease_seconds=-1)
    second = claimed(database, job_id)
    assert second.attempt == 2
    with database.transaction() as session:
        assert not jobs.heartbeat(session, [first], 60)[0].held
        late: list[Callable[[], None]] = [
            lambda: jobs.succeed(session, first, {"by": "first"}),
            lambda: jobs.fail(session, first, "Error", "late", retryable=True),
            lambda: jobs.fail(session, first, "Error", "late", retryable=False),
            lambda: jobs.release(session, first),
            lambda: jobs.expire(session, first),
            lambda: jobs.cancel_running(session, first),
            lambda: jobs.record_progress(session, first, {"step": 1}),
            lambda: jobs.record_checkpoint(session, first, "0" * 64, 1),
        ]
        for write in late:
            with pytest.raises(LeaseLost):
                write()
    with database.transaction() as session:
        jobs.succeed(session, second, {"by": "second"})
    job = seen(database, job_id)
    assert (job.result, job.checkpoint, job.progress) == ({"by": "second"}, None, None)
    assert states(database, job_id) == ["queued", "running", "running", "succeeded"]


def test_a_heartbeat_keeps_the_job(database: Database) -> None:
    job_id = submitted(database)
    claim = claimed(database, job_id, lease_seconds=-1)
    with database.transaction() as session:
        (beat,) = jobs.heartbeat(session, [claim], 60)
    assert beat == jobs.Beat(held=True, cancel_requested=False)
    assert reaped(database) == []


def test_silent_workers_lose_their_jobs_until_attempts_run_out(database: Database) -> None:
    job_id = submitted(database)
    for attempt in (1, 2):
        assert claimed(database, job_id, lease_seconds=-1).attempt == attempt
        assert reaped(database) == [job_id]
        job = seen(database, job_id)
        assert (job.state, job.priority) == ("queued", Priority.RECOVERED)
        assert due(database) == [job_id]
    claimed(database, job_id, lease_seconds=-1)
    with database.transaction() as session:
        assert jobs.claim(session, job_id, "worker", 60) is None  # no fourth attempt
    assert reaped(database) == [job_id]
    job = seen(database, job_id)
    assert job.state is JobState.FAILED
    assert job.error is not None
    assert job.error["type"] == "lease_expired"
    assert [reason["attempt"] for reason in job.error["attempts"]] == [1, 2, 3]
    assert reaped(database) == []


def test_failures_are_retried_while_it_helps(database: Database) -> None:
    job_id = submitted(database)
    for attempt in (1, 2, 3):
        claim = claimed(database, job_id)
        with database.transaction() as session:
            jobs.fail(session, claim, "OutOfMemory", f"try {attempt} \0", retryable=True)
    job = seen(database, job_id)
    assert job.state is JobState.FAILED
    assert job.error is not None
    assert [r["message"] for r in job.error["attempts"]] == [f"try {i} �" for i in (1, 2, 3)]

    hopeless = submitted(database)
    with database.transaction() as session:
        claim = claimed_in(session, hopeless)
        jobs.fail(session, claim, "InvalidInput", "never", retryable=False)
    assert seen(database, hopeless).state is JobState.FAILED


def claimed_in(session: Session, job_id: str) -> Claim:
    claim = jobs.claim(session, job_id, "worker", 60)
    assert claim is not None
    return claim


def test_giving_up_voluntarily_is_no_attempt(database: Database) -> None:
    job_id = submitted(database)
    numbers = []
    for _ in range(5):
        claim = claimed(database, job_id)
        numbers.append(claim.attempt)
        with database.transaction() as session:
            jobs.record_checkpoint(session, claim, "c" * 64, claim.attempt)
            jobs.release(session, claim)
    assert numbers == [1, 2, 3, 4, 5]  # fencing numbers are not reused
    job = seen(database, job_id)
    assert (job.state, job.attempts_used) == ("queued", 0)
    assert claimed(database, job_id).checkpoint == {"digest": "c" * 64, "step": 5}


def test_a_job_that_takes_too_long_expires(database: Database) -> None:
    claim = claimed(database, submitted(database))
    with database.transaction() as session:
        jobs.expire(session, claim)
    job = seen(database, claim.job_id)
    assert job.state is JobState.EXPIRED
    assert job.error is not None
    assert job.error["type"] == "time_limit"


def test_queued_jobs_are_canceled_at_once(database: Database) -> None:
    job_id = submitted(database)
    with database.transaction() as session:
        assert jobs.cancel(session, job_id).state is JobState.CANCELED
    with database.transaction() as session:
        assert jobs.claim(session, job_id, "worker", 60) is None
        with pytest.raises(Conflict, match="canceled"):
            jobs.cancel(session, job_id)
    assert due(database) == []


def test_running_jobs_are_asked_to_stop(database: Database) -> None:
    claim = claimed(database, submitted(database))
    with database.transaction() as session:
        assert jobs.cancel(session, claim.job_id).state is JobState.RUNNING
        assert jobs.cancel(session, claim.job_id).cancel_requested  # asking twice is fine
        assert jobs.heartbeat(session, [claim], 60)[0].cancel_requested
        jobs.cancel_running(session, claim)
    assert states(database, claim.job_id) == ["queued", "running", "running", "canceled"]


@pytest.mark.parametrize("how", ["silence", "failure", "release"])
def test_a_job_asked_to_stop_is_never_queued_again(database: Database, how: str) -> None:
    claim = claimed(database, submitted(database), lease_seconds=-1)
    with database.transaction() as session:
        jobs.cancel(session, claim.job_id)
    with database.transaction() as session:
        if how == "silence":
            jobs.reap(session)
        elif how == "failure":
            jobs.fail(session, claim, "Error", "boom", retryable=True)
        else:
            jobs.release(session, claim)
    assert seen(database, claim.job_id).state is JobState.CANCELED


def test_waiters_run_when_what_they_wait_for_succeeded(database: Database) -> None:
    first = submitted(database)
    waiters = [submitted(database, waiting_for=first) for _ in range(2)]
    with database.transaction() as session:
        assert jobs.claim(session, waiters[0], "worker", 60) is None
    assert due(database) == [first]
    claim = claimed(database, first)
    with database.transaction() as session:
        jobs.succeed(session, claim)
    for waiter in waiters:
        job = seen(database, waiter)
        assert (job.state, job.waiting_for, job.priority) == ("queued", None, Priority.RELEASED)
    assert sorted(due(database)) == sorted(waiters)
    claimed(database, waiters[0])


@pytest.mark.parametrize("ending", ["fail", "cancel", "cancel_running", "expire", "silence"])
def test_waiters_fail_with_what_they_wait_for(database: Database, ending: str) -> None:
    first = submitted(database)
    waiter = submitted(database, waiting_for=first)
    second_waiter = submitted(database, waiting_for=waiter)
    with database.transaction() as session:
        if ending == "cancel":
            jobs.cancel(session, first)
        elif ending == "silence":
            session.execute(update(Job).where(Job.id == first).values(max_attempts=1))
            jobs.claim(session, first, "worker", -1)
            jobs.reap(session)
        else:
            claim = claimed_in(session, first)
            if ending == "fail":
                jobs.fail(session, claim, "Error", "the loss is NaN", retryable=False)
            elif ending == "expire":
                jobs.expire(session, claim)
            else:
                jobs.cancel_running(session, claim)
    for id_, cause in ((waiter, first), (second_waiter, waiter)):
        job = seen(database, id_)
        assert job.state is JobState.FAILED
        assert job.error is not None
        assert job.error["type"] == "dependency"
        assert cause in job.error["message"]
    if ending == "fail":
        assert "the loss is NaN" in (seen(database, waiter).error or {})["message"]


def test_canceling_a_waiter_leaves_the_other_running(database: Database) -> None:
    first = submitted(database)
    waiter, other = submitted(database, first), submitted(database, first)
    claim = claimed(database, first)
    with database.transaction() as session:
        jobs.cancel(session, waiter)
    assert seen(database, first).state is JobState.RUNNING
    with database.transaction() as session:
        jobs.succeed(session, claim)
    assert seen(database, waiter).state is JobState.CANCELED
    assert seen(database, other).waiting_for is None


def test_jobs_nobody_started_expire(database: Database) -> None:
    first = submitted(database)
    waiter = submitted(database, waiting_for=first)
    started = submitted(database)
    with database.transaction() as session:
        jobs.release(session, claimed_in(session, started))
        session.execute(
            update(Job).where(Job.id.in_((waiter, started))).values(expires_at=now() - 1)
        )
    assert reaped(database) == [waiter]
    assert seen(database, waiter).state is JobState.EXPIRED
    assert seen(database, first).state is JobState.QUEUED
    assert seen(database, started).state is JobState.QUEUED


def due(database: Database) -> list[str]:
    with database.transaction() as session:
        return [one.job_id for one in jobs.due(session, 10)]


def test_unclaimed_jobs_are_announced_again_ever_more_rarely(database: Database) -> None:
    job_id = submitted(database)
    pauses = []
    for _ in range(9):
        assert due(database) == [job_id]
        assert due(database) == []
        with database.transaction() as session:
            job = jobs.get(session, job_id)
            pauses.append(round(job.next_dispatch_at - read_clock(session)))
            job.next_dispatch_at = 0  # that time has passed
    assert pauses == [15, 30, 60, 120, 240, 480, 960, 960, 960]
    with database.transaction() as session:
        jobs.announce_all_again(session)
    assert due(database) == [job_id]
    assert seen(database, job_id).dispatches == 1


def test_recovered_jobs_are_announced_first(database: Database) -> None:
    new = submitted(database)
    old = submitted(database)
    claimed(database, old, lease_seconds=-1)
    reaped(database)
    assert due(database) == [old, new]


def test_a_claimed_job_is_not_announced(database: Database) -> None:
    claimed(database, submitted(database))
    assert due(database) == []


def test_parties_are_those_who_wait_for_a_worker_and_nothing_else(database: Database) -> None:
    def ask(tenant: str, denoiser: str, waiting_for: str | None = None) -> str:
        with database.transaction() as session:
            return jobs.submit(
                session,
                kind=JobKind.COUNTERFACTUAL,
                tenant=tenant,
                denoiser_id=denoiser,
                waiting_for=waiting_for,
            ).id

    first, _, other = ask("a", "one"), ask("a", "one"), ask("a", "two")
    foreign = ask("b", "one")
    running, training = ask("c", "one"), submitted(database)
    ask("d", "one", waiting_for=training)
    claimed(database, running)
    with database.reading() as session:
        groups = jobs.waiting_groups(session, [Queue.SAMPLE])
        assert jobs.waiting_groups(session, [Queue.TRAIN]) == []
        assert jobs.group_of(session, running) is None
        assert jobs.group_of(session, other) == FairGroup("a", JobKind.COUNTERFACTUAL, "two")
    found = {(one.group.tenant, one.group.denoiser_id): one.job_id for one in groups}
    assert found == {("a", "one"): first, ("a", "two"): other, ("b", "one"): foreign}
    assert all(0 <= one.seconds < 60 for one in groups)


def test_numbers_that_json_lacks_are_shown_as_null(database: Database) -> None:
    claim = claimed(database, submitted(database))
    progress = {"step": 1, "metrics": {"loss": math.nan, "auc": 0.5, "all": [math.inf, 1.0]}}
    with database.transaction() as session:
        jobs.record_progress(session, claim, progress)
    shown = {"step": 1, "metrics": {"loss": None, "auc": 0.5, "all": [None, 1.0]}}
    assert seen(database, claim.job_id).progress == shown
    with database.reading() as session:
        assert jobs.events(session, claim.job_id)[-1].data == shown


def test_a_retry_is_a_new_job_of_the_same_request(database: Database) -> None:
    with database.transaction() as session:
        job = jobs.submit(session, kind=JobKind.PREDICT, request_digest="a" * 64, seed=9)
        with pytest.raises(Conflict, match="queued"):
            retries.retry(session, job.id)
        jobs.cancel(session, job.id)
        with pytest.raises(Conflict, match="deleted"):  # there is no GNN to predict with
            retries.retry(session, job.id)


def test_of_jobs_that_ended_long_ago_only_the_states_are_kept(database: Database) -> None:
    ended, running = submitted(database), submitted(database)
    for job_id in (ended, running):
        claim = claimed(database, job_id)
        with database.transaction() as session:
            jobs.record_progress(session, claim, {"step": 1})
            if job_id == ended:
                jobs.succeed(session, claim)
    with database.transaction() as session:
        delete_progress(session, ended_before=read_clock(session) - 60)
        assert "progress" in [event.type for event in jobs.events(session, ended)]
        delete_progress(session, ended_before=read_clock(session) + 1)
        assert [event.type for event in jobs.events(session, ended)] == ["state"] * 3
        assert "progress" in [event.type for event in jobs.events(session, running)]


def test_jobs_without_a_denoiser_are_reserved_together(database: Database) -> None:
    kind = JobKind.COUNTERFACTUAL
    with database.transaction() as session:
        first, second = (jobs.submit(session, kind=kind).id for _ in range(2))
        jobs.submit(session, kind=kind, denoiser_id="den_1")
    claim = claimed(database, first)
    with database.transaction() as session:
        reserved = jobs.reserve_matching(session, claim, 60, 8)
    assert [one.job_id for one in reserved] == [second]
