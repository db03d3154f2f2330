from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from store.catalogue import retries
from store.database.sessions import Database, now, read_clock
from store.errors import Conflict, LeaseLost, NotFound
from store.jobs import Claim, FairGroup, Job, JobKind, JobState, Priority, Queue
from store.jobs.job_events import delete_progress
from store.jobs.submission import JOB_FORMAT


def submitted(database: Database, waiting_for: str | None = None) -> str:
    with database.transaction() as session:
        return jobs.submit(
            session,
            kind=JobKind.PREDICT,
            gnn_id="gnn_1",
            seed=5,
            waiting_for=waiting_for,
            tenant=DEFAULT_TENANT,
        ).id


def claimed(database: Database, job_id: str, lease_seconds: float = 60) -> Claim:
    with database.transaction() as session:
        claim = jobs.claim(session, job_id, "worker", lease_seconds)
    assert claim is not None
    return claim


def stored(database: Database, job_id: str) -> Job:
    with database.reading() as session:
        return jobs.get(session, job_id, tenant=DEFAULT_TENANT)


def states(database: Database, job_id: str) -> list[str]:
    with database.reading() as session:
        events = jobs.events(session, job_id, tenant=DEFAULT_TENANT)
    return [event.data["state"] for event in events if event.type == "state"]


def attempts(database: Database, job_id: str) -> list[int]:
    """The attempt numbers that clients see in the state events."""
    with database.reading() as session:
        events = jobs.events(session, job_id, tenant=DEFAULT_TENANT)
    return [event.data["attempt"] for event in events if event.type == "state"]


def reaped(database: Database) -> list[str]:
    with database.transaction() as session:
        return jobs.reap(session)


def test_a_job_runs_once_and_its_events_are_recorded(database: Database) -> None:
    job_id = submitted(database)
    job = stored(database, job_id)
    assert (job.state, job.queue, job.attempt, job.seed) == ("queued", "light", 0, 5)
    claim = claimed(database, job_id)
    assert (claim.attempt, claim.gnn_id, claim.seed) == (1, "gnn_1", 5)
    with database.transaction() as session:
        jobs.record_progress(session, claim, {"phase": "predict", "step": 1, "total": 2})
        jobs.succeed(session, claim, {"answer": 42})
    job = stored(database, job_id)
    assert (job.state, job.result, job.error) == ("succeeded", {"answer": 42}, None)
    assert job.created_at <= job.started_at <= job.finished_at  # type: ignore[operator]
    assert states(database, job_id) == ["queued", "running", "succeeded"]
    with database.reading() as session:
        first, *others = jobs.events(session, job_id, limit=2, tenant=DEFAULT_TENANT)
        later = jobs.events(session, job_id, after=first.id, tenant=DEFAULT_TENANT)
    assert [event.type for event in later] == ["state", "progress", "state"]
    assert others[0].id == later[0].id


def test_only_one_of_many_concurrent_claims_succeeds(database: Database) -> None:
    ids = [submitted(database) for _ in range(5)]

    def claim(number: int) -> str | None:
        with database.transaction() as session:
            won = jobs.claim(session, ids[number % 5], f"worker {number}", 60)
        return won.job_id if won else None

    with ThreadPoolExecutor(8) as pool:
        won = [job_id for job_id in pool.map(claim, range(40)) if job_id]
    assert sorted(won) == sorted(ids)


def test_unknown_jobs_and_jobs_of_other_tenants_are_not_found(database: Database) -> None:
    job_id = submitted(database)
    with database.transaction() as session:
        for use in (jobs.get, jobs.cancel, retries.retry):
            with pytest.raises(NotFound):
                use(session, "job_unknown", tenant=DEFAULT_TENANT)
            with pytest.raises(NotFound):
                use(session, job_id, tenant="another")
        assert jobs.claim(session, "job_unknown", "worker", 60) is None
        assert jobs.page(session, tenant="another").items == []


