"""Deliveries: claimed once, sent again after failures, given up in time, and fair to receivers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from d4explain.contracts.job_states import JobKind
from d4explain.contracts.webhooks import DeliveryState, SendFailure
from store import jobs
from store.database.sessions import Database, now
from store.database.tables.webhooks import Webhook, WebhookDelivery
from store.errors import Conflict, NotFound
from store.webhooks import deliveries, endpoints
from store.webhooks.deliveries import AttemptResult, ClaimedDelivery, Full

HOUR = 3600.0
URL = "https://hooks.example.org/d4"


def register(database: Database, **options: Any) -> str:
    with database.transaction() as session:
        return endpoints.create(session, url=URL, **{"tenant": "default"} | options).id


def end_jobs(database: Database, count: int = 1, tenant: str = "default") -> None:
    with database.transaction() as session:
        for _ in range(count):
            job = jobs.submit(session, kind=JobKind.PREDICT, tenant=tenant)
            jobs.cancel(session, job.id, tenant)


def claim(database: Database, places: int = 10, **options: Any) -> list[ClaimedDelivery]:
    options = {"full": Full(), "take_place": lambda *_: True, "lease_seconds": 30.0} | options
    with database.transaction() as session:
        return deliveries.claim(session, places=places, **options)


def record(
    database: Database, *claimed: ClaimedDelivery, failure: SendFailure | None = None
) -> None:
    status = 204 if failure is None else None
    results = [AttemptResult(one, 0.1, status, failure) for one in claimed]
    with database.transaction() as session:
        deliveries.record(session, results, retry_seconds=HOUR, rng=Random(0))


def delivery(database: Database, id_: str) -> WebhookDelivery:
    with database.reading() as session:
        return deliveries.get(session, id_, "default")


def make_due(database: Database, **values: Any) -> None:
    """As if the pauses were over."""
    with database.transaction() as session:
        session.execute(update(WebhookDelivery).values(next_attempt_at=now() - 1, **values))
        session.execute(update(Webhook).values(paused_until=None))


def test_a_claimed_delivery_is_not_claimed_again_until_its_lease_expires(
    database: Database,
) -> None:
    register(database)
    end_jobs(database)
    (first,) = claim(database)
    assert claim(database) == []
    make_due(database, lease_until=now() - 1)
    (second,) = claim(database)
    assert (second.id, second.attempt) == (first.id, 2)
    record(database, first, failure=SendFailure.TIMEOUT)  # it lost its lease
    assert delivery(database, first.id).history == []
    record(database, second)
    assert delivery(database, first.id).state is DeliveryState.DELIVERED
    assert claim(database) == []


def test_a_failed_attempt_is_repeated_later_and_given_up_at_the_end(database: Database) -> None:
    register(database)
    end_jobs(database)
    for attempt in (1, 2, 3):
        (claimed,) = claim(database)
        assert claimed.attempt == attempt
        record(database, claimed, failure=SendFailure.CONNECTION)
        assert claim(database) == []
        make_due(database)
    (claimed,) = claim(database)
    with database.transaction() as session:
        session.execute(update(WebhookDelivery).values(asked_at=now() - 2 * HOUR))
    record(database, claimed, failure=SendFailure.CONNECTION)
    ended = delivery(database, claimed.id)
    assert ended.state is DeliveryState.GIVEN_UP
    assert [entry["failure"] for entry in ended.history] == ["connection"] * 4
    assert ended.ended_at is not None


def test_deliveries_that_nobody_attempts_are_given_up(database: Database) -> None:
    webhook_id = register(database)
    end_jobs(database, 2)
    (claimed,) = claim(database, places=1)
    with database.transaction() as session:
        endpoints.get(session, webhook_id, "default").enabled = False
        session.execute(update(WebhookDelivery).values(asked_at=now() - 2 * HOUR))
        assert deliveries.give_up_overdue(session, HOUR) == 1
    assert claim(database) == []
    record(database, claimed)
    assert delivery(database, claimed.id).state is DeliveryState.DELIVERED


def test_a_failing_webhook_is_paused_with_all_that_waits_for_it(database: Database) -> None:
    register(database)
    end_jobs(database, 50)
    (first,) = claim(database, places=1)
    record(database, first, failure=SendFailure.STATUS)
    end_jobs(database, 5)  # these also wait for the end of the pause
    assert claim(database) == []
    make_due(database)
    seen: list[bool] = []
    claim(database, take_place=lambda _, is_failing: seen.append(is_failing) or False)
    assert set(seen) == {True}
    (second,) = claim(database, places=1)
    record(database, second)
    assert len(claim(database, places=99)) == 54


def test_groups_without_a_place_do_not_hide_others(database: Database) -> None:
    register(database)
    end_jobs(database, 100)
    quiet = register(database, tenant="quiet")
    end_jobs(database, 1, tenant="quiet")
    (busy,) = claim(database, places=1)
    for full in (Full(groups=[busy.group]), Full(tenants=["default"])):
        with database.reading() as session:
            assert deliveries.is_anything_due(session, full)
        (found,) = claim(database, places=1, full=full)
        assert found.webhook_id == quiet
        record(database, found, failure=SendFailure.TIMEOUT)
        make_due(database)


@given(st.integers(1, 10_000), st.randoms(use_true_random=False))
def test_pauses_grow_and_are_bounded(failures: int, rng: Random) -> None:
    longest = (
        min(deliveries.FIRST_PAUSE_SECONDS * 2.0 ** (failures - 1), 900.0)
        if (failures < 40)
        else 900.0
    )
    assert longest / 2 <= deliveries.pause_after(failures, rng) <= longest


def test_a_delivery_is_sent_again_on_request_with_its_id(database: Database) -> None:
    webhook_id = register(database)
    end_jobs(database)
    (claimed,) = claim(database)
    with pytest.raises(Conflict, match="being sent now"), database.transaction() as session:
        deliveries.redeliver(session, claimed.id, "default")
    record(database, claimed)
    with pytest.raises(NotFound), database.transaction() as session:
        deliveries.redeliver(session, claimed.id, "other")
    with database.transaction() as session:
        assert deliveries.redeliver(session, claimed.id, "default").state is DeliveryState.PENDING
    (again,) = claim(database)
    assert (again.id, again.attempt, again.body) == (claimed.id, 2, claimed.body)
    record(database, again)
    with database.transaction() as session:
        endpoints.get(session, webhook_id, "default").enabled = False
    with pytest.raises(Conflict, match="disabled"), database.transaction() as session:
        deliveries.redeliver(session, claimed.id, "default")


def test_both_secrets_sign_for_a_day_after_a_rotation(database: Database) -> None:
    webhook_id = register(database)
    with database.transaction() as session:
        old = endpoints.get(session, webhook_id, "default").secret
        new = endpoints.rotate(session, webhook_id, "default").secret
    end_jobs(database, 2)
    (claimed,) = claim(database, places=1)
    assert claimed.secrets == (new, old)
    with database.transaction() as session:
        endpoints.get(session, webhook_id, "default").previous_secret_until = 1.0
    (later,) = claim(database, places=1)
    assert later.secrets == (new,)


def test_old_deliveries_are_deleted_and_pending_ones_kept(database: Database) -> None:
    register(database)
    end_jobs(database, 2)
    (claimed,) = claim(database, places=1)
    record(database, claimed)
    with database.transaction() as session:
        session.execute(update(WebhookDelivery).values(created_at=1.0))
        endpoints.delete_old(session, before=1e12)
        left = deliveries.page(session, "default").items
    assert [one.state for one in left] == [DeliveryState.PENDING]


def test_the_number_of_webhooks_of_a_tenant_is_bounded(database: Database) -> None:
    for _ in range(endpoints.MAX_WEBHOOKS):
        register(database)
    with pytest.raises(Conflict, match="delete one first"):
        register(database)
    register(database, tenant="other")
