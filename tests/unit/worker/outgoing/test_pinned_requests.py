"""Requests to users' URLs: to checked addresses only, bounded, and without surprises on the way."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from d4explain.contracts.webhooks import SendFailure
from d4explain.stack.ports import free_port
from store.outgoing_urls import UrlRules
from tests.receivers import Receiver, receiver
from worker.outgoing.pinned_requests import Answer, Sender, SendError

HOST = "hooks.invalid"  # only the test's resolver knows it


@pytest.fixture
def target() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


def sender(*answers: list[str], private: bool = True, **options: Any) -> Sender:
    """A sender whose resolver gives these answers in turn, and the last one from then on."""
    left = list(answers) or [["127.0.0.1"]]

    async def resolve(_host: str, _port: int) -> list[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    names = frozenset({HOST, "127.0.0.1"})
    rules = UrlRules(names, names if private else frozenset(), "HOSTS", "PRIVATE_HOSTS", True)
    defaults = {"seconds": 2.0, "max_answer_bytes": 1000, "tls": None, "resolve": resolve}
    return Sender(rules, **{**defaults, **options})


def post(by: Sender, url: str) -> Answer:
    return asyncio.run(by.post(url, b'{"a":1}', {"X-Test": "yes"}))


def named(url: str) -> str:
    """The URL with a name instead of the address."""
    return url.replace("127.0.0.1", HOST)


def failure(by: Sender, url: str) -> SendFailure:
    with pytest.raises(SendError) as failed:
        post(by, url)
    return failed.value.failure


def test_the_name_is_in_the_host_header_and_the_connection_goes_to_the_address(
    target: Receiver,
) -> None:
    answer = post(sender(), named(target.url) + "?a=b")
    assert answer.status == 204
    (one,) = target.received
    assert one.path == "/hook?a=b"
    assert one.headers["host"] == f"{HOST}:{urlsplit(target.url).port}"
    assert (one.headers["x-test"], one.body) == ("yes", b'{"a":1}')


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["::ffff:127.0.0.1"], ["fec0::1"]]
)
def test_a_name_with_an_address_that_is_not_public_is_refused(
    target: Receiver, addresses: list[str]
) -> None:
    refused = failure(sender(addresses, private=False), named(target.url))
    assert refused is SendFailure.FORBIDDEN_ADDRESS
    assert target.received == []


def test_a_name_that_changes_its_address_gains_nothing(target: Receiver) -> None:
    """Each request resolves the name once and uses what it has checked."""
    asked: list[str] = []

    async def rebinding(_host: str, _port: int) -> list[str]:
        asked.append("")
        # Port 9 of this public address does not answer, so the request would need the second one.
        return ["192.88.99.77"] if len(asked) == 1 else ["127.0.0.1"]

    by = sender(private=False, resolve=rebinding, seconds=0.5)
    first = failure(by, named(target.url))
    assert first in (SendFailure.TIMEOUT, SendFailure.CONNECTION)
    assert len(asked) == 1
    assert failure(by, named(target.url)) is SendFailure.FORBIDDEN_ADDRESS
    assert (len(asked), target.received) == (2, [])


def test_an_address_that_refuses_is_skipped(target: Receiver) -> None:
    assert post(sender(["127.0.0.9", "127.0.0.1"]), named(target.url)).status == 204


def test_redirects_are_not_followed(target: Receiver) -> None:
    with receiver() as other:
        target.status, target.headers = 307, {"Location": other.url}
        assert post(sender(), target.url).status == 307
        assert other.received == []


def test_proxies_of_the_environment_are_not_used(
    target: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert post(sender(), target.url).status == 204
        assert proxy.received == []


def test_the_answer_is_read_up_to_its_limit(target: Receiver) -> None:
    target.status, target.body = 200, b"x" * 1000
    assert post(sender(), target.url) == Answer(200, b"x" * 1000, True)
    target.body = b"x" * 10_000_000
    answer = post(sender(), target.url)
    assert (answer.body, answer.is_whole) == (b"x" * 1000, False)


def drip_head(file: Any) -> None:
    """One byte of a header at a time: every read succeeds in time."""
    file.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    for _ in range(200):
        file.write(b"x")
        file.flush()
        time.sleep(0.05)


def drip_body(file: Any) -> None:
    file.write(b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n")
    for _ in range(200):
        file.write(b"x")
        file.flush()
        time.sleep(0.05)


@pytest.mark.parametrize("drip", [drip_head, drip_body])
def test_a_slow_answer_ends_after_the_limit_of_the_whole_request(
    target: Receiver, drip: Any
) -> None:
    target.raw = drip
    started = time.monotonic()
    assert failure(sender(seconds=0.5), target.url) is SendFailure.TIMEOUT
    assert time.monotonic() - started < 5


def test_a_resolver_that_hangs_counts_against_the_limit() -> None:
    async def hanging(_host: str, _port: int) -> list[str]:
        await asyncio.sleep(60)
        return []

    assert failure(sender(resolve=hanging, seconds=0.2), f"http://{HOST}/") is SendFailure.TIMEOUT


def endless_head(file: Any) -> None:
    file.write(b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 1_000_000)


@pytest.mark.parametrize("raw", [lambda file: file.write(b"no HTTP at all\r\n\r\n"), endless_head])
def test_an_answer_that_is_not_http_is_a_protocol_error(target: Receiver, raw: Any) -> None:
    target.raw = raw
    assert failure(sender(), target.url) is SendFailure.PROTOCOL


def test_a_refused_connection_and_an_unknown_host_have_their_own_failures() -> None:
    assert failure(sender(), f"http://127.0.0.1:{free_port()}/") is SendFailure.CONNECTION

    async def unknown(_host: str, _port: int) -> list[str]:
        raise OSError("no such name")

    assert failure(sender(resolve=unknown), f"http://{HOST}/") is SendFailure.UNKNOWN_HOST


def test_tls_checks_the_certificate_for_the_name(
    self_signed: tuple[Path, ssl.SSLContext],
) -> None:
    certificate, context = self_signed
    trusting = ssl.create_default_context(cafile=str(certificate))
    with receiver(context) as target:
        assert post(sender(tls=trusting), target.url).status == 204
        # The certificate is for the address, not for the name that is resolved to it.
        assert failure(sender(tls=trusting), named(target.url)) is SendFailure.CERTIFICATE
        untrusting = ssl.create_default_context()
        assert failure(sender(tls=untrusting), target.url) is SendFailure.CERTIFICATE
    with receiver() as plain:
        url = plain.url.replace("http:", "https:")
        assert failure(sender(tls=trusting), url) is SendFailure.TLS