def test_a_worker_cannot_write_after_another_worker_took_its_job(
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
    job = stored(database, job_id)
    assert (job.result, job.checkpoint, job.progress) == ({"by": "second"}, None, None)
    assert states(database, job_id) == ["queued", "running", "running", "succeeded"]


def test_a_heartbeat_renews_the_lease(database: Database) -> None:
    job_id = submitted(database)
    claim = claimed(database, job_id, lease_seconds=-1)
    with database.transaction() as session:
        (beat,) = jobs.heartbeat(session, [claim], 60)
    assert beat == jobs.Beat(held=True, cancel_requested=False)
    assert reaped(database) == []


def test_a_job_whose_workers_die_is_requeued_until_its_attempts_are_used(
    database: Database,
) -> None:
    job_id = submitted(database)
    for attempt in (1, 2):
        assert claimed(database, job_id, lease_seconds=-1).attempt == attempt
        assert reaped(database) == [job_id]
        job = stored(database, job_id)
        assert (job.state, job.priority) == ("queued", Priority.RECOVERED)
        assert due(database) == [job_id]
    claimed(database, job_id, lease_seconds=-1)
    with database.transaction() as session:
        assert jobs.claim(session, job_id, "worker", 60) is None  # no fourth attempt
    assert reaped(database) == [job_id]
    job = stored(database, job_id)
    assert job.state is JobState.FAILED
    assert job.error is not None
    assert job.error["type"] == "lease_expired"
    assert [reason["attempt"] for reason in job.error["attempts"]] == [1, 2, 3]
    assert reaped(database) == []


def test_only_retryable_failures_are_retried_and_only_up_to_the_limit(database: Database) -> None:
    job_id = submitted(database)
    for attempt in (1, 2, 3):
        claim = claimed(database, job_id)
        with database.transaction() as session:
            jobs.fail(session, claim, "OutOfMemory", f"try {attempt} \0", retryable=True)
    job = stored(database, job_id)
    assert job.state is JobState.FAILED
    assert job.error is not None
    assert [r["message"] for r in job.error["attempts"]] == [f"try {i} �" for i in (1, 2, 3)]

    invalid = submitted(database)
    with database.transaction() as session:
        claim = claimed_in(session, invalid)
        jobs.fail(session, claim, "InvalidInput", "never", retryable=False)
    assert stored(database, invalid).state is JobState.FAILED


def claimed_in(session: Session, job_id: str) -> Claim:
    claim = jobs.claim(session, job_id, "worker", 60)
    assert claim is not None
    return claim


def test_a_released_attempt_does_not_count(database: Database) -> None:
    job_id = submitted(database)
    numbers = []
    for _ in range(5):
        claim = claimed(database, job_id)
        numbers.append(claim.attempt)
        with database.transaction() as session:
            jobs.record_checkpoint(session, claim, "c" * 64, claim.attempt)
            jobs.release(session, claim)
    assert numbers == [1, 2, 3, 4, 5]  # fencing numbers are not reused
    assert attempts(database, job_id) == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]
    job = stored(database, job_id)
    assert (job.state, job.attempts_used) == ("queued", 0)
    assert claimed(database, job_id).checkpoint == {"digest": "c" * 64, "step": 5}


def test_a_job_that_takes_too_long_expires(database: Database) -> None:
    claim = claimed(database, submitted(database))
    with database.transaction() as session:
        jobs.expire(session, claim)
    job = stored(database, claim.job_id)
    assert job.state is JobState.EXPIRED
    assert job.error is not None
    assert job.error["type"] == "time_limit"


def test_a_queued_job_is_canceled_at_once(database: Database) -> None:
    job_id = submitted(database)
    with database.transaction() as session:
        assert jobs.cancel(session, job_id, tenant=DEFAULT_TENANT).state is JobState.CANCELED
    with database.transaction() as session:
        assert jobs.claim(session, job_id, "worker", 60) is None
        with pytest.raises(Conflict, match="canceled"):
            jobs.cancel(session, job_id, tenant=DEFAULT_TENANT)
    assert due(database) == []


def test_canceling_a_running_job_asks_its_worker_to_stop(database: Database) -> None:
    claim = claimed(database, submitted(database))
    with database.transaction() as session:
        assert jobs.cancel(session, claim.job_id, tenant=DEFAULT_TENANT).state is JobState.RUNNING
        assert jobs.cancel(
            session, claim.job_id, tenant=DEFAULT_TENANT
        ).cancel_requested  # a second request has no effect
        assert jobs.heartbeat(session, [claim], 60)[0].cancel_requested
        jobs.cancel_running(session, claim)
    assert states(database, claim.job_id) == ["queued", "running", "running", "canceled"]


@pytest.mark.parametrize("how", ["lease expired", "failure", "release"])
def test_a_job_with_a_cancel_request_is_never_requeued(database: Database, how: str) -> None:
    claim = claimed(database, submitted(database), lease_seconds=-1)
    with database.transaction() as session:
        jobs.cancel(session, claim.job_id, tenant=DEFAULT_TENANT)
    with database.transaction() as session:
        if how == "lease expired":
            jobs.reap(session)
        elif how == "failure":
            jobs.fail(session, claim, "Error", "boom", retryable=True)
        else:
            jobs.release(session, claim)
    assert stored(database, claim.job_id).state is JobState.CANCELED


