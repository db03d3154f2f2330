"""Limits of request bodies, and the process that parses large ones."""

from __future__ import annotations

import json
import os
import signal
import socket
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from http import HTTPStatus

import anyio
import pytest

from d4explain.contracts.errors import InvalidInput
from service.app import create_app
from service.context import LARGE_BODY_BYTES, handle_body
from service.http.faults import Fault, InvalidRequestError
from service.http.json_bodies import MalformedJsonError
from service.http.middleware.body_limits import BodyDeadlines, BodyLimit, BodyMemory
from service.http.problems import ProblemError
from store.errors import GnnNotReady, IdempotencyMismatch, NotFound

MB = 1_000_000
ERRORS = [
    InvalidRequestError([Fault("/graphs/0", "has no nodes"), Fault("name", "is odd", "query")]),
    MalformedJsonError("line 1, column 2: what"),
    NotFound("gnn", "gnn_1"),
    NotFound("gnn", "gnn_1", "another text"),
    GnnNotReady("gnn_1", "probing"),
    InvalidInput("the weights are wrong", "/weights", faults=[]),
    IdempotencyMismatch("a" * 100),
    ProblemError(HTTPStatus.CONFLICT, "slug", "detail", [Fault("/a", "b")], {"X": "y"}, more=1),
]


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


def test_weights_have_their_own_limit(served):
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


def test_routes_without_a_body_have_a_limit(served):
    answer = served.client.post("/v1/jobs/job_1/cancel", content=b" " * 300_000)
    check_too_large(answer, 200_000)
    answer = served.client.post("/nowhere", content=b" " * 300_000)
    check_too_large(answer, 200_000)


