"""The life of evaluations: shards, failures, cancellation, retries, deletion and retention."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from store import jobs
from store.catalogue import denoisers, retries, witness_sets
from store.catalogue.data_life import deletions as all_deletions
from store.catalogue.data_life import holds
from store.catalogue.data_life.holds import Held
from store.catalogue.evaluations import comparisons, deletions, evaluations
from store.database.sessions import Database, read_clock
from store.database.tables import Comparison, Evaluation, EvaluationShard, Job, JobEvent
from store.database.tables.webhooks import WebhookDelivery
from store.errors import Conflict, LeaseLost, NotFound, OnHold
from store.jobs import JobKind, JobState
from store.retention import expiry
from store.retention.expiry import Retention
from store.webhooks import endpoints
from tests.store_rows import claim_job, create_dataset, create_evaluation, create_ready_gnn

TENANT = "default"


def created(database: Database, **options: object) -> str:
    with database.transaction() as session:
        gnn, dataset = create_ready_gnn(session), create_dataset(session)
        return create_evaluation(session, gnn, dataset, **options).id  # type: ignore[arg-type]


def shard_jobs(database: Database, evaluation: str) -> list[str]:
    with database.reading() as session:
        return [shard.job_id for shard in evaluations.shards(session, evaluation, TENANT)]


def job_of(database: Database, evaluation: str) -> Job:
    with database.reading() as session:
        row = evaluations.get(session, evaluation, TENANT)
        return jobs.get(session, row.job_id, TENANT)


def run_shard(database: Database, job: str, digest: str = "8") -> None:
    with database.transaction() as session:
        claim = claim_job(session, job)
    with database.transaction() as session:
        evaluations.finish_shard(session, claim, rows_digest=digest * 64)
        jobs.succeed(session, claim)


def fail_shard(database: Database, job: str) -> None:
    with database.transaction() as session:
        jobs.fail(session, claim_job(session, job), "test", "it broke", retryable=False)


def finish(database: Database, evaluation: str) -> None:
    for job in shard_jobs(database, evaluation):
        run_shard(database, job)
    with database.transaction() as session:
        claim = claim_job(session, job_of(database, evaluation).id)
        evaluations.finish(
            session, claim, result_digest="9" * 64, parquet_digest="a" * 64, summary={"n": 5}
        )
        jobs.succeed(session, claim)


def test_shards_cover_all_instances_once_and_the_last_releases_the_job(database: Database) -> None:
    evaluation = created(database)
    with database.reading() as session:
        rows = evaluations.shards(session, evaluation, TENANT)
        assert [(row.first, row.count) for row in rows] == [(0, 2), (2, 2), (4, 1)]
        row = evaluations.get(session, evaluation, TENANT)
        assert evaluations.standings(session, [row]) == {evaluation: (JobState.QUEUED, 0)}
    first, second, last = shard_jobs(database, evaluation)
    run_shard(database, second)
    job = job_of(database, evaluation)
    assert job.is_blocked
    assert job.progress is not None
    assert (job.progress["step"], job.progress["total"]) == (2, 5)
    assert job.progress["metrics"]["eta_seconds"] >= 0
    with database.transaction() as session:
        assert jobs.claim(session, job.id, "worker", 60) is None
        row = evaluations.get(session, evaluation, TENANT)
        assert evaluations.standings(session, [row]) == {evaluation: (JobState.RUNNING, 2)}
    run_shard(database, first)
    run_shard(database, last)
    job = job_of(database, evaluation)
    assert not job.is_blocked
    assert job.state is JobState.QUEUED
    with database.reading() as session:
        log = session.scalars(select(JobEvent).where(JobEvent.job_id == job.id)).all()
        steps = [event.data["step"] for event in log if event.type == "progress"]
    assert steps == [2, 4, 5]


def test_a_dead_worker_loses_no_committed_rows(database: Database) -> None:
    evaluation = created(database)
    first, second, last = shard_jobs(database, evaluation)
    run_shard(database, first)
    with database.transaction() as session:
        lost = jobs.claim(session, second, "dying", -1)
        assert lost is not None
    with database.transaction() as session:
        assert jobs.reap(session) == [second]
    with database.transaction() as session, pytest.raises(LeaseLost):
        evaluations.finish_shard(session, lost, rows_digest="b" * 64)
    run_shard(database, second)
    run_shard(database, last)
    with database.reading() as session:
        digests = [row.rows_digest for row in evaluations.shards(session, evaluation, TENANT)]
    assert digests == ["8" * 64] * 3
    assert not job_of(database, evaluation).is_blocked


def test_a_failed_shard_fails_the_evaluation_after_the_others_and_a_retry_repeats_it_alone(
    database: Database,
) -> None:
    evaluation = created(database)
    first, second, last = shard_jobs(database, evaluation)
    fail_shard(database, first)
    assert job_of(database, evaluation).is_blocked
    run_shard(database, second)
    run_shard(database, last)
    failed = job_of(database, evaluation)
    assert failed.state is JobState.FAILED
    assert failed.error is not None
    assert "1 shards have no rows" in failed.error["message"]
    with database.transaction() as session, pytest.raises(Conflict, match="is a shard of"):
        retries.retry(session, first, TENANT)
    with database.transaction() as session:
        again = retries.retry(session, failed.id, TENANT)
        assert again.is_blocked
    new = shard_jobs(database, evaluation)
    assert new[1:] == [second, last]
    assert new[0] != first
    run_shard(database, new[0])
    released = job_of(database, evaluation)
    assert (released.id, released.is_blocked) == (again.id, False)


def test_the_figures_can_be_repeated_without_the_shards(database: Database) -> None:
    evaluation = created(database)
    for job in shard_jobs(database, evaluation):
        run_shard(database, job)
    before = job_of(database, evaluation).id
    fail_shard(database, before)
    with database.transaction() as session:
        again = retries.retry(session, before, TENANT)
        assert not again.is_blocked
    assert all(job for job in shard_jobs(database, evaluation))


def test_canceling_an_evaluation_cancels_its_shards(database: Database) -> None:
    evaluation = created(database)
    first, second, last = shard_jobs(database, evaluation)
    run_shard(database, first)
    with database.transaction() as session:
        running = claim_job(session, second)
    with database.transaction() as session:
        jobs.cancel(session, job_of(database, evaluation).id, TENANT)
    with database.reading() as session:
        states = [jobs.get(session, job, TENANT) for job in (first, second, last)]
    assert [job.state for job in states] == ["succeeded", "running", "canceled"]
    assert states[1].cancel_requested
    with database.transaction() as session:
        jobs.cancel_running(session, running)
    assert job_of(database, evaluation).state is JobState.CANCELED


def test_a_failed_training_fails_all_shards_and_the_evaluation(database: Database) -> None:
    evaluation = created(database, trains=True)
    with database.transaction() as session:
        shard = jobs.get(session, shard_jobs(database, evaluation)[0], TENANT)
        assert shard.waiting_for is not None
        assert shard.also_waiting_for is not None
        training = claim_job(session, shard.waiting_for)
        jobs.fail(session, training, "test", "diverged", retryable=False)
    failed = job_of(database, evaluation)
    assert failed.state is JobState.FAILED
    assert "diverged" in (failed.error or {})["message"]
    with database.transaction() as session:
        assert retries.retry(session, failed.id, TENANT).is_blocked
    with database.transaction() as session:
        shard = jobs.get(session, shard_jobs(database, evaluation)[0], TENANT)
        assert shard.waiting_for is not None  # the training runs again, too


def test_shards_start_after_both_trainings(database: Database) -> None:
    evaluation = created(database, trains=True)
    jobs_of_shards = shard_jobs(database, evaluation)
    with database.transaction() as session:
        shard = jobs.get(session, jobs_of_shards[0], TENANT)
        training = claim_job(session, str(shard.waiting_for))
        denoisers.finish(session, training, weights_digest="4" * 64, shape={}, metrics={})
        jobs.succeed(session, training)
        assert shard.is_blocked
        judging = claim_job(session, str(shard.also_waiting_for))
        witness_sets.finish(session, judging, weights_digest="5" * 64, description={}, metrics={})
        jobs.succeed(session, judging)
    run_shard(database, jobs_of_shards[0])


def test_deletion_takes_rows_shards_and_jobs_and_respects_holds(database: Database) -> None:
    evaluation = created(database)
    with database.transaction() as session, pytest.raises(Conflict, match="which is queued"):
        deletions.delete_evaluation(session, evaluation, TENANT)
    finish(database, evaluation)
    shard = shard_jobs(database, evaluation)[0]
    with (
        database.transaction() as session,
        pytest.raises(Conflict, match=f"evaluation {evaluation}"),
    ):
        all_deletions.delete_job(session, shard, TENANT)
    with database.transaction() as session:
        held = holds.put(session, Held.EVALUATION, evaluation, "audit", tenant=TENANT, key_id=None)
        assert len(held.needed) == 2  # GNN and reference set
    with database.transaction() as session, pytest.raises(OnHold):
        deletions.delete_evaluation(session, evaluation, TENANT)
    with database.transaction() as session:
        holds.remove(session, Held.EVALUATION, evaluation, tenant=TENANT)
        deletions.delete_evaluation(session, evaluation, TENANT)
        noted = all_deletions.find(session, evaluation, TENANT)
        assert noted is not None
        assert set(noted.digests) == {digit * 64 for digit in "6789a"}
    with database.reading() as session:
        assert session.scalars(select(EvaluationShard)).all() == []
        assert session.scalars(select(Evaluation)).all() == []
        kinds = set(session.scalars(select(Job.kind)))
        assert not kinds & {JobKind.EVALUATION, JobKind.EVALUATION_SHARD}
    with database.transaction() as session, pytest.raises(NotFound):
        deletions.delete_evaluation(session, evaluation, TENANT)


def test_comparisons_outlive_their_evaluations_and_expire_with_explanations(
    database: Database,
) -> None:
    one = created(database)
    finish(database, one)
    with database.transaction() as session:
        evaluation = evaluations.get(session, one, TENANT)
        comparison = comparisons.create(
            session, baseline=evaluation, candidate=evaluation, request_digest="c" * 64, seed=0
        )
        deletions.delete_evaluation(session, one, TENANT)
        with pytest.raises(Conflict, match="comparison job"):
            deletions.delete_comparison(session, comparison.id, TENANT)
        jobs.succeed(session, claim_job(session, comparison.job_id))
    with database.reading() as session:
        at = read_clock(session) + 2 * 24 * 3600
        assert len(comparisons.page(session, tenant=TENANT, evaluation_id=one).items) == 1
    assert expiry.delete_expired(database, Retention(explanations=1), at=at) == 1
    with database.reading() as session:
        assert session.scalars(select(Comparison)).all() == []


def test_webhooks_tell_of_the_evaluation_and_not_of_its_shards(database: Database) -> None:
    with database.transaction() as session:
        endpoints.create(session, url="https://hooks.example.org/x", tenant=TENANT)
    evaluation = created(database, metadata={"team": "risk"})
    finish(database, evaluation)
    with database.reading() as session:
        told = session.scalars(select(WebhookDelivery)).all()
        by_event = [(one.event, one.body) for one in told if "probe" not in one.body]
    [(event, body)] = by_event
    assert event == "evaluation.succeeded"
    assert f'"url":"/v1/evaluations/{evaluation}"' in body
    assert '"metadata":{"team":"risk"}' in body