def test_waiting_jobs_are_released_when_their_dependency_succeeds(database: Database) -> None:
    first = submitted(database)
    waiters = [submitted(database, waiting_for=first) for _ in range(2)]
    with database.transaction() as session:
        assert jobs.claim(session, waiters[0], "worker", 60) is None
    assert due(database) == [first]
    claim = claimed(database, first)
    with database.transaction() as session:
        jobs.succeed(session, claim)
    for waiter in waiters:
        job = stored(database, waiter)
        assert (job.state, job.waiting_for, job.priority) == ("queued", None, Priority.RELEASED)
    assert sorted(due(database)) == sorted(waiters)
    claimed(database, waiters[0])


@pytest.mark.parametrize("ending", ["fail", "cancel", "cancel_running", "expire", "lease expired"])
def test_waiting_jobs_fail_with_their_dependency(database: Database, ending: str) -> None:
    first = submitted(database)
    waiter = submitted(database, waiting_for=first)
    second_waiter = submitted(database, waiting_for=waiter)
    with database.transaction() as session:
        if ending == "cancel":
            jobs.cancel(session, first, tenant=DEFAULT_TENANT)
        elif ending == "lease expired":
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
        job = stored(database, id_)
        assert job.state is JobState.FAILED
        assert job.error is not None
        assert job.error["type"] == "dependency"
        assert cause in job.error["message"]
    if ending == "fail":
        assert "the loss is NaN" in (stored(database, waiter).error or {})["message"]


def test_canceling_a_waiting_job_does_not_cancel_its_dependency(database: Database) -> None:
    first = submitted(database)
    waiter, other = submitted(database, first), submitted(database, first)
    claim = claimed(database, first)
    with database.transaction() as session:
        jobs.cancel(session, waiter, tenant=DEFAULT_TENANT)
    assert stored(database, first).state is JobState.RUNNING
    with database.transaction() as session:
        jobs.succeed(session, claim)
    assert stored(database, waiter).state is JobState.CANCELED
    assert stored(database, other).waiting_for is None


def test_jobs_that_no_worker_started_expire(database: Database) -> None:
    first = submitted(database)
    waiter = submitted(database, waiting_for=first)
    started = submitted(database)
    with database.transaction() as session:
        jobs.release(session, claimed_in(session, started))
        session.execute(
            update(Job).where(Job.id.in_((waiter, started))).values(expires_at=now() - 1)
        )
    assert reaped(database) == [waiter]
    assert stored(database, waiter).state is JobState.EXPIRED
    assert stored(database, first).state is JobState.QUEUED
    assert stored(database, started).state is JobState.QUEUED


def due(database: Database) -> list[str]:
    with database.transaction() as session:
        return [one.job_id for one in jobs.due(session, 10)]


def test_unclaimed_jobs_are_announced_again_with_growing_pauses(database: Database) -> None:
    job_id = submitted(database)
    pauses = []
    for _ in range(9):
        assert due(database) == [job_id]
        assert due(database) == []
        with database.transaction() as session:
            job = jobs.get(session, job_id, tenant=DEFAULT_TENANT)
            pauses.append(round(job.next_dispatch_at - read_clock(session)))
            job.next_dispatch_at = 0  # that time has passed
    assert pauses == [15, 30, 60, 120, 240, 480, 960, 960, 960]
    with database.transaction() as session:
        jobs.announce_all_again(session)
    assert due(database) == [job_id]
    assert stored(database, job_id).dispatches == 1


def test_recovered_jobs_are_announced_first(database: Database) -> None:
    new = submitted(database)
    old = submitted(database)
    claimed(database, old, lease_seconds=-1)
    reaped(database)
    assert due(database) == [old, new]


def test_a_claimed_job_is_not_announced(database: Database) -> None:
    claimed(database, submitted(database))
    assert due(database) == []


