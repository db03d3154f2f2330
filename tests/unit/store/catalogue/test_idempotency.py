from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select, update

from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from store.catalogue import idempotency
from store.database.sessions import Database, now
from store.database.tables import IdempotencyKey
from store.errors import IdempotencyMismatch
from store.jobs import Job, JobKind

REQUEST = {
    "key": "k",
    "body_sha256": "a" * 64,
    "route": "POST /v1/explanations",
    "tenant": DEFAULT_TENANT,
}


def test_a_known_key_returns_its_first_resource(database: Database) -> None:
    with database.transaction() as session:
        assert idempotency.find(session, **REQUEST) is None
        assert idempotency.remember(session, **REQUEST, resource="exp_1") == "exp_1"
    with database.transaction() as session:
        assert idempotency.find(session, **REQUEST) == "exp_1"
        assert idempotency.remember(session, **REQUEST, resource="exp_2") == "exp_1"
        assert idempotency.find(session, **(REQUEST | {"tenant": "another"})) is None


@pytest.mark.parametrize("other", [{"body_sha256": "b" * 64}, {"route": "POST /v1/denoisers"}])
def test_a_key_of_another_request_is_refused(database: Database, other: dict[str, str]) -> None:
    with database.transaction() as session:
        idempotency.remember(session, **REQUEST, resource="exp_1")
    with database.transaction() as session:
        with pytest.raises(IdempotencyMismatch):
            idempotency.find(session, **(REQUEST | other))
        with pytest.raises(IdempotencyMismatch):
            idempotency.remember(session, **(REQUEST | other), resource="exp_2")


def test_keys_expire(database: Database) -> None:
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


def test_concurrent_requests_with_one_key_create_one_job(database: Database) -> None:
    def submit(_: int) -> str:
        with database.transaction() as session:
            known = idempotency.find(session, **REQUEST)
            if known is not None:
                return known
            job = jobs.submit(session, kind=JobKind.PREDICT, tenant=DEFAULT_TENANT)
            return idempotency.remember(session, **REQUEST, resource=job.id)

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(submit, range(16)))
    assert len(answers) == 1
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 1
