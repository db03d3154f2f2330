from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from store import jobs
from store.catalogue import idempotency
from store.database.sessions import Database, now
from store.database.tables import IdempotencyKey
from store.errors import IdempotencyMismatch
from store.jobs import Job, JobKind

REQUEST = {"key": "k", "body_sha256": "a" * 64, "route": "POST /v1/explanations"}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    database.migrate()
    yield database
    database.close()


def test_a_key_stands_for_its_first_resource(database: Database) -> None:
    with database.transaction() as session:
        assert idempotency.find(session, **REQUEST) is None
        assert idempotency.remember(session, **REQUEST, resource="exp_1") == "exp_1"
    with database.transaction() as session:
        assert idempotency.find(session, **REQUEST) == "exp_1"
        assert idempotency.remember(session, **REQUEST, resource="exp_2") == "exp_1"
        assert idempotency.find(session, **REQUEST, tenant="another") is None


@pytest.mark.parametrize("other", [{"body_sha256": "b" * 64}, {"route": "POST /v1/denoisers"}])
def test_a_key_is_for_one_request(database: Database, other: dict[str, str]) -> None:
    with database.transaction() as session:
        idempotency.remember(session, **REQUEST, resource="exp_1")
    with database.transaction() as session:
        with pytest.raises(IdempotencyMismatch):
            idempotency.find(session, **(REQUEST | other))
        with pytest.raises(IdempotencyMismatch):
            idempotency.remember(session, **(REQUEST | other), resource="exp_2")


def test_keys_are_forgotten_after_their_time(database: Database) -> None:
    with database.transaction() as session:
        idempotency.remember(session, **REQUEST, resource="exp_1")
        idempotency.remember(session, **(REQUEST | {"key": "other"}), resource="exp_1")
        session.execute(update(IdempotencyKey).values(expires_at=now() - 1))
    with database.transaction() as session:
        assert idempotency.find(session, **REQUEST) is None
        assert idempotency.remember(session, **REQUEST, resource="exp_2") == "exp_2"
    with database.transaction() as session:
        idempotency.delete_expired(session)
        assert session.scalars(select(IdempotencyKey.key)).all() == ["k"]


def test_submitting_at_once_with_one_key_makes_one_job(database: Database) -> None:
    def submit(_: int) -> str:
        with database.transaction() as session:
            known = idempotency.find(session, **REQUEST)
            if known is not None:
                return known
            job = jobs.submit(session, kind=JobKind.PREDICT)
            return idempotency.remember(session, **REQUEST, resource=job.id)

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(submit, range(16)))
    assert len(answers) == 1
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 1
