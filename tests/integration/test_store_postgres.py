"""The store on a real PostgreSQL server, used by concurrent transactions."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TypeVar

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Executable, func, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.contracts.webhooks import DeliveryState
from store import jobs
from store.artifacts.artifact_store import ArtifactStore
from store.catalogue import (
    datasets,
    denoisers,
    explanations,
    gnn_labels,
    gnns,
    idempotency,
    metadata_changes,
    witness_sets,
)
from store.database import job_totals
from store.database.lists.filters import Filters
from store.database.sessions import Database, read_clock
from store.database.tables import Dataset, Denoiser, Explanation, Gnn, Table
from store.errors import Conflict, NotFound
from store.jobs import Claim, Job, JobKind, JobState, workers
from store.queue import leader_election
from store.queue.cleanup import delete_unneeded
from store.webhooks import deliveries, endpoints
from store.webhooks.deliveries import AttemptResult, Full
from tests.store_rows import (
    SPEC,
    claim_job,
    create_dataset,
    create_explanation,
    create_ready_gnn,
)

Answer = TypeVar("Answer")


@pytest.fixture(scope="module")
def database(postgres_url: str) -> Iterator[Database]:
    database = Database(postgres_url)
    run_concurrently(4, lambda _: _migrate(postgres_url))
    yield database
    database.close()


def _migrate(url: str) -> None:
    database = Database(url)
    try:
        database.migrate()
    finally:
        database.close()


def run_concurrently(count: int, work: Callable[[int], Answer]) -> list[Answer]:
    """Runs `work` in `count` threads that start at the same moment."""
    start = threading.Barrier(count)

    def run(number: int) -> Answer:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def ready_gnn(session: Session) -> Gnn:
    return create_ready_gnn(session, secrets.token_hex(32))


def reference_set(session: Session) -> Dataset:
    return create_dataset(session, secrets.token_hex(32))


def explanation_of(
    session: Session, gnn_id: str, dataset_id: str, *, judged: bool = False
) -> tuple[Explanation, Job]:
    gnn = gnns.require_ready(session, gnn_id, tenant=DEFAULT_TENANT)
    return create_explanation(
        session, gnn, datasets.get(session, dataset_id, tenant=DEFAULT_TENANT), judged=judged
    )


def test_concurrent_registrations_get_different_versions(database: Database) -> None:
    name = secrets.token_hex(8)

    def register(_: int) -> int:
        with database.transaction() as session:
            gnn, _ = gnns.create(
                session, name=name, spec=SPEC, weights_digest="1" * 64, tenant=DEFAULT_TENANT
            )
            return gnn.version

    assert sorted(run_concurrently(8, register)) == list(range(1, 9))


def test_concurrent_requests_set_an_alias_once(database: Database) -> None:
    with database.transaction() as session:
        gnn = ready_gnn(session)

    def set_alias(_: int) -> None:
        with database.transaction() as session:
            gnn_labels.set_alias(
                session, "production", gnns.require_ready(session, gnn.id, tenant=DEFAULT_TENANT)
            )

    run_concurrently(8, set_alias)
    with database.reading() as session:
        assert gnn_labels.aliases_of(session, gnn.id) == ["production"]


def test_migrations_create_exactly_the_declared_tables(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []


def test_the_clock_advances_within_a_transaction(database: Database) -> None:
    with database.transaction() as session:
        first = read_clock(session)
        time.sleep(0.02)
        assert 0.01 < read_clock(session) - first < 5


def test_only_one_of_many_concurrent_claims_succeeds(database: Database) -> None:
    with database.transaction() as session:
        job = jobs.submit(session, kind=JobKind.PREDICT, tenant=DEFAULT_TENANT)

    def claim(number: int) -> int | None:
        with database.transaction() as session:
            won = jobs.claim(session, job.id, f"worker {number}", 60)
        return won.attempt if won else None

    assert sorted(run_concurrently(8, claim), key=str) == [1] + [None] * 7


def test_a_job_is_claimed_or_reserved_by_one_worker(database: Database) -> None:
    with database.transaction() as session:
        ids = [
            jobs.submit(
                session,
                kind=JobKind.COUNTERFACTUAL,
                denoiser_id="den_together",
                tenant=DEFAULT_TENANT,
            ).id
            for _ in range(30)
        ]

    def claim(number: int) -> list[str]:
        with database.transaction() as session:
            first = jobs.claim(session, ids[number], f"worker {number}", 60)
            if first is None:  # another worker has reserved it
                return []
            reserved = jobs.reserve_matching(session, first, 60, 8)
            assert all(claim.owner == first.owner for claim in reserved)
        return [first.job_id, *(claim.job_id for claim in reserved)]

    claimed = [job_id for several in run_concurrently(4, claim) for job_id in several]
    assert len(claimed) == len(set(claimed))
    assert set(claimed).issuperset(ids[:4])
    assert len(claimed) > 4
    assert set(claimed) <= set(ids)


def test_heartbeats_and_writes_of_several_jobs_do_not_deadlock(database: Database) -> None:
    with database.transaction() as session:
        first = jobs.submit(
            session, kind=JobKind.COUNTERFACTUAL, denoiser_id="den_locked", tenant=DEFAULT_TENANT
        ).id
        for _ in range(20):
            jobs.submit(
                session,
                kind=JobKind.COUNTERFACTUAL,
                denoiser_id="den_locked",
                tenant=DEFAULT_TENANT,
            )
        claim = jobs.claim(session, first, "worker", 60)
        assert claim is not None
        reserved = jobs.reserve_matching(session, claim, 60, 20)
        for one in reserved[:10]:
            jobs.begin(session, one)
        begun, claims = [claim, *reserved[:10]], [claim, *reserved]

    def act(number: int) -> None:
        for _ in range(5):
            with database.transaction() as session:
                if number % 2:
                    jobs.heartbeat(session, claims[:: -1 if number > 2 else 1], 60)
                else:
                    for one in sorted(begun, key=lambda one: one.job_id):
                        jobs.record_progress(session, one, {"step": 1})

    run_concurrently(4, act)


def test_concurrent_dispatchers_announce_each_job_once(database: Database) -> None:
    with database.transaction() as session:
        ids = {
            jobs.submit(session, kind=JobKind.PREDICT, tenant=DEFAULT_TENANT).id for _ in range(20)
        }

    def announce(_: int) -> list[str]:
        with database.transaction() as session:
            return [one.job_id for one in jobs.due(session, 10)]

    announced = [job_id for batch in run_concurrently(4, announce) for job_id in batch]
    announced += [job_id for batch in run_concurrently(4, announce) for job_id in batch]
    mine = [job_id for job_id in announced if job_id in ids]
    assert sorted(mine) == sorted(ids)


def test_abandoned_jobs_are_reaped_once(database: Database) -> None:
    with database.transaction() as session:
        ids = [
            jobs.submit(session, kind=JobKind.PREDICT, tenant=DEFAULT_TENANT).id for _ in range(10)
        ]
        for job_id in ids:
            jobs.claim(session, job_id, "worker", -1)

    def reap(_: int) -> list[str]:
        with database.transaction() as session:
            return jobs.reap(session)

    reaped = [job_id for batch in run_concurrently(4, reap) for job_id in batch]
    reaped += reap(0)
    assert sorted(reaped) == sorted(ids)


def test_concurrent_requests_train_a_denoiser_once(database: Database) -> None:
    with database.transaction() as session:
        gnn_id, dataset_id = ready_gnn(session).id, reference_set(session).id

    def explain(_: int) -> tuple[str, str | None]:
        with database.transaction() as session:
            explanation, job = explanation_of(session, gnn_id, dataset_id)
        return explanation.denoiser_id, job.waiting_for

    assert len(set(run_concurrently(8, explain))) == 1
    with database.reading() as session:
        trainings = select(func.count()).where(Job.gnn_id == gnn_id, Job.kind == JobKind.TRAIN)
        assert session.scalar(trainings) == 1


@pytest.mark.parametrize("succeeds", [True, False])
def test_no_job_waits_for_a_finished_training(database: Database, succeeds: bool) -> None:
    def finish(claim: Claim) -> None:
        with database.transaction() as session:
            if succeeds:
                denoisers.finish(session, claim, weights_digest="5" * 64, shape={}, metrics={})
                jobs.succeed(session, claim)
            else:
                jobs.fail(session, claim, "Error", "boom", retryable=False)

    for _ in range(10):
        with database.transaction() as session:
            gnn_id, dataset_id = ready_gnn(session).id, reference_set(session).id
            _, first = explanation_of(session, gnn_id, dataset_id)
            assert first.waiting_for is not None
            claim = claim_job(session, first.waiting_for)

        def act(
            number: int, claim: Claim = claim, gnn_id: str = gnn_id, dataset_id: str = dataset_id
        ) -> str | None:
            if number == 0:
                finish(claim)
                return None
            with database.transaction() as session:
                return explanation_of(session, gnn_id, dataset_id)[1].id

        created_ids = [job_id for job_id in run_concurrently(4, act) if job_id]
        with database.reading() as session:
            for job_id in created_ids:
                job = jobs.get(session, job_id, tenant=DEFAULT_TENANT)
                if job.waiting_for is not None:  # it waits only for an unfinished training
                    training = jobs.get(session, job.waiting_for, tenant=DEFAULT_TENANT)
                    assert not training.state.is_terminal
                    assert not succeeds
            open_trainings = select(func.count()).where(
                Job.gnn_id == gnn_id, Job.kind == JobKind.TRAIN, Job.state == JobState.QUEUED
            )
            assert (session.scalar(open_trainings) or 0) <= (0 if succeeds else 1)


@pytest.mark.parametrize("witnesses_succeed", [True, False])
def test_trainings_that_end_at_once_release_every_explanation(
    database: Database, witnesses_succeed: bool
) -> None:
    def finish_training(claim: Claim) -> None:
        with database.transaction() as session:
            denoisers.finish(session, claim, weights_digest="5" * 64, shape={}, metrics={})
            jobs.succeed(session, claim)

    def finish_witnesses(claim: Claim) -> None:
        with database.transaction() as session:
            if not witnesses_succeed:
                jobs.fail(session, claim, "Error", "boom", retryable=False)
                return
            witness_sets.finish(session, claim, weights_digest="6" * 64, description={}, metrics={})
            jobs.succeed(session, claim)

    for _ in range(10):
        with database.transaction() as session:
            gnn_id, dataset_id = ready_gnn(session).id, reference_set(session).id
            _, first = explanation_of(session, gnn_id, dataset_id, judged=True)
            claims = [
                claim_job(session, str(id_)) for id_ in (first.waiting_for, first.also_waiting_for)
            ]

        def act(
            number: int,
            claims: list[Claim] = claims,
            gnn_id: str = gnn_id,
            dataset_id: str = dataset_id,
        ) -> str | None:
            if number < 2:
                (finish_training, finish_witnesses)[number](claims[number])
                return None
            with database.transaction() as session:
                return explanation_of(session, gnn_id, dataset_id, judged=True)[1].id

        created = [first.id, *(job_id for job_id in run_concurrently(5, act) if job_id)]
        with database.reading() as session:
            for job_id in created:
                job = jobs.get(session, job_id, tenant=DEFAULT_TENANT)
                assert (job.state, job.waiting_for) == (JobState.QUEUED, None)
                if job.also_waiting_for is not None:  # submitted after the witnesses failed
                    assert not witnesses_succeed
                    awaited = jobs.get(session, job.also_waiting_for, tenant=DEFAULT_TENANT)
                    assert (awaited.kind, awaited.state) == (JobKind.WITNESSES, JobState.QUEUED)
            assert not jobs.get(session, first.id, tenant=DEFAULT_TENANT).is_blocked


@pytest.mark.parametrize("training_succeeds", [True, False])
def test_a_training_and_a_provisional_job_that_end_at_once_leave_nothing_waiting(
    database: Database, training_succeeds: bool
) -> None:
    def end_training(claim: Claim) -> None:
        with database.transaction() as session:
            if not training_succeeds:
                jobs.fail(session, claim, "Error", "boom", retryable=False)
                return
            denoisers.finish(session, claim, weights_digest="5" * 64, shape={}, metrics={})
            jobs.succeed(session, claim)

    def end_provisional(claim: Claim) -> None:
        with database.transaction() as session:
            explanations.finish_provisional(session, claim, result_digest="7" * 64, summary={})
            jobs.succeed(session, claim)

    for _ in range(10):
        with database.transaction() as session:
            gnn, dataset = ready_gnn(session), reference_set(session)
            created = [
                create_explanation(session, gnn, dataset, provisional=True) for _ in range(3)
            ]
            training = claim_job(session, str(created[0][1].waiting_for))
            claims = [claim_job(session, str(row.provisional_job_id)) for row, _ in created]

        def act(number: int, training: Claim = training, claims: list[Claim] = claims) -> None:
            end_training(training) if number == 0 else end_provisional(claims[number - 1])

        run_concurrently(4, act)
        with database.reading() as session:
            for row, job in created:
                final = jobs.get(session, job.id, tenant=DEFAULT_TENANT)
                explanation = explanations.get(session, row.id, tenant=DEFAULT_TENANT)
                provisional = jobs.get(session, str(row.provisional_job_id), tenant=DEFAULT_TENANT)
                assert not final.is_blocked
                assert final.state is (JobState.QUEUED if training_succeeds else JobState.FAILED)
                state = explanations.state_of(explanation, final, provisional)
                assert state is (JobState.RUNNING if training_succeeds else JobState.SUCCEEDED)


def test_a_provisional_answer_and_a_cancellation_do_not_deadlock(database: Database) -> None:
    for _ in range(20):
        with database.transaction() as session:
            gnn, dataset = ready_gnn(session), reference_set(session)
            row, final = create_explanation(session, gnn, dataset, provisional=True)
            claim = claim_job(session, str(row.provisional_job_id))

        def act(number: int, claim: Claim = claim, job_id: str = final.id) -> None:
            with database.transaction() as session:
                if number == 0:
                    jobs.cancel(session, job_id, tenant=DEFAULT_TENANT)
                    return
                explanations.finish_provisional(session, claim, result_digest="7" * 64, summary={})
                jobs.succeed(session, claim)

        run_concurrently(2, act)
        with database.reading() as session:
            assert jobs.get(session, final.id, tenant=DEFAULT_TENANT).state is JobState.CANCELED
            assert (
                jobs.get(session, claim.job_id, tenant=DEFAULT_TENANT).state is JobState.SUCCEEDED
            )


def test_a_gnn_is_either_deleted_or_used(database: Database) -> None:
    for _ in range(10):
        with database.transaction() as session:
            gnn_id, dataset_id = ready_gnn(session).id, reference_set(session).id

        def act(number: int, gnn_id: str = gnn_id, dataset_id: str = dataset_id) -> str:
            try:
                with database.transaction() as session:
                    if number == 0:
                        gnns.delete(session, gnn_id, tenant=DEFAULT_TENANT)
                        return "deleted"
                    explanation_of(session, gnn_id, dataset_id)
                    return "created"
            except (Conflict, NotFound) as refused:
                return type(refused).__name__

        deleted, *others = run_concurrently(3, act)
        assert (deleted, set(others)) in (("deleted", {"NotFound"}), ("Conflict", {"created"}))


def test_concurrent_requests_with_one_key_create_one_job(database: Database) -> None:
    key = secrets.token_hex(8)
    request = {
        **{"key": key, "body_sha256": "a" * 64, "route": "POST /v1/x"},
        "tenant": DEFAULT_TENANT,
    }

    def submit(_: int) -> str:
        with database.transaction() as session:
            known = idempotency.find(session, **request)
            if known is not None:
                return known
            job = jobs.submit(session, kind=JobKind.PREDICT, subject_id=key, tenant=DEFAULT_TENANT)
            return idempotency.remember(session, **request, resource=job.id)

    answers = run_concurrently(8, submit)
    assert len(set(answers)) == 1
    with database.reading() as session:
        assert session.scalars(select(Job.id).where(Job.subject_id == key)).all() == answers[:1]


def test_concurrent_requests_store_a_key_once(database: Database) -> None:
    key = secrets.token_hex(8)

    def remember(number: int) -> str:
        with database.transaction() as session:
            return idempotency.remember(
                session,
                key=key,
                body_sha256="a" * 64,
                route="r",
                resource=f"job {number}",
                tenant=DEFAULT_TENANT,
            )

    assert len(set(run_concurrently(6, remember))) == 1


def test_only_one_process_becomes_the_leader(database: Database) -> None:
    name = secrets.token_hex(8)

    def take(number: int) -> bool:
        with database.transaction() as session:
            return leader_election.acquire(session, name, f"process {number}", 60)

    assert sorted(run_concurrently(6, take)) == [False] * 5 + [True]


def test_concurrent_heartbeats_of_a_worker_succeed(database: Database) -> None:
    name = secrets.token_hex(8)

    def beat(number: int) -> None:
        with database.transaction() as session:
            workers.beat(session, name=name, queues=["light"], device="cpu", pid=number)

    run_concurrently(4, beat)
    with database.reading() as session:
        assert name in [worker.name for worker in workers.live(session)]


def test_event_ids_of_a_job_follow_the_order_of_the_writes(database: Database) -> None:
    with database.transaction() as session:
        claim = claim_job(
            session, jobs.submit(session, kind=JobKind.PREDICT, tenant=DEFAULT_TENANT).id
        )

    def progress(number: int) -> None:
        with database.transaction() as session:
            jobs.record_progress(session, claim, {"step": number})

    run_concurrently(6, progress)
    with database.reading() as session:
        last = jobs.events(session, claim.job_id, tenant=DEFAULT_TENANT)[-1]
        assert jobs.get(session, claim.job_id, tenant=DEFAULT_TENANT).progress == last.data


def test_nul_characters_and_nan_are_replaced(database: Database) -> None:
    with database.transaction() as session:
        claim = claim_job(
            session, jobs.submit(session, kind=JobKind.PREDICT, tenant=DEFAULT_TENANT).id
        )
        jobs.record_progress(session, claim, {"loss": float("nan")})
        jobs.fail(session, claim, "Error", "a\0b €", retryable=False)
    with database.reading() as session:
        job = jobs.get(session, claim.job_id, tenant=DEFAULT_TENANT)
    assert job.progress == {"loss": None}
    assert job.error is not None
    assert job.error["message"] == "a�b €"


def test_pages_and_deletion(database: Database, tmp_path_factory: pytest.TempPathFactory) -> None:
    with database.transaction() as session:
        gnn_id, dataset_id = ready_gnn(session).id, reference_set(session).id
        _, job = explanation_of(session, gnn_id, dataset_id)
        assert job.waiting_for is not None
        jobs.cancel(session, job.waiting_for, tenant=DEFAULT_TENANT)
        gnns.delete(session, gnn_id, tenant=DEFAULT_TENANT)
        datasets.delete(session, dataset_id, tenant=DEFAULT_TENANT)
        assert session.scalars(select(Denoiser).where(Denoiser.gnn_id == gnn_id)).all() == []
        first = jobs.page(session, None, 1, tenant=DEFAULT_TENANT)
        second = jobs.page(session, first.next_cursor, 1, tenant=DEFAULT_TENANT)
        assert first.items[0].created_at >= second.items[0].created_at
        assert first.items[0].id != second.items[0].id
    artifacts = ArtifactStore(str(tmp_path_factory.mktemp("artifacts")))
    artifacts.of("default").put(b"unused")
    assert delete_unneeded(database, artifacts, min_age_seconds=-1) == 1


def test_a_read_sees_one_snapshot(database: Database) -> None:
    """A job that ends between the reads of explanation and job does not change the result."""
    with database.transaction() as session:
        gnn, dataset = ready_gnn(session), reference_set(session)
        explanation, _ = explanation_of(session, gnn.id, dataset.id)
        training = denoisers.get(session, explanation.denoiser_id, tenant=DEFAULT_TENANT).job_id
        trained = claim_job(session, training)
        denoisers.finish(session, trained, weights_digest="7" * 64, shape={}, metrics={})
        jobs.succeed(session, trained)

    with database.reading() as session:
        before = explanations.get(session, explanation.id, tenant=DEFAULT_TENANT)
        assert before.result_digest is None
        with database.transaction() as writer:
            claim = claim_job(writer, explanation.job_id)
            explanations.finish(writer, claim, result_digest="8" * 64)
            jobs.succeed(writer, claim)
        job = jobs.get(session, explanation.job_id, tenant=DEFAULT_TENANT)
        assert job.state is JobState.QUEUED

    with database.reading() as session:
        assert (
            explanations.get(session, explanation.id, tenant=DEFAULT_TENANT).result_digest
            == "8" * 64
        )
        assert (
            jobs.get(session, explanation.job_id, tenant=DEFAULT_TENANT).state is JobState.SUCCEEDED
        )


@pytest.mark.parametrize(
    "statement",
    [select(Gnn).with_for_update(read=True, key_share=True), update(Gnn).values(description="b")],
    ids=["lock", "write"],
)
def test_a_read_transaction_refuses_locks_and_writes(
    database: Database, statement: Executable
) -> None:
    with database.reading() as session, pytest.raises(DBAPIError, match="read-only"):
        session.execute(statement)
    with database.transaction() as session:  # the connection is writable again
        session.execute(statement)
        session.rollback()


def test_concurrent_endings_are_counted(database: Database) -> None:
    """Each transaction ends jobs of several kinds and states, in opposite orders."""
    with database.transaction() as session:
        before = job_totals.read(session)
    kinds = (JobKind.PREDICT, JobKind.PROBE)

    def end_some(number: int) -> None:
        for _ in range(5):
            with database.transaction() as session:
                ids = [jobs.submit(session, kind=kind, tenant=DEFAULT_TENANT).id for kind in kinds]
                claims = [claim_job(session, job_id) for job_id in ids]
                if number % 2:
                    claims.reverse()
                jobs.succeed(session, claims[0])
                jobs.fail(session, claims[1], "test", "no", retryable=False)

    run_concurrently(8, end_some)
    with database.reading() as session:
        after = job_totals.read(session)
    new = {key: count - before.get(key, 0) for key, count in after.items()}
    assert {key: count for key, count in new.items() if count} == {
        (kind, state): 20 for kind in kinds for state in (JobState.SUCCEEDED, JobState.FAILED)
    }


def test_each_delivery_is_claimed_by_one_worker(database: Database) -> None:
    """Eight workers claim and record at once; each notification is delivered exactly once."""
    tenant = "deliveries"
    with database.transaction() as session:
        for number in range(3):
            endpoints.create(session, tenant=tenant, url=f"https://hooks.example.org/{number}")
        ended = [jobs.submit(session, kind=JobKind.PREDICT, tenant=tenant).id for _ in range(40)]
    for start in range(0, 40, 10):  # ends of jobs, in transactions of their own
        with database.transaction() as session:
            for job_id in ended[start : start + 10]:
                jobs.cancel(session, job_id, tenant)

    def work(number: int) -> list[str]:
        mine: list[str] = []
        results: list[AttemptResult] = []
        while True:
            with database.transaction() as session:
                deliveries.record(session, results, retry_seconds=60, rng=Random(number))
                claimed = deliveries.claim(
                    session,
                    places=4,
                    full=Full(["nobody"], [("nobody", "nothing")]),
                    take_place=lambda *_: True,
                    lease_seconds=30,
                )
            if not claimed:
                return mine
            results = [AttemptResult(one, 0.1, 204, None) for one in claimed]
            mine += [one.id for one in claimed]

    found = [id_ for ids in run_concurrently(8, work) for id_ in ids]
    assert len(found) == len(set(found)) == 120
    with database.reading() as session:
        assert not deliveries.is_anything_due(session, Full())
        pages = [
            deliveries.page(session, tenant, limit=200, state=state).items
            for state in DeliveryState
        ]
    assert [len(items) for items in pages] == [0, 120, 0]


def test_a_session_whose_machine_vanished_loses_its_locks(database: Database) -> None:
    with database.reading() as session:
        limit = session.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one()
    assert limit == "1min"


def test_metadata_is_filtered_by_and_changed_while_jobs_end(database: Database) -> None:
    """Changes and ends lock the job before the row, so they cannot deadlock."""
    with database.transaction() as session:
        gnn, dataset = create_ready_gnn(session), create_dataset(session)
        made = [create_explanation(session, gnn, dataset) for _ in range(8)]
    ids = [explanation.id for explanation, _ in made]

    def act(number: int) -> None:
        explanation, job = made[number % 8]
        with database.transaction() as session:
            if number < 8:
                jobs.cancel(session, job.id, DEFAULT_TENANT)
            else:
                row = explanations.get(session, explanation.id, DEFAULT_TENANT)
                metadata_changes.change(session, row, {"group": dataset.id, f"k{number}": number})

    run_concurrently(24, act)
    page = {"tenant": DEFAULT_TENANT, "limit": 100}
    with database.reading() as session:
        filters = Filters(metadata={"group": dataset.id})
        found = explanations.page(session, filters=filters, **page).items
        assert {row.id for row in found} == set(ids)
        assert all(len(row.caller_metadata) == 3 for row in found)
        carried = jobs.page(session, filters=filters, **page).items
        assert {job.id for job in carried} == {job.id for _, job in made}
        canceled = explanations.page(session, state=JobState.CANCELED, filters=filters, **page)
        assert {row.id for row in canceled.items} == set(ids)
        for state in set(JobState) - {JobState.CANCELED}:
            assert explanations.page(session, state=state, filters=filters, **page).items == []
        one = Filters(metadata={"group": dataset.id, "k9": "9.0"})
        assert [row.id for row in explanations.page(session, filters=one, **page).items] == [ids[1]]
        nobody = {**page, "tenant": "other"}
        assert explanations.page(session, filters=filters, **nobody).items == []
