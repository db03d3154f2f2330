"""Quotas are exact, whoever adds at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from d4explain.contracts.errors import InvalidInput
from store import jobs
from store.artifacts.artifact_store import ArtifactStore
from store.database import quotas
from store.database.quotas import Limits, Quotas
from store.database.sessions import Database
from store.errors import QueueFull, QuotaExceeded
from store.jobs import JobKind
from tests.store_rows import create_dataset

LIMIT = 7


def limited(database: Database, limits: Limits, artifacts: ArtifactStore | None = None) -> Database:
    return Database(
        database.engine.url.render_as_string(),
        limits=limits,
        artifact_size=None
        if artifacts is None
        else lambda tenant, digest: artifacts.of(tenant).size(digest),
    )


@pytest.fixture
def seven_jobs(database: Database) -> Iterator[Database]:
    opened = limited(database, Limits(Quotas(jobs=LIMIT)))
    yield opened
    opened.close()


def submit(database: Database, tenant: str = "a", seconds: float | None = None) -> bool:
    """Whether the job was accepted."""
    try:
        with database.transaction() as session:
            jobs.submit(session, kind=JobKind.PREDICT, tenant=tenant, estimated_seconds=seconds)
            quotas.enforce(session, tenant)
    except QuotaExceeded:
        return False
    return True


def test_threads_together_get_exactly_the_quota(database: Database) -> None:
    several = [limited(database, Limits(Quotas(jobs=LIMIT))) for _ in range(4)]  # as processes
    with ThreadPoolExecutor(4) as threads:
        accepted = list(threads.map(lambda at: submit(several[at % 4]), range(4 * LIMIT)))
    assert sum(accepted) == LIMIT
    with several[0].reading() as session:
        assert quotas.usage_of(session, "a").jobs == LIMIT
    for one in several:
        one.close()


def test_an_ended_job_makes_room_and_tenants_do_not_share(seven_jobs: Database) -> None:
    assert all(submit(seven_jobs) for _ in range(LIMIT))
    assert not submit(seven_jobs)
    assert submit(seven_jobs, "b")
    with seven_jobs.transaction() as session:
        [first, *_] = jobs.page(session, tenant="a").items
        jobs.cancel(session, first.id, "a")
    assert submit(seven_jobs)


def test_estimated_work_counts(database: Database) -> None:
    opened = limited(database, Limits(Quotas(work_seconds=100)))
    assert submit(opened, seconds=60)
    assert not submit(opened, seconds=60)
    assert submit(opened, seconds=40)
    opened.close()


def test_stored_bytes_count_once_and_nothing_is_written_beyond_the_limit(
    database: Database, tmp_path: object
) -> None:
    artifacts = ArtifactStore(str(tmp_path) + "/artifacts")
    opened = limited(database, Limits(Quotas(stored_bytes=10)), artifacts)

    def upload(data: bytes) -> None:
        digest = artifacts.of("default").put(data)
        with opened.transaction() as session:
            create_dataset(session, digest)
            quotas.enforce(session, "default")

    upload(b"123456")
    upload(b"123456")
    with pytest.raises(QuotaExceeded) as refused:
        upload(b"12345")
    assert (refused.value.name, refused.value.limit, refused.value.used) == ("stored_bytes", 10, 11)
    upload(b"1234")
    with opened.reading() as session:
        assert quotas.usage_of(session, "default").stored_bytes == 10
    opened.close()


def test_a_tenant_may_have_its_own_quota(seven_jobs: Database) -> None:
    with seven_jobs.transaction() as session:
        assert quotas.set_for_tenant(session, "a", {"jobs": 1}).jobs == 1
    assert submit(seven_jobs)
    assert not submit(seven_jobs)
    with seven_jobs.transaction() as session:
        assert quotas.set_for_tenant(session, "a", {"jobs": None}).jobs == LIMIT
    assert submit(seven_jobs)
    with seven_jobs.transaction() as session, pytest.raises(InvalidInput, match="is -2"):
        quotas.set_for_tenant(session, "a", {"jobs": -2})


def test_the_queue_of_all_tenants_is_limited(database: Database) -> None:
    opened = limited(database, Limits(queued_jobs=2))
    assert submit(opened, "a")
    assert submit(opened, "b")
    with pytest.raises(QueueFull):
        submit(opened, "c")
    opened.close()