def test_expect_100_continue_is_rejected_before_the_body(served):
    url = served.client.base_url
    with socket.create_connection((url.host, url.port), timeout=10) as connection:
        connection.sendall(
            b"POST /v1/datasets HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 104857600\r\nExpect: 100-continue\r\n\r\n"
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_stalled_body_is_rejected_and_releases_its_memory():
    """A client that declares a body and never sends it must not hold memory."""
    answers = []

    async def reads_body(scope, receive, send):
        while (await receive()).get("more_body"):
            pass

    async def stalled():
        await anyio.sleep(60)

    async def send(message):
        answers.append(message)

    async def run():
        memory = BodyMemory(2 * MB)
        deadlines = BodyDeadlines(idle_seconds=0.05)
        limited = BodyLimit(reads_body, lambda _: MB, memory, deadlines=deadlines)
        with pytest.raises(ProblemError) as rejected:
            await limited(posted(MB), stalled, send)
        assert rejected.value.status == 408
        assert await memory.take("10.0.0.1", MB) == MB

    anyio.run(run)


def test_a_slow_body_is_rejected():
    async def reads_body(scope, receive, send):
        while (await receive()).get("more_body"):
            pass

    async def trickle():
        await anyio.sleep(0.02)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def run():
        deadlines = BodyDeadlines(idle_seconds=1, min_seconds=0.2, min_bytes_per_second=1e9)
        limited = BodyLimit(reads_body, lambda _: MB, BodyMemory(2 * MB), deadlines=deadlines)
        with anyio.fail_after(5), pytest.raises(ProblemError) as rejected:
            await limited(posted(MB), trickle, None)
        assert rejected.value.slug == "body-too-slow"

    anyio.run(run)


def posted(size, client="10.0.0.1"):
    headers = [(b"content-length", str(size).encode())]
    return {"type": "http", "path": "/v1/datasets", "headers": headers, "client": (client, 1)}


def test_large_bodies_share_bounded_memory():
    """Bodies that do not fit wait unread until the timeout; one client gets at most half."""

    async def run():
        memory = BodyMemory(4 * MB, timeout_seconds=0.1)
        assert await memory.take("10.0.0.1", 2 * MB) == 2 * MB
        assert await memory.take("10.0.0.1", MB) is None  # the client's half is in use
        assert await memory.take("10.0.0.2", 2 * MB) == 2 * MB
        assert await memory.take("10.0.0.3", MB) is None  # everything is in use
        async with anyio.create_task_group() as tasks:
            granted = []

            async def take(client, size):
                granted.append((client, await memory.take(client, size)))

            tasks.start_soon(take, "10.0.0.3", MB)
            await anyio.wait_all_tasks_blocked()
            memory.release("10.0.0.2", 2 * MB)
        assert granted == [("10.0.0.3", MB)]
        memory.release("10.0.0.1", 2 * MB)
        memory.release("10.0.0.3", MB)
        assert await memory.take("10.0.0.9", 100 * MB) == 2 * MB  # counts as one client's half
        assert await memory.take("10.0.0.8", 2 * MB) == 2 * MB

    anyio.run(run)


def test_a_body_without_memory_is_rejected_unread():
    read = []
    sent = []

    async def app(scope, receive, send):
        read.append(scope)

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    async def run():
        memory = BodyMemory(2 * MB, timeout_seconds=0.01)
        limited = BodyLimit(app, lambda _: MB, memory)
        await memory.take("10.0.0.1", MB)
        await limited(posted(MB), receive, send)

    anyio.run(run)
    assert read == []
    assert sent[0]["status"] == 503
    assert dict(sent[0]["headers"])[b"retry-after"] == b"5"


def test_a_large_body_is_parsed_in_another_process(served):
    """Parsing holds the GIL; for a body of megabytes this would block requests for seconds."""
    settings = served.store.settings
    assert settings.max_body_bytes < LARGE_BODY_BYTES  # the fixture's limit is small
    parsed_by = []

    async def run(context):
        parsed_by.append(await handle_body(context, LARGE_BODY_BYTES, process_of))
        parsed_by.append(await handle_body(context, LARGE_BODY_BYTES + 1, process_of))

    with served_context(served) as context:
        anyio.run(run, context)
    assert parsed_by[0] == os.getpid()
    assert parsed_by[1] != os.getpid()


@pytest.mark.parametrize("index", range(len(ERRORS)), ids=lambda i: type(ERRORS[i]).__name__)
def test_errors_of_the_reading_process_are_raised_unchanged(served, index):
    async def run(context):
        await handle_body(context, LARGE_BODY_BYTES + 1, raise_error, index)

    expected = ERRORS[index]
    with served_context(served) as context, pytest.raises(type(expected)) as raised:
        anyio.run(run, context)
    assert str(raised.value) == str(expected)
    assert vars(raised.value) == vars(expected)


def test_a_large_reference_set_is_stored(deployed):
    """The reading process parses this body; answers and errors are the same as for small ones."""
    graph = {"x": [[1.0]] * 500, "edge_index": [list(range(499)), list(range(1, 500))]}
    body = json.dumps({"name": "large", "graphs": [graph] * 400}).encode()
    assert len(body) > LARGE_BODY_BYTES
    headers = {"Content-Type": "application/json"}
    client = deployed().client
    answer = client.post("/v1/datasets", content=body, headers=headers)
    assert answer.status_code == 201, answer.text
    assert answer.json()["graph_count"] == 400
    broken = body.replace(b'"name": "large"', b'"name": 5')
    answer = client.post("/v1/datasets", content=broken, headers=headers)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/name"
    answer = client.post("/v1/datasets", content=body[:-1], headers=headers)
    assert answer.status_code == 400


@contextmanager
def served_context(served):
    context = create_app(served.store).state.context
    try:
        yield context
    finally:
        context.close()


def test_a_killed_reading_process_is_replaced(served):
    """The body in progress fails; a new process reads the next body."""

    async def run(context):
        with pytest.raises(BrokenProcessPool):
            await handle_body(context, LARGE_BODY_BYTES + 1, kill_own_process)
        return await handle_body(context, LARGE_BODY_BYTES + 1, process_of)

    with served_context(served) as context:
        assert anyio.run(run, context) != os.getpid()


def kill_own_process(store):
    os.kill(os.getpid(), signal.SIGKILL)


def process_of(store):
    return os.getpid()


def raise_error(store, index):
    raise ERRORS[index]
