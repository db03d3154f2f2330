"""Webhooks of MLflow: signatures, times, repetitions and hostile requests, over a real socket.

tests/integration/test_mlflow.py has the sender of MLflow itself.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from d4explain.errors import CommandError
from d4explain.mlflow.webhook_listener import MAX_BODY_BYTES, listening, webhook_app
from d4explain.mlflow.webhook_signatures import TOLERANCE_SECONDS, Verdict, WebhookVerifier

SECRET = "a secret of enough characters"
NOW = 1_795_000_000.0
EVENT: dict[str, Any] = {
    "entity": "model_version",
    "action": "created",
    "timestamp": "2026-11-19T06:00:00+00:00",
    "data": {"name": "rings", "version": "1", "source": "runs:/1", "run_id": "1", "tags": {}},
}


def body_of(**changes: Any) -> bytes:
    return json.dumps({**EVENT, **changes}).encode()


def signed(
    body: bytes, delivery: str = "one", *, secret: str = SECRET, at: float = NOW
) -> dict[str, str]:
    """Headers as the documentation of MLflow describes them."""
    timestamp = str(int(at))
    content = b".".join([delivery.encode(), timestamp.encode(), body])
    digest = hmac.new(secret.encode(), content, hashlib.sha256).digest()
    return {
        "X-MLflow-Signature": f"v1,{base64.b64encode(digest).decode()}",
        "X-MLflow-Timestamp": timestamp,
        "X-MLflow-Delivery-Id": delivery,
    }


def verdict(headers: dict[str, str], body: bytes, now: float = NOW) -> Verdict:
    return WebhookVerifier(SECRET, lambda: now).check(Headers(headers), body)


def test_a_signed_webhook_is_accepted_once() -> None:
    verifier = WebhookVerifier(SECRET, lambda: NOW)
    headers = Headers(signed(body_of()))
    assert verifier.check(headers, body_of()) is Verdict.ACCEPTED
    assert verifier.check(headers, body_of()) is Verdict.REPEATED
    assert verifier.check(Headers(signed(body_of(), "two")), body_of()) is Verdict.ACCEPTED


@given(
    position=st.integers(0, 10_000),
    change=st.integers(1, 255),
    part=st.sampled_from(["body", "X-MLflow-Signature", "X-MLflow-Delivery-Id"]),
)
def test_no_changed_byte_is_accepted(position: int, change: int, part: str) -> None:
    body, headers = body_of(), signed(body_of())
    if part == "body":
        changed = bytearray(body)
        changed[position % len(body)] ^= change
        body = bytes(changed)
    else:
        text = bytearray(headers[part].encode())
        text[position % len(text)] = (text[position % len(text)] + change) % 94 + 33
        if text.decode() == headers[part]:
            return
        headers[part] = text.decode()
    assert verdict(headers, body) is not Verdict.ACCEPTED


@given(st.integers(-100_000, 100_000))
def test_only_recent_timestamps_are_accepted(seconds: int) -> None:
    found = verdict(signed(body_of(), at=NOW + seconds), body_of())
    is_recent = abs(seconds) <= TOLERANCE_SECONDS
    assert found is (Verdict.ACCEPTED if is_recent else Verdict.OLD)


@pytest.mark.parametrize("missing", ["Signature", "Timestamp", "Delivery-Id"])
def test_all_headers_are_needed(missing: str) -> None:
    headers = signed(body_of())
    del headers[f"X-MLflow-{missing}"]
    assert verdict(headers, body_of()) is Verdict.UNSIGNED


@pytest.mark.parametrize("timestamp", ["", "now", "-1", "1e9", "\u00b2", "9" * 40])
def test_a_timestamp_that_is_no_number_is_refused(timestamp: str) -> None:
    headers = {**signed(body_of()), "X-MLflow-Timestamp": timestamp}
    assert verdict(headers, body_of()) is Verdict.UNSIGNED


def test_ids_are_remembered_as_long_as_their_timestamp_is_accepted() -> None:
    clock = [NOW]
    verifier = WebhookVerifier(SECRET, lambda: clock[0])
    headers = Headers(signed(body_of(), at=NOW + TOLERANCE_SECONDS))  # a clock that is ahead
    assert verifier.check(headers, body_of()) is Verdict.ACCEPTED
    clock[0] = NOW + 2 * TOLERANCE_SECONDS
    assert verifier.check(headers, body_of()) is Verdict.REPEATED
    clock[0] += 1
    assert verifier.check(headers, body_of()) is Verdict.OLD


def test_the_memory_for_ids_is_bounded() -> None:
    clock = [NOW]
    verifier = WebhookVerifier(SECRET, lambda: clock[0])

    def check(delivery: str) -> Verdict:
        return verifier.check(Headers(signed(b"{}", delivery, at=clock[0])), b"{}")

    for number in range(10_000):
        assert check(f"{number}") is Verdict.ACCEPTED
    assert check("one more") is Verdict.TOO_MANY
    clock[0] += TOLERANCE_SECONDS + 1
    assert check("one more") is Verdict.ACCEPTED


# Over HTTP.


class Receiver:
    def __init__(self) -> None:
        self.models: list[str] = []
        self.lines: list[str] = []
        self.url = ""

    def post(self, body: bytes, headers: dict[str, str] | None = None) -> httpx.Response:
        return httpx.post(self.url, content=body, headers=headers or signed(body))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    verifier = WebhookVerifier(SECRET, lambda: NOW)
    app = webhook_app(verifier, found.models.append, found.lines.append)
    with listening(app, "127.0.0.1:0") as found.url:
        yield found


def test_a_webhook_names_the_model_to_look_at(receiver: Receiver) -> None:
    assert receiver.post(body_of()).status_code == 204
    alias = body_of(entity="model_version_alias", data={"name": "rings", "alias": "production"})
    assert receiver.post(alias, signed(alias, "two")).status_code == 204
    assert receiver.models == ["rings", "rings"]
    assert receiver.lines == [
        "webhook model_version.created: rings",
        "webhook model_version_alias.created: rings",
    ]


def test_other_events_are_accepted_and_do_nothing(receiver: Receiver) -> None:
    prompt = body_of(entity="prompt_version")
    assert receiver.post(prompt).status_code == 204
    assert receiver.models == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (lambda body: {}, 401),
        (lambda body: signed(body, secret="another secret of enough"), 401),
        (lambda body: signed(body, at=NOW - 3600), 401),
        (lambda body: signed(b"another body"), 401),
    ],
)
def test_what_is_not_signed_is_refused(
    receiver: Receiver, headers: Callable[[bytes], dict[str, str]], status: int
) -> None:
    body = body_of()
    answer = receiver.post(body, {"Content-Type": "application/json", **headers(body)})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert receiver.models == []


def test_a_repeated_delivery_is_refused(receiver: Receiver) -> None:
    assert receiver.post(body_of()).status_code == 204
    assert receiver.post(body_of()).status_code == 409
    assert receiver.models == ["rings"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b'{"entity": 1, "action": 2}'])
def test_a_signed_body_of_another_form_is_refused(receiver: Receiver, body: bytes) -> None:
    assert receiver.post(body).status_code == 400
    assert receiver.models == []


def test_a_large_body_is_refused_before_it_is_read_whole(receiver: Receiver) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 100 * MAX_BODY_BYTES:
            sent += 65536
            yield bytes(65536)

    try:
        answer = httpx.post(receiver.url, content=endless(), headers=signed(b""))
    except httpx.WriteError:  # the server has closed the connection
        pass
    else:
        assert answer.status_code == 413
    assert sent < 100 * MAX_BODY_BYTES


def test_other_paths_and_methods_do_not_exist(receiver: Receiver) -> None:
    root = receiver.url.removesuffix("/mlflow-webhook")
    assert httpx.get(receiver.url).status_code == 405
    assert httpx.post(f"{root}/", content=b"").status_code == 404
    assert httpx.get(f"{root}/livez").json() == {"status": "ok"}


def test_a_body_that_never_ends_keeps_no_connection(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("d4explain.mlflow.webhook_listener.BODY_SECONDS", 0.2)
    host, port = receiver.url.removeprefix("http://").split("/")[0].split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(
            b"POST /mlflow-webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"
        )
        assert b" 408 " in connection.recv(4096)


@pytest.mark.parametrize("address", ["", "8401", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    app = webhook_app(WebhookVerifier(SECRET), lambda _: None, lambda _: None)
    with pytest.raises(CommandError, match="HOST:PORT"), listening(app, address):
        pass


def test_an_address_in_use_is_refused(receiver: Receiver) -> None:
    address = receiver.url.removeprefix("http://").split("/")[0]
    app = webhook_app(WebhookVerifier(SECRET), lambda _: None, lambda _: None)
    with pytest.raises(CommandError, match="cannot listen"), listening(app, address):
        pass
