"""Webhooks over HTTP: registered by admins, brought by requests, refused unless allowed."""

from __future__ import annotations

import json
from random import Random
from typing import Any, get_args

import pytest

from d4explain.contracts.webhooks import SendFailure, WebhookEvent
from service.webhook_models import EventName
from store.webhooks import deliveries, endpoints

URL = "https://hooks.example.org/d4"
SECRET = endpoints.new_secret()


@pytest.fixture(scope="module")
def hooked(deployed: Any) -> Any:
    return deployed(
        webhook_hosts="hooks.example.org, 127.0.0.1, other.example.org:8443",
        webhook_private_hosts="127.0.0.1",
    )


def create(api: Any, **body: Any) -> Any:
    created = api.client.post("/v1/webhooks", json={"url": URL, **body})
    assert created.status_code == 201, created.text
    return created.json()


def deliveries_of(api: Any, **query: Any) -> list[Any]:
    return api.client.get("/v1/webhook-deliveries", params=query).json()["items"]


def test_a_webhook_is_created_changed_rotated_and_deleted(hooked: Any) -> None:
    client = hooked.client
    created = create(hooked, events=["job.failed", "explanation.failed"], description="mine")
    secret = created.pop("secret")
    assert secret.startswith("whsec_")
    at = f"/v1/webhooks/{created['id']}"
    assert client.get(at).json() == created
    assert created in client.get("/v1/webhooks").json()["items"]
    assert secret not in client.get("/v1/webhooks").text
    changed = client.patch(at, json={"enabled": False, "events": None}).json()
    assert (changed["enabled"], changed["events"], changed["description"]) == (False, None, "mine")
    rotated = client.post(f"{at}/rotate").json()
    assert rotated["secret"] != secret
    assert rotated["previous_secret_until"] is not None
    assert client.delete(at).status_code == 204
    for method, path in (("GET", at), ("PATCH", at), ("DELETE", at), ("POST", f"{at}/rotate")):
        gone = client.request(method, path, json={} if method == "PATCH" else None)
        assert (gone.status_code, gone.json()["type"]) == (404, "urn:d4explain:problem:not-found")


def test_bodies_name_every_event() -> None:
    assert sorted(get_args(EventName)) == sorted(WebhookEvent)


def test_a_repeated_registration_returns_the_same_webhook(hooked: Any) -> None:
    headers = {"Idempotency-Key": "hook-1"}
    answers = [
        hooked.client.post("/v1/webhooks", json={"url": URL}, headers=headers) for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://evil.example.org/", "not in D4_WEBHOOK_HOSTS"),
        ("http://hooks.example.org/", "must begin with https"),
        ("https://user:secret@hooks.example.org/", "no user name"),
        ("https://hooks.example.org/#part", "no fragment"),
        ("https://hooks.example.org@evil.example.org/", "no user name"),
        ("https://other.example.org/", "not in D4_WEBHOOK_HOSTS"),
        ("ftp://hooks.example.org/", "expected http or https"),
        ("https://hooks.example.org:99999/", "is not a URL"),
        ("https://hooks.example.org/\r\nX-Header: 1", "percent-encoded"),
        ("https://[::1/", "is not a URL"),
        ("hooks.example.org", "expected http or https"),
        ("https://" + "x" * 3000, "at most 2000"),
    ],
)
def test_urls_that_the_deployment_does_not_allow_are_refused(
    hooked: Any, url: str, message: str
) -> None:
    refused = hooked.client.post("/v1/webhooks", json={"url": url})
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["pointer"] == "/url"
    assert message in error["detail"]
    assert "secret" not in refused.text


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "https://OTHER.example.org:8443/?a=b"])
def test_listed_urls_are_accepted(hooked: Any, url: str) -> None:
    assert hooked.client.post("/v1/webhooks", json={"url": url}).status_code == 201


def test_webhooks_are_off_without_hosts(shared_api: Any) -> None:
    refused = shared_api.client.post("/v1/webhooks", json={"url": URL})
    assert refused.status_code == 422
    assert "set D4_WEBHOOK_HOSTS" in refused.text


@pytest.mark.parametrize(
    ("webhook", "pointer"),
    [
        ({"url": URL}, "/webhook/secret"),
        ({"url": URL, "secret": "whsec_c2hvcnQ="}, "/webhook/secret"),
        ({"url": URL, "secret": SECRET.removeprefix("whsec_")}, "/webhook/secret"),
        ({"url": "https://evil.example.org", "secret": SECRET}, "/webhook/url"),
        ({"url": URL, "secret": SECRET, "events": []}, "/webhook/events"),
    ],
)
def test_a_wrong_webhook_of_a_request_is_refused_without_its_secret(
    hooked: Any, webhook: Any, pointer: str
) -> None:
    body = {"gnn": hooked.gnn(), "dataset": hooked.dataset(), "webhook": webhook}
    question = {**body, "kind": "counterfactual", "graph": hooked.graph()}
    for path, sent in (
        ("/v1/explanations", question),
        ("/v1/explanations?dry_run=true", question),
        ("/v1/denoisers", {**body, "objective": "class"}),
    ):
        refused = hooked.client.post(path, json=sent)
        assert refused.status_code == 422
        assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]
        assert SECRET.removeprefix("whsec_") not in refused.text


