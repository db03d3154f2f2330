"""Bodies and requests beyond the limits, against a real server."""

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
from service.context import LARGE_BODY_BYTES, reading_body
from service.http.body_limits import BodyDeadlines, BodyLimit, BodyMemory
from service.http.faults import Fault, InvalidRequestError
from service.http.json_bodies import MalformedJsonError
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


def test_a_body_that_stops_is_refused_and_gives_its_room_back():
    """A client that declares a body and never sends it must not hold memory or a slot."""
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
        with pytest.raises(ProblemError) as refused:
            await limited(posted(MB), stalled, send)
        assert refused.value.status == 408
        assert await memory.take("10.0.0.1", MB) == MB

    anyio.run(run)


def test_a_body_that_trickles_in_is_refused():
    async def reads_body(scope, receive, send):
        while (await receive()).get("more_body"):
            pass

    async def trickle():
        await anyio.sleep(0.02)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def run():
        deadlines = BodyDeadlines(idle_seconds=1, least_seconds=0.2, least_bytes_per_second=1e9)
        limited = BodyLimit(reads_body, lambda _: MB, BodyMemory(2 * MB), deadlines=deadlines)
        with anyio.fail_after(5), pytest.raises(ProblemError) as refused:
            await limited(posted(MB), trickle, None)
        assert refused.value.slug == "body-too-slow"

    anyio.run(run)


def posted(size, client="10.0.0.1"):
    headers = [(b"content-length", str(size).encode())]
    return {"type": "http", "path": "/v1/datasets", "headers": headers, "client": (client, 1)}


def test_large_bodies_share_bounded_memory():
    """Bodies that find no room wait unread, then are told to come back; one client gets half."""

    async def run():
        memory = BodyMemory(4 * MB, timeout_seconds=0.1)
        assert await memory.take("10.0.0.1", 2 * MB) == 2 * MB
        assert await memory.take("10.0.0.1", MB) is None  # its half is used
        assert await memory.take("10.0.0.2", 2 * MB) == 2 * MB
        assert await memory.take("10.0.0.3", MB) is None  # all is used
        async with anyio.create_task_group() as tasks:
            granted = []

            async def take(client, size):
                granted.append((client, await memory.take(client, size)))

            tasks.start_soon(take, "10.0.0.3", MB)
            await anyio.wait_all_tasks_blocked()
            memory.give_back("10.0.0.2", 2 * MB)
        assert granted == [("10.0.0.3", MB)]
        memory.give_back("10.0.0.1", 2 * MB)
        memory.give_back("10.0.0.3", MB)
        assert await memory.take("10.0.0.9", 100 * MB) == 2 * MB  # counts as one client's half
        assert await memory.take("10.0.0.8", 2 * MB) == 2 * MB

    anyio.run(run)


def test_a_body_without_room_is_refused_before_it_is_read():
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
    """Parsing holds Python's lock for seconds; a body of megabytes must not do that here."""
    settings = served.store.settings
    assert settings.max_body_bytes < LARGE_BODY_BYTES  # the fixture's limit is small
    parsed_by = []

    async def run(context):
        parsed_by.append(await reading_body(context, LARGE_BODY_BYTES, process_of))
        parsed_by.append(await reading_body(context, LARGE_BODY_BYTES + 1, process_of))

    with served_context(served) as context:
        anyio.run(run, context)
    assert parsed_by[0] == os.getpid()
    assert parsed_by[1] != os.getpid()


@pytest.mark.parametrize("place", range(len(ERRORS)), ids=lambda i: type(ERRORS[i]).__name__)
def test_errors_come_back_from_the_reading_process_unchanged(served, place):
    async def run(context):
        await reading_body(context, LARGE_BODY_BYTES + 1, raise_error, place)

    expected = ERRORS[place]
    with served_context(served) as context, pytest.raises(type(expected)) as raised:
        anyio.run(run, context)
    assert str(raised.value) == str(expected)
    assert vars(raised.value) == vars(expected)


def test_a_large_reference_set_is_stored(deployed):
    """The whole road of a body that the reading process parses, answers and errors alike."""
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


def test_a_reading_process_that_is_killed_is_replaced(served):
    """The body that it was reading fails; the next one is read."""

    async def run(context):
        with pytest.raises(BrokenProcessPool):
            await reading_body(context, LARGE_BODY_BYTES + 1, kill_own_process)
        return await reading_body(context, LARGE_BODY_BYTES + 1, process_of)

    with served_context(served) as context:
        assert anyio.run(run, context) != os.getpid()


def kill_own_process(store):
    os.kill(os.getpid(), signal.SIGKILL)


def process_of(store):
    return os.getpid()


def raise_error(store, place):
    raise ERRORS[place]