def test_fair_groups_contain_only_jobs_that_wait_for_a_worker(database: Database) -> None:
    def submit(tenant: str, denoiser: str, waiting_for: str | None = None) -> str:
        with database.transaction() as session:
            return jobs.submit(
                session,
                kind=JobKind.COUNTERFACTUAL,
                tenant=tenant,
                denoiser_id=denoiser,
                waiting_for=waiting_for,
            ).id

    first, _, other = submit("a", "one"), submit("a", "one"), submit("a", "two")
    other_tenant = submit("b", "one")
    running, training = submit("c", "one"), submitted(database)
    submit("d", "one", waiting_for=training)
    claimed(database, running)
    with database.reading() as session:
        groups = jobs.waiting_groups(session, [Queue.SAMPLE])
        assert jobs.waiting_groups(session, [Queue.TRAIN]) == []
        assert jobs.group_of(session, running) is None
        assert jobs.group_of(session, other) == FairGroup("a", JobKind.COUNTERFACTUAL, "two")
    found = {(one.group.tenant, one.group.denoiser_id): one.job_id for one in groups}
    assert found == {("a", "one"): first, ("a", "two"): other, ("b", "one"): other_tenant}
    assert all(0 <= one.seconds < 60 for one in groups)


def test_a_job_of_a_newer_format_is_never_claimed(database: Database) -> None:
    """To the writer of the newer format, this program is the old worker."""
    newer, known = submitted(database), submitted(database)
    with database.transaction() as session:
        session.execute(update(Job).where(Job.id == newer).values(format=JOB_FORMAT + 1))
    with database.transaction() as session:
        assert jobs.group_of(session, newer) is None
        assert [entry.job_id for entry in jobs.waiting_groups(session, list(Queue))] == [known]
        assert jobs.claim(session, newer, "worker", 60) is None
        first = jobs.claim(session, known, "worker", 60)
        assert first is not None
        assert jobs.reserve_matching(session, first, 60, 10) == []
        assert not jobs.is_another_waiting(session, first)
    assert stored(database, newer).state == "queued"
    assert newer in due(database)  # a newer worker gets the message


def test_nan_and_infinity_are_stored_as_null(database: Database) -> None:
    claim = claimed(database, submitted(database))
    progress = {"step": 1, "metrics": {"loss": math.nan, "auc": 0.5, "all": [math.inf, 1.0]}}
    with database.transaction() as session:
        jobs.record_progress(session, claim, progress)
    expected = {"step": 1, "metrics": {"loss": None, "auc": 0.5, "all": [None, 1.0]}}
    assert stored(database, claim.job_id).progress == expected
    with database.reading() as session:
        assert jobs.events(session, claim.job_id, tenant=DEFAULT_TENANT)[-1].data == expected


def test_a_queued_job_or_a_job_without_its_gnn_cannot_be_retried(database: Database) -> None:
    with database.transaction() as session:
        job = jobs.submit(
            session, kind=JobKind.PREDICT, request_digest="a" * 64, seed=9, tenant=DEFAULT_TENANT
        )
        with pytest.raises(Conflict, match="queued"):
            retries.retry(session, job.id, tenant=DEFAULT_TENANT)
        jobs.cancel(session, job.id, tenant=DEFAULT_TENANT)
        with pytest.raises(Conflict, match="deleted"):  # the job names no GNN
            retries.retry(session, job.id, tenant=DEFAULT_TENANT)


def test_old_jobs_keep_only_their_state_events(database: Database) -> None:
    ended, running = submitted(database), submitted(database)
    for job_id in (ended, running):
        claim = claimed(database, job_id)
        with database.transaction() as session:
            jobs.record_progress(session, claim, {"step": 1})
            if job_id == ended:
                jobs.succeed(session, claim)
    with database.transaction() as session:
        delete_progress(session, ended_before=read_clock(session) - 60)
        assert "progress" in [
            event.type for event in jobs.events(session, ended, tenant=DEFAULT_TENANT)
        ]
        delete_progress(session, ended_before=read_clock(session) + 1)
        assert [event.type for event in jobs.events(session, ended, tenant=DEFAULT_TENANT)] == [
            "state"
        ] * 3
        assert "progress" in [
            event.type for event in jobs.events(session, running, tenant=DEFAULT_TENANT)
        ]


def test_jobs_without_a_denoiser_are_reserved_together(database: Database) -> None:
    kind = JobKind.COUNTERFACTUAL
    with database.transaction() as session:
        first, second = (
            jobs.submit(session, kind=kind, tenant=DEFAULT_TENANT).id for _ in range(2)
        )
        jobs.submit(session, kind=kind, denoiser_id="den_1", tenant=DEFAULT_TENANT)
    claim = claimed(database, first)
    with database.transaction() as session:
        reserved = jobs.reserve_matching(session, claim, 60, 8)
    assert [one.job_id for one in reserved] == [second]