def test_requests_notify_their_own_webhook_once(hooked: Any) -> None:
    gnn, dataset = hooked.gnn(), hooked.dataset()

    def webhook(name: str) -> Any:
        return {"url": f"{URL}/{name}", "secret": SECRET}

    form = {
        "name": (None, "hooked"),
        "spec": (None, hooked.spec().model_dump_json(), "application/json"),
        "weights": ("w.safetensors", hooked.weights()),
        "webhook": (None, json.dumps(webhook("gnn")), "application/json"),
    }
    registered = hooked.client.post("/v1/gnns", files=form, headers={"Prefer": "wait=0"}).json()
    explained = hooked.client.post(
        "/v1/explanations",
        json={
            **{"kind": "counterfactual", "gnn": gnn, "dataset": dataset, "graph": hooked.graph()},
            "webhook": webhook("explanation"),
        },
    ).json()
    predicted = hooked.client.post(
        f"/v1/gnns/{gnn}/predictions",
        json={"graph": hooked.graph(), "webhook": webhook("predictions")},
        headers={"Prefer": "wait=0"},
    ).json()
    denoiser = {"gnn": gnn, "dataset": dataset, "objective": "counterfactual"}
    hooked.client.post("/v1/denoisers", json={**denoiser, "webhook": webhook("denoiser")})
    hooked.finish(registered["job_id"])
    hooked.finish(predicted["job"]["id"], {"predictions": []})
    hooked.finish_explanation(explained)
    # It is ready: the notification comes at once.
    hooked.client.post("/v1/denoisers", json={**denoiser, "webhook": webhook("ready")})

    with hooked.store.database.transaction() as session:
        claimed = deliveries.claim(
            session,
            places=99,
            full=deliveries.Full(),
            take_place=lambda *_: True,
            lease_seconds=30,
        )
    sent = sorted((one.url.removeprefix(URL), json.loads(one.body)) for one in claimed
                  if one.url.startswith(f"{URL}/"))  # fmt: skip
    assert [(path, message["type"], message["data"]["kind"]) for path, message in sent] == [
        ("/denoiser", "job.succeeded", "train"),
        ("/explanation", "explanation.succeeded", "counterfactual"),
        ("/gnn", "job.succeeded", "probe"),
        ("/predictions", "job.succeeded", "predict"),
        ("/ready", "job.succeeded", "train"),
    ]
    assert {one.secrets for one in claimed if one.url.startswith(f"{URL}/")} == {(SECRET,)}
    assert SECRET not in hooked.client.get(f"/v1/explanations/{explained['id']}").text


@pytest.mark.parametrize("webhook", [None, {"url": URL, "secret": SECRET}])
def test_class_explanations_take_a_webhook(hooked: Any, webhook: Any) -> None:
    body = {"kind": "class", "gnn": hooked.gnn(), "dataset": hooked.dataset(), "target_class": 0}
    accepted = hooked.client.post("/v1/explanations", json={**body, "webhook": webhook})
    assert accepted.status_code == 202, accepted.text


def test_the_log_shows_attempts_and_sends_again(hooked: Any) -> None:
    webhook = create(hooked, events=["job.canceled"])
    job = hooked.client.post(
        f"/v1/gnns/{hooked.gnn()}/predictions",
        json={"graph": hooked.graph()},
        headers={"Prefer": "wait=0"},
    ).json()["job"]
    hooked.client.post(f"/v1/jobs/{job['id']}/cancel")
    (pending,) = deliveries_of(hooked, webhook=webhook["id"])
    assert (pending["state"], pending["attempts"], pending["history"]) == ("pending", 0, [])
    assert pending["body"]["data"]["url"] == f"/v1/jobs/{job['id']}"
    with hooked.store.database.transaction() as session:
        claimed = deliveries.claim(
            session,
            places=99,
            full=deliveries.Full(),
            take_place=lambda group, _: group[1] == webhook["id"],
            lease_seconds=30,
        )
    at = f"/v1/webhook-deliveries/{pending['id']}"
    busy = hooked.client.post(f"{at}/redeliver")
    assert (busy.status_code, busy.json()["type"]) == (409, "urn:d4explain:problem:conflict")
    result = deliveries.AttemptResult(claimed[0], 0.25, 503, SendFailure.STATUS)
    with hooked.store.database.transaction() as session:
        deliveries.record(session, [result], retry_seconds=0, rng=Random(0))
    given_up = hooked.client.get(at).json()
    assert (given_up["state"], given_up["next_attempt_at"]) == ("given_up", None)
    (attempt,) = given_up["history"]
    assert {**attempt, "at": ""} == {
        **{"at": "", "status": 503, "failure": "status", "seconds": 0.25},
    }
    asked = hooked.client.post(f"{at}/redeliver")
    assert (asked.status_code, asked.json()["state"]) == (202, "pending")
    assert deliveries_of(hooked, webhook=webhook["id"], state="given_up") == []
    hooked.client.delete(f"/v1/webhooks/{webhook['id']}")
    assert hooked.client.get(at).status_code == 404
