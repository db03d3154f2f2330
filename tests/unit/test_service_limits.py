"""Bodies and requests beyond the limits, against a real server."""

from __future__ import annotations

import socket

import anyio
import pytest

from service.errors import problem
from service.limits import ConcurrencyLimit

MB = 1_000_000


def check_too_large(answer, limit):
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    document = answer.json()
    assert document["type"].endswith("body-too-large")
    assert document["limit"] == limit
    assert f"{limit:,} bytes" in document["detail"]
    assert document["errors"] == []


@pytest.mark.parametrize("size", [200_001, 100 * MB])
def test_declared_bodies_above_the_limit(served, size):
    before = served.written()
    headers = {"Content-Type": "application/json"}
    answer = served.client.post("/v1/datasets", content=b" " * size, headers=headers)
    check_too_large(answer, 200_000)
    assert f"{size:,} bytes" in answer.json()["detail"]
    assert served.written() == before


@pytest.mark.parametrize("address", ["/v1/datasets", "/v1/explanations", "/v1/gnns/x/predictions"])
def test_chunked_bodies_above_the_limit(served, address):
    before = served.written()
    sent = 0

    def chunks():
        nonlocal sent
        for _ in range(2000):
            sent += 50_000
            yield b" " * 50_000

    headers = {"Content-Type": "application/json"}
    check_too_large(
        served.client.post(address, content=iter(list(chunks())[:8]), headers=headers), 200_000
    )
    assert served.written() == before


def test_a_body_of_exactly_the_limit_is_read(served):
    body = b'{"name": "n"}'.ljust(200_000)
    headers = {"Content-Type": "application/json"}
    answer = served.client.post("/v1/datasets", content=body, headers=headers)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/graphs"


def test_weights_have_a_limit_of_their_own(served):
    files = {
        "name": (None, "n"),
        "spec": (None, served.spec().model_dump_json()),
        "weights": ("w", b"\0" * MB),  # more than a JSON body may have
    }
    answer = served.client.post("/v1/gnns", files=files)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/weights"

    settings = served.store.settings
    limit = settings.max_weights_bytes + settings.max_body_bytes + 2 * 1024 * 1024
    files["weights"] = ("w", b"\0" * (limit + 1))
    check_too_large(served.client.post("/v1/gnns", files=files), limit)


def test_an_address_that_reads_no_body_refuses_it_too(served):
    answer = served.client.post("/v1/jobs/job_1/cancel", content=b" " * 300_000)
    check_too_large(answer, 200_000)
    answer = served.client.post("/nowhere", content=b" " * 300_000)
    check_too_large(answer, 200_000)


def test_an_expected_continue_is_refused_before_the_body(served):
    url = served.client.base_url
    with socket.create_connection((url.host, url.port), timeout=10) as connection:
        connection.sendall(
            b"POST /v1/datasets HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 104857600\r\nExpect: 100-continue\r\n\r\n"
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_too_many_requests_at_once_are_told_to_come_back():
    released = anyio.Event()
    sent = []

    async def slow(scope, receive, send):
        await released.wait()
        await problem(404, "x", "y")(scope, receive, send)

    limited = ConcurrencyLimit(slow, most=2)

    async def call(path):
        async def send(message):
            if message["type"] == "http.response.start":
                sent.append((path, message["status"], dict(message["headers"])))

        await limited({"type": "http", "path": path}, None, send)

    async def run():
        async with anyio.create_task_group() as tasks:
            for path in ("/a", "/b"):
                tasks.start_soon(call, path)
            await anyio.wait_all_tasks_blocked()
            await call("/c")
            tasks.start_soon(call, "/livez")
            await anyio.wait_all_tasks_blocked()
            assert [(path, status) for path, status, _ in sent] == [("/c", 503)]
            assert sent[0][2][b"retry-after"] == b"1"
            released.set()
        await call("/d")

    anyio.run(run)
    assert [path for path, _, _ in sent[1:]] == ["/a", "/b", "/livez", "/d"]
