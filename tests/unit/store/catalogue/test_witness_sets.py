"""Witness sets are trained once, and an explanation waits for its witnesses and its denoiser."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from store.artifacts.artifact_store import ArtifactStore
from store.catalogue import datasets, denoisers, gnns, retries, trained_networks, witness_sets
from store.database.sessions import Database
from store.database.tables import Explanation, Job, JobEvent, WitnessSet
from store.errors import Conflict, NotFound
from store.jobs import JobKind, JobState
from store.queue.cleanup import delete_unneeded
from tests.store_rows import claim_job, create_dataset, create_explanation, create_ready_gnn

ENDINGS = ("succeed", "fail", "cancel", "lease expired")


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    with database.transaction() as session:
        yield session


def judged(session: Session) -> tuple[Explanation, Job]:
    """An explanation whose job waits for a denoiser and for witnesses."""
    gnn, dataset = create_ready_gnn(session), create_dataset(session)
    explanation, job = create_explanation(session, gnn, dataset, judged=True)
    kinds = [
        jobs.get(session, id_ or "", tenant=DEFAULT_TENANT).kind
        for id_ in (job.waiting_for, job.also_waiting_for)
    ]
    assert kinds == [JobKind.TRAIN, JobKind.WITNESSES]
    return explanation, job


def end(session: Session, job_id: str, ending: str) -> None:
    if ending == "cancel":
        jobs.cancel(session, job_id, tenant=DEFAULT_TENANT)
        return
    if ending == "lease expired":
        session.execute(update(Job).where(Job.id == job_id).values(max_attempts=1))
        jobs.claim(session, job_id, "worker", -1)
        jobs.reap(session)
        return
    claim = claim_job(session, job_id)
    if ending == "fail":
        jobs.fail(session, claim, "Error", "boom", retryable=False)
        return
    if claim.kind is JobKind.TRAIN:
        denoisers.finish(session, claim, weights_digest="4" * 64, shape={}, metrics={})
    else:
        described = {"witnesses": [{"role": "judge"}]}
        witness_sets.finish(
            session, claim, weights_digest="5" * 64, description=described, metrics={"seconds": 2}
        )
    jobs.succeed(session, claim)


def test_witnesses_are_trained_once_per_gnn_and_reference_set(session: Session) -> None:
    gnn, dataset = create_ready_gnn(session), create_dataset(session)
    first, training = witness_sets.get_or_create(session, gnn=gnn, dataset=dataset)
    assert first.id.startswith("wit_")
    assert training is not None
    assert (training.kind, training.queue, training.witness_set_id) == (
        "witnesses",
        "train",
        first.id,
    )
    assert witness_sets.get_or_create(session, gnn=gnn, dataset=dataset) == (first, training)
    assert (
        trained_networks.seconds_left(session, WitnessSet, first.key, 60.0, tenant=DEFAULT_TENANT)
        == 60.0
    )
    training.estimated_seconds = 40.0
    assert (
        trained_networks.seconds_left(session, WitnessSet, first.key, 60.0, tenant=DEFAULT_TENANT)
        == 40.0
    )
    end(session, training.id, "succeed")
    assert (
        trained_networks.seconds_left(session, WitnessSet, first.key, 60.0, tenant=DEFAULT_TENANT)
        is None
    )
    assert witness_sets.get_or_create(session, gnn=gnn, dataset=dataset) == (first, None)
    assert (first.state, first.weights_digest) == ("ready", "5" * 64)
    assert first.description == {"witnesses": [{"role": "judge"}]}
    other = create_dataset(session, "9" * 64)
    second, another = witness_sets.get_or_create(session, gnn=gnn, dataset=other)
    assert second.id != first.id
    assert another is not None


def test_the_key_depends_on_gnn_and_reference_set(session: Session) -> None:
    assert len({witness_sets.key(gnn, dataset) for gnn, dataset in product("ab", "ab")}) == 4


def test_tenants_have_their_own_witnesses(session: Session) -> None:
    mine, theirs = (
        witness_sets.get_or_create(
            session,
            gnn=create_ready_gnn(session, tenant=tenant),
            dataset=create_dataset(session, tenant=tenant),
        )[0]
        for tenant in (DEFAULT_TENANT, "other")
    )
    assert mine.key == theirs.key
    assert mine.id != theirs.id
    with pytest.raises(NotFound):
        witness_sets.get(session, mine.id, tenant="other")


@pytest.mark.parametrize("order", list(permutations(["train", "witnesses"])))
@pytest.mark.parametrize("witnesses_end", ENDINGS)
def test_an_explanation_runs_after_both_trainings_even_without_witnesses(
    session: Session, order: tuple[str, ...], witnesses_end: str
) -> None:
    explanation, job = judged(session)
    awaited = {"train": job.waiting_for, "witnesses": job.also_waiting_for}
    first, second = (str(awaited[kind]) for kind in order)
    endings = {"train": "succeed", "witnesses": witnesses_end}

    end(session, first, endings[order[0]])
    assert (job.state, job.awaited, job.is_blocked) == ("queued", second, True)
    assert jobs.claim(session, job.id, "worker", 60) is None
    end(session, second, endings[order[1]])
    assert (job.state, job.awaited, job.is_blocked) == ("queued", None, False)
    claim = claim_job(session, job.id)
    assert claim.witness_set_id == explanation.witness_set_id

    events = session.scalars(
        select(JobEvent).where(JobEvent.job_id == job.id).order_by(JobEvent.id)
    )
    waited = [event.data["waiting_for"] for event in events]
    assert waited[-2:] == [None, None]  # released, then claimed
    assert waited[:-2] == [awaited["train"], second]


@pytest.mark.parametrize("ending", ["fail", "cancel", "lease expired"])
@pytest.mark.parametrize("witnesses_first", [True, False])
def test_a_failed_denoiser_fails_the_explanation_in_any_order(
    session: Session, ending: str, witnesses_first: bool
) -> None:
    _, job = judged(session)
    training, witnesses = str(job.waiting_for), str(job.also_waiting_for)
    if witnesses_first:
        end(session, witnesses, "succeed")
    end(session, training, ending)
    assert job.state is JobState.FAILED
    assert training in (job.error or {})["message"]
    if not witnesses_first:  # other explanations may need the witnesses
        assert jobs.get(session, witnesses, tenant=DEFAULT_TENANT).state is JobState.QUEUED
        end(session, witnesses, "succeed")
        assert job.state is JobState.FAILED


@pytest.mark.parametrize("ending", ["fail", "cancel"])
def test_witnesses_that_failed_are_trained_again_for_the_next_explanation(
    session: Session, ending: str
) -> None:
    gnn, dataset = create_ready_gnn(session), create_dataset(session)
    row, training = witness_sets.get_or_create(session, gnn=gnn, dataset=dataset)
    assert training is not None
    end(session, training.id, ending)
    session.refresh(row)
    assert row.state == "failed"
    same, again = witness_sets.get_or_create(session, gnn=gnn, dataset=dataset)
    assert same.id == row.id
    assert again is not None
    assert (again.retry_of, row.job_id, row.state) == (training.id, again.id, "training")


def test_a_training_of_witnesses_can_be_retried_by_its_job(session: Session) -> None:
    gnn, dataset = create_ready_gnn(session), create_dataset(session)
    row, training = witness_sets.get_or_create(session, gnn=gnn, dataset=dataset)
    assert training is not None
    end(session, training.id, "cancel")
    again = retries.retry(session, training.id, tenant=DEFAULT_TENANT)
    assert (again.kind, again.retry_of, again.witness_set_id) == (
        JobKind.WITNESSES,
        training.id,
        row.id,
    )
    end(session, again.id, "succeed")
    with pytest.raises(Conflict, match="succeeded"):
        retries.retry(session, again.id, tenant=DEFAULT_TENANT)


def test_a_retried_explanation_waits_for_what_is_not_trained_yet(session: Session) -> None:
    explanation, job = judged(session)
    training, witnesses = str(job.waiting_for), str(job.also_waiting_for)
    jobs.cancel(session, job.id, tenant=DEFAULT_TENANT)
    again = retries.retry(session, job.id, tenant=DEFAULT_TENANT)
    assert (again.waiting_for, again.also_waiting_for) == (training, witnesses)
    assert again.witness_set_id == explanation.witness_set_id is not None
    end(session, training, "succeed")
    end(session, witnesses, "fail")
    jobs.cancel(session, again.id, tenant=DEFAULT_TENANT)

    third = retries.retry(
        session, again.id, tenant=DEFAULT_TENANT
    )  # the failed witnesses get another chance
    assert third.waiting_for is None
    assert third.also_waiting_for is not None
    assert jobs.get(session, third.also_waiting_for, tenant=DEFAULT_TENANT).retry_of == witnesses
    end(session, third.also_waiting_for, "succeed")
    claim_job(session, third.id)


def test_cleanup_keeps_the_weights_of_witnesses_and_deletes_them_with_their_gnn(
    database: Database, tmp_path: Path
) -> None:
    artifacts = ArtifactStore(str(tmp_path / "artifacts"))
    digest = artifacts.of("default").put(b"witnesses")
    with database.transaction() as session:
        gnn, dataset = create_ready_gnn(session), create_dataset(session)
        _, training = witness_sets.get_or_create(session, gnn=gnn, dataset=dataset)
        assert training is not None
        claim = claim_job(session, training.id)
        witness_sets.finish(session, claim, weights_digest=digest, description={}, metrics={})
        jobs.succeed(session, claim)
    assert delete_unneeded(database, artifacts, min_age_seconds=-1) == 0
    with database.transaction() as session:
        gnns.delete(session, gnn.id, tenant=DEFAULT_TENANT)
    assert delete_unneeded(database, artifacts, min_age_seconds=-1) == 1
    assert not artifacts.of("default").exists(digest)


def test_witnesses_are_deleted_with_the_last_of_several_equal_inputs(session: Session) -> None:
    gnn, equal_gnn = create_ready_gnn(session), create_ready_gnn(session)
    dataset, equal_dataset = create_dataset(session), create_dataset(session)
    row, training = witness_sets.get_or_create(session, gnn=gnn, dataset=dataset)
    assert training is not None
    with pytest.raises(Conflict, match=training.id):
        gnns.delete(session, gnn.id, tenant=DEFAULT_TENANT)
    end(session, training.id, "succeed")
    gnns.delete(session, gnn.id, tenant=DEFAULT_TENANT)
    datasets.delete(session, dataset.id, tenant=DEFAULT_TENANT)
    session.refresh(row)
    assert (row.gnn_id, row.dataset_id) == (equal_gnn.id, equal_dataset.id)
    datasets.delete(session, equal_dataset.id, tenant=DEFAULT_TENANT)
    assert session.scalars(select(WitnessSet)).all() == []
