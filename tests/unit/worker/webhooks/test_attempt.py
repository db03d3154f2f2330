"""One attempt: what is sent, how it is signed, and what its failures are called."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from d4explain.contracts.webhooks import SendFailure
from store.outgoing_urls import webhook_rules
from store.settings import Settings
from store.webhooks.deliveries import AttemptResult, ClaimedDelivery
from store.webhooks.endpoints import new_secret
from tests.receivers import Receiver, receiver
from worker.outgoing.pinned_requests import Sender
from worker.webhooks.attempt import attempt_delivery, signatures

PAGE = Path(__file__).parents[4] / "docs" / "webhooks.md"
LOCAL = Settings(webhook_hosts="127.0.0.1", webhook_private_hosts="127.0.0.1")
BODY = '{"type":"job.failed","data":{"id":"job_1","url":"/v1/jobs/job_1"}}'


@pytest.fixture
def target() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


def claimed(url: str, *secrets: str) -> ClaimedDelivery:
    return ClaimedDelivery(
        id="msg_1",
        attempt=1,
        group=("default", "whk_1"),
        webhook_id="whk_1",
        url=url,
        secrets=secrets or (new_secret(),),
        body=BODY,
        claimed_at=time.time(),
        job_id="job_1",
    )


def attempt(delivery: ClaimedDelivery, settings: Settings = LOCAL) -> AttemptResult:
    sender = Sender(webhook_rules(settings), seconds=2, max_answer_bytes=1000, tls=None)
    return asyncio.run(attempt_delivery(sender, delivery))


def test_the_library_verifies_both_signatures_after_a_rotation(target: Receiver) -> None:
    new, old, other = new_secret(), new_secret(), new_secret()
    result = attempt(claimed(target.url, new, old))
    assert (result.status, result.failure) == (204, None)
    (one,) = target.received
    assert one.headers["content-type"] == "application/json"
    assert len(one.headers["webhook-signature"].split(" ")) == 2
    for secret in (new, old):
        assert Webhook(secret).verify(one.body, one.headers)["type"] == "job.failed"
    with pytest.raises(WebhookVerificationError):
        Webhook(other).verify(one.body, one.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new).verify(one.body.replace(b"job_1", b"job_2"), one.headers)


def test_a_signature_is_that_of_the_standard() -> None:
    """The example of the specification's reference libraries."""
    signed = signatures(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        datetime.fromtimestamp(1614265330, UTC),
        '{"test": 2432232314}',
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (200, None),
        (299, None),
        (302, SendFailure.STATUS),
        (404, SendFailure.STATUS),
        (500, SendFailure.STATUS),
    ],
)
def test_only_2xx_counts_as_delivered(
    target: Receiver, status: int, failure: SendFailure | None
) -> None:
    target.status = status
    result = attempt(claimed(target.url))
    assert (result.status, result.failure) == (status, failure)


def test_a_host_that_is_not_listed_any_more_gets_nothing(target: Receiver) -> None:
    for settings in (Settings(), Settings(webhook_hosts="127.0.0.1")):
        result = attempt(claimed(target.url), settings)
        assert (result.status, result.failure) == (None, SendFailure.FORBIDDEN_URL)
    assert target.received == []


def test_an_error_of_the_worker_does_not_stop_the_others(target: Receiver) -> None:
    broken = replace(claimed(target.url), secrets=("whsec_",))
    assert attempt(broken).failure is SendFailure.INTERNAL


def test_the_receiver_in_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    """It accepts a notification once, and refuses a wrong signature."""
    example = PAGE.read_text(encoding="utf-8").partition("<!-- receiver -->\n```python\n")[2]
    names: dict[str, Any] = {}
    exec(example.partition("```")[0], names)
    names["SECRET"] = new_secret()
    server = ThreadingHTTPServer(("127.0.0.1", 0), names["Receiver"])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        genuine = claimed(url, names["SECRET"])
        assert [attempt(genuine).status for _ in range(2)] == [204, 204]
        assert attempt(claimed(url, new_secret())).status == 401
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert capsys.readouterr().out == "job.failed /v1/jobs/job_1\n"
    assert names["seen"] == {"msg_1"}
