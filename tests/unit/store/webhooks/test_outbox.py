"""What is notified of, and when: one notification per end, in the transaction of the end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind, JobState
from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.contracts.webhooks import WebhookEvent
from store import jobs
from store.catalogue import explanations, retries
from store.database.sessions import Database
from store.database.tables import Explanation, Job
from store.database.tables.webhooks import WebhookDelivery
from store.errors import LeaseLost
from store.webhooks import endpoints
from store.webhooks.endpoints import RequestWebhook
from tests.store_rows import claim_job, create_dataset, create_explanation, create_ready_gnn

URL = "https://hooks.example.org/d4"


def sent(session: Session) -> list[WebhookDelivery]:
    session.flush()
    return list(session.scalars(select(WebhookDelivery).order_by(WebhookDelivery.id)))


def events(database: Database) -> list[tuple[str, str]]:
    """Event and id of what ended, in the order of the notifications."""
    with database.reading() as session:
        rows = sorted(sent(session), key=lambda row: row.created_at)
        return [(row.event.value, json.loads(row.body)["data"]["id"]) for row in rows]


def register(database: Database, **options: Any) -> str:
    with database.transaction() as session:
        return endpoints.create(session, url=URL, **{"tenant": "default"} | options).id


def requested(database: Database, **options: Any) -> tuple[Explanation, Job]:
    with database.transaction() as session:
        gnn = create_ready_gnn(session)
        return create_explanation(session, gnn, create_dataset(session), **options)


def succeed(database: Database, job_id: str) -> None:
    with database.transaction() as session:
        jobs.succeed(session, claim_job(session, job_id))


def fail(database: Database, job_id: str) -> None:
    with database.transaction() as session:
        jobs.fail(session, claim_job(session, job_id), "invalid", "no", retryable=False)


def test_an_explanation_with_two_answers_notifies_once_at_its_end(database: Database) -> None:
    explanation, final = requested(database, provisional=True)
    register(database)
    assert explanation.provisional_job_id is not None
    assert final.waiting_for is not None
    with database.transaction() as session:
        claim = claim_job(session, explanation.provisional_job_id)
        explanations.finish_provisional(session, claim, result_digest="4" * 64, summary={})
        jobs.succeed(session, claim)
    assert events(database) == []
    succeed(database, final.waiting_for)
    with database.transaction() as session:
        claim = claim_job(session, final.id)
        explanations.finish(session, claim, result_digest="5" * 64)
        jobs.succeed(session, claim)
    assert events(database) == [
        ("job.succeeded", final.waiting_for),
        ("explanation.succeeded", explanation.id),
    ]
    with database.reading() as session:
        message = json.loads(sent(session)[-1].body)
    assert message["data"] == {
        **{"id": explanation.id, "kind": "counterfactual", "state": "succeeded"},
        **{"url": f"/v1/explanations/{explanation.id}", "job": final.id},
        **{"result_stage": "final", "gnn": explanation.gnn_id},
        **{"dataset": explanation.dataset_id, "denoiser": explanation.denoiser_id},
        "metadata": {},
    }


def test_a_failed_training_ends_the_explanation_with_its_provisional_answer(
    database: Database,
) -> None:
    explanation, final = requested(database, provisional=True)
    register(database, events=[WebhookEvent.EXPLANATION_SUCCEEDED])
    assert explanation.provisional_job_id is not None
    with database.transaction() as session:
        claim = claim_job(session, explanation.provisional_job_id)
        explanations.finish_provisional(session, claim, result_digest="4" * 64, summary={})
        jobs.succeed(session, claim)
    fail(database, final.waiting_for or "")
    assert events(database) == [("explanation.succeeded", explanation.id)]
    with database.reading() as session:
        assert json.loads(sent(session)[0].body)["data"]["result_stage"] == "provisional"


def test_every_terminal_state_is_notified_of_and_a_requeued_job_is_not(database: Database) -> None:
    register(database)
    ids = {}
    with database.transaction() as session:
        for name in ("succeeded", "failed", "canceled", "expired", "requeued"):
            ids[name] = jobs.submit(session, kind=JobKind.PREDICT, tenant=DEFAULT_TENANT).id
    succeed(database, ids["succeeded"])
    fail(database, ids["failed"])
    with database.transaction() as session:
        jobs.cancel(session, ids["canceled"], tenant=DEFAULT_TENANT)
        jobs.expire(session, claim_job(session, ids["expired"]))
        claim = claim_job(session, ids["requeued"])
        jobs.fail(session, claim, "worker", "again", retryable=True)
    assert sorted(events(database)) == sorted(
        (f"job.{name}", id_) for name, id_ in ids.items() if name != "requeued"
    )


def test_a_rolled_back_end_notifies_of_nothing(database: Database) -> None:
    register(database)
    with database.transaction() as session:
        job = jobs.submit(session, kind=JobKind.PREDICT, tenant=DEFAULT_TENANT)

    def cancel_and_fail() -> None:
        with database.transaction() as session:
            jobs.cancel(session, job.id, tenant=DEFAULT_TENANT)
            raise LeaseLost(job.id, 1)

    with pytest.raises(LeaseLost):
        cancel_and_fail()
    assert events(database) == []


def test_other_tenants_disabled_webhooks_and_other_events_are_left_out(database: Database) -> None:
    register(database, tenant="other")
    register(database, events=[WebhookEvent.JOB_FAILED])
    with database.transaction() as session:
        endpoints.create(session, url=URL, tenant="default").enabled = False
        job = jobs.submit(session, kind=JobKind.PREDICT, tenant=DEFAULT_TENANT)
    succeed(database, job.id)
    assert events(database) == []


def test_the_webhook_of_a_request_is_for_its_resource_and_for_retries(database: Database) -> None:
    explanation, final = requested(database)
    with database.transaction() as session:
        other = jobs.submit(session, kind=JobKind.PREDICT, tenant=DEFAULT_TENANT)
        webhook = RequestWebhook(URL, endpoints.new_secret())
        endpoints.add_all(session, [(webhook, jobs.get(session, final.id, tenant=DEFAULT_TENANT))])
    succeed(database, other.id)
    fail(database, final.waiting_for or "")
    assert events(database) == [("explanation.failed", explanation.id)]
    with database.transaction() as session:
        again = retries.retry(session, final.id, tenant=DEFAULT_TENANT)
    with database.transaction() as session:
        jobs.cancel(session, again.id, tenant=DEFAULT_TENANT)
    assert events(database)[1:] == [("explanation.canceled", explanation.id)]


def test_a_request_for_something_that_has_ended_is_notified_of_at_once(database: Database) -> None:
    with database.transaction() as session:
        job = jobs.submit(session, kind=JobKind.TRAIN, subject_id="den_1", tenant=DEFAULT_TENANT)
    succeed(database, job.id)
    with database.transaction() as session:
        webhook = RequestWebhook(URL, endpoints.new_secret())
        ended = jobs.get(session, job.id, tenant=DEFAULT_TENANT)
        assert ended.state is JobState.SUCCEEDED
        endpoints.add_all(session, [(webhook, ended)])
    assert events(database) == [("job.succeeded", job.id)]


def test_a_replay_of_an_explanation_is_a_job_of_its_own(database: Database) -> None:
    explanation, final = requested(database)
    with database.transaction() as session:
        webhook = RequestWebhook(URL, endpoints.new_secret())
        endpoints.add_all(session, [(webhook, jobs.get(session, final.id, DEFAULT_TENANT))])
        replay = jobs.submit(
            session, kind=JobKind.REPLAY, subject_id=explanation.id, tenant=DEFAULT_TENANT
        )
    register(database)
    succeed(database, replay.id)
    assert events(database) == [("job.succeeded", replay.id)]
