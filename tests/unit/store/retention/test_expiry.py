"""Retention times, with the clock as an argument."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from d4explain.contracts.receipts.audit_chain import BrokenChainError, ChainedEntry, verified
from store import jobs
from store.audit import chain
from store.catalogue import denoisers, explanations
from store.catalogue.data_life import holds
from store.catalogue.data_life.holds import Held
from store.database.sessions import Database, read_clock
from store.database.tables import Dataset, Denoiser, Explanation, Job, WitnessSet
from store.database.tables.audit import AuditEntry, Source
from store.jobs import JobState
from store.retention import expiry
from store.retention.expiry import Retention
from tests.store_rows import claim_job, create_dataset, create_explanation, create_ready_gnn

DAY = 24 * 3600.0


def explained(database: Database, tenant: str = "default") -> str:
    """An explanation whose jobs and trainings have succeeded."""
    with database.transaction() as session:
        gnn = create_ready_gnn(session, tenant=tenant)
        dataset = create_dataset(session, tenant=tenant)
        explanation, job = create_explanation(session, gnn, dataset)
        training = claim_job(session, str(job.waiting_for))
        denoisers.finish(session, training, weights_digest="4" * 64, shape={}, metrics={})
        jobs.succeed(session, training)
        claim = claim_job(session, job.id)
        explanations.finish(session, claim, result_digest="5" * 64)
        jobs.succeed(session, claim)
        return explanation.id


def expire(database: Database, retention: Retention, days: float) -> int:
    with database.reading() as session:
        at = read_clock(session) + days * DAY
    return expiry.delete_expired(database, retention, at=at)


def count(database: Database, table: type) -> int:
    with database.reading() as session:
        return len(session.scalars(select(table)).all())


def test_nothing_expires_without_a_time(database: Database) -> None:
    explained(database)
    assert expire(database, Retention(), 10_000) == 0


def test_each_kind_has_its_time(database: Database) -> None:
    explained(database)
    retention = Retention(explanations=10, networks=20, datasets=30)
    assert expire(database, retention, 9) == 0
    assert expire(database, retention, 11) == 1
    assert (count(database, Explanation), count(database, Denoiser)) == (0, 1)
    assert expire(database, retention, 21) == 1
    assert (count(database, Denoiser), count(database, WitnessSet)) == (0, 0)
    assert expire(database, retention, 31) == 0  # the training job refers to the reference set
    assert expire(database, Retention(jobs=25, datasets=30), 31) == 2
    assert (count(database, Dataset), count(database, Job)) == (0, 1)  # the probe of the GNN


def test_what_is_on_hold_or_unfinished_is_kept(database: Database) -> None:
    held = explained(database)
    with database.transaction() as session:
        holds.put(session, Held.EXPLANATION, held, "audit", tenant="default", key_id=None)
        gnn, dataset = create_ready_gnn(session), create_dataset(session)
        create_explanation(session, gnn, dataset)
    everything = Retention(explanations=1, jobs=1, networks=1, datasets=1)
    # The training of the held denoiser is its own job, and its reference set is on hold.
    assert expire(database, everything, 10_000) == 0
    with database.transaction() as session:
        holds.remove(session, Held.EXPLANATION, held, tenant="default")
    assert expire(database, everything, 10_000) > 0
    assert count(database, Explanation) == 1  # the unfinished one


def test_a_use_renews_the_time_of_a_denoiser(database: Database) -> None:
    explained(database)
    with database.transaction() as session:
        denoiser = session.scalars(select(Denoiser)).one()
        denoiser.created_at -= 50 * DAY
    assert expire(database, Retention(networks=60), 0) == 0
    with database.transaction() as session:
        gnn, dataset = create_ready_gnn(session), create_dataset(session)
        create_explanation(session, gnn, dataset)  # the same content: shares the denoiser
    with database.transaction() as session:
        [job] = jobs.page(session, tenant="default", state=JobState.QUEUED).items
        jobs.cancel(session, job.id, "default")
    assert expire(database, Retention(networks=60), 20) == 0
    assert expire(database, Retention(networks=60), 61) == 1


def test_a_tenant_has_its_own_times(database: Database) -> None:
    for tenant in ("a", "b"):
        explained(database, tenant)
    deployment = Retention(explanations=10)
    with database.transaction() as session:
        own = expiry.set_for_tenant(session, "a", {"explanations": 0, "jobs": 5}, deployment)
        assert own == Retention(explanations=0, jobs=5)
    assert expire(database, deployment, 11) == 1
    with database.reading() as session:
        assert session.scalars(select(Explanation.tenant_id)).all() == ["a"]


def test_deletions_by_age_are_in_the_audit_log_and_its_chain_is_unbroken(
    database: Database,
) -> None:
    ids = [explained(database), explained(database, "other")]
    retention = Retention(explanations=1, networks=2, jobs=3, datasets=4)
    deleted = sum(expire(database, retention, days) for days in (1.5, 2.5, 3.5, 4.5))
    with database.transaction() as session:
        chain.chain(session)
    entries: list[ChainedEntry] = []
    for tenant, id_ in zip(("default", "other"), ids, strict=True):
        with database.reading() as session:
            mine = chain.page(session, tenant, 0, 1000)
        assert verified([entry.line() for entry in mine]).position == len(mine)
        by_age = [entry for entry in mine if entry.source == "retention"]
        assert by_age[0].resource == id_
        assert {entry.key_id for entry in by_age} == {None}
        changed = [entry.line().replace(id_, id_[::-1]) for entry in mine]
        with pytest.raises(BrokenChainError):
            verified(changed)
        entries += by_age
    assert len(entries) == deleted
    assert {entry.action for entry in entries} == {
        "delete_explanation",
        "delete_job",
        "delete_denoiser",  # and with it the witnesses
        "delete_dataset",
    }


def test_what_could_not_be_deleted_is_not_in_the_audit_log(database: Database) -> None:
    held = explained(database)
    with database.transaction() as session:
        holds.put(session, Held.EXPLANATION, held, "audit", tenant="default", key_id=None)
    assert expire(database, Retention(explanations=1, networks=1), 10) == 0
    with database.reading() as session:
        sources = session.scalars(select(AuditEntry.source)).all()
    assert Source.RETENTION not in sources
