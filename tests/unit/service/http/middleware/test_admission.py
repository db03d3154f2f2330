"""Limits of concurrent requests, per kind and client, and of request headers."""

from __future__ import annotations

import json
import socket
import threading
import time
from http.client import HTTPResponse

import anyio
import httpx
import pytest
import uvicorn

from service.app import create_app
from service.http import server_protocol as http_protocol
from service.http.middleware.admission import Admission, Capacity, RequestKind
from service.http.problems import problem
from service.http.server_protocol import BoundedHttpProtocol

UPLOADS = "/v1/datasets/large"


class LimitedApp:
    """An application behind `Admission` that answers when `released` is set."""

    def __init__(self, **limits):
        self.released = anyio.Event()
        self.answers = []
        self.limited = Admission(self.slow, Capacity(**limits), UPLOADS)

    async def slow(self, scope, receive, send):
        await self.released.wait()
        await problem(404, "x", "y")(scope, receive, send)

    async def call(self, path, client="10.0.0.1"):
        async def send(message):
            if message["type"] == "http.response.start":
                headers = dict(message["headers"])
                self.answers.append((path, message["status"], headers.get(b"retry-after")))

        await self.limited({"type": "http", "path": path, "client": (client, 5)}, None, send)


def test_requests_beyond_the_limit_get_503_with_retry_after():
    async def run():
        app = LimitedApp(requests=2)
        async with anyio.create_task_group() as tasks:
            for client in ("10.0.0.1", "10.0.0.2"):
                tasks.start_soon(app.call, "/a", client)
            await anyio.wait_all_tasks_blocked()
            await app.call("/c", "10.0.0.3")
            for path in ("/livez", "/readyz", "/metrics"):
                tasks.start_soon(app.call, path, "10.0.0.3")
            await anyio.wait_all_tasks_blocked()
            assert app.answers == [("/c", 503, b"1")]
            app.released.set()
        await app.call("/d")
        assert sorted(path for path, status, _ in app.answers if status == 404) == [
            *("/a", "/a", "/d", "/livez", "/metrics", "/readyz")
        ]

    anyio.run(run)


def test_one_client_gets_at_most_half():
    async def run():
        app = LimitedApp(requests=4)
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(app.call, "/a")
            await anyio.wait_all_tasks_blocked()
            await app.call("/b")
            assert app.answers == [("/b", 429, b"1")]
            tasks.start_soon(app.call, "/c", "10.0.0.2")
            await anyio.wait_all_tasks_blocked()
            assert len(app.answers) == 1  # another client's request is being served
            app.released.set()

    anyio.run(run)


def test_several_greedy_clients_leave_room_for_others():
    async def run():
        app = LimitedApp(requests=16)
        async with anyio.create_task_group() as tasks:
            for number in range(3):  # they get 8, 4 and 2
                for _ in range(20):
                    tasks.start_soon(app.call, "/greedy", f"10.0.0.{number}")
                await anyio.wait_all_tasks_blocked()
            assert app.answers == [("/greedy", 429, b"1")] * (60 - 14)
            tasks.start_soon(app.call, "/a", "10.0.0.9")
            await anyio.wait_all_tasks_blocked()
            assert len(app.answers) == 60 - 14  # the request of a modest client is being served
            app.released.set()

    anyio.run(run)


@pytest.mark.parametrize("path", ["/v1/jobs/job_1/events", UPLOADS])
def test_streams_and_uploads_do_not_block_other_requests(path):
    async def run():
        app = LimitedApp(requests=2, streams=2, uploads=2)
        async with anyio.create_task_group() as tasks:
            for client in ("10.0.0.1", "10.0.0.2"):
                tasks.start_soon(app.call, path, client)
            await anyio.wait_all_tasks_blocked()
            await app.call(path, "10.0.0.3")
            assert app.answers == [(path, 503, b"1")]
            tasks.start_soon(app.call, "/a", "10.0.0.3")
            await anyio.wait_all_tasks_blocked()
            assert len(app.answers) == 1
            app.released.set()

    anyio.run(run)


class Server:
    """The API with small limits behind a real socket."""

    def __init__(self, store, capacity):
        self.app = create_app(store, capacity=capacity)
        config = uvicorn.Config(
            self.app, http=BoundedHttpProtocol, log_config=None, timeout_graceful_shutdown=2
        )
        self._server = uvicorn.Server(config)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}
        )

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.app.state.context.job_watcher.stop()
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._listener.close()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


@pytest.fixture
def waiting_job(served):
    """A job that no worker runs."""
    return served.explanation()["job"]["id"]


def wait_request(job, headers=""):
    text = f"GET /v1/jobs/{job} HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=60\r\n{headers}\r\n"
    return text.encode()


def test_waiting_ends_when_the_client_disconnects(served, waiting_job):
    capacity = Capacity(requests=4, waits=8)
    with Server(served.store, capacity) as server:
        for _ in range(3):  # more than the limit if the first ones remained
            connections = [server.connect() for _ in range(4)]
            for connection in connections:
                connection.sendall(wait_request(waiting_job))
            time.sleep(0.3)
            for connection in connections:
                connection.close()
            time.sleep(0.3)
        address = f"http://127.0.0.1:{server.port}/v1/jobs/{waiting_job}"
        answer = httpx.get(address, headers={"Prefer": "wait=1"})
        assert answer.headers["preference-applied"] == "wait=1"  # a slot for waiting is free


def test_waiting_requests_do_not_block_others(served, waiting_job):
    with Server(served.store, Capacity(requests=4, waits=4)) as server:
        connections = [server.connect() for _ in range(6)]
        try:
            for connection in connections:
                connection.sendall(wait_request(waiting_job))
                time.sleep(0.05)
            address = f"http://127.0.0.1:{server.port}/v1/jobs/{waiting_job}"
            assert httpx.get(address).status_code == 200
            started = time.monotonic()
            answer = httpx.get(address, headers={"Prefer": "wait=60"})
            # Two requests wait, the limit per client; others get the current state immediately.
            assert time.monotonic() - started < 5
            assert answer.status_code == 200
            assert answer.json()["state"] == "queued"
            assert "preference-applied" not in answer.headers
        finally:
            for connection in connections:
                connection.close()


def test_endless_headers_are_rejected(served):
    url = served.client.base_url
    with socket.create_connection((url.host, url.port), timeout=10) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        sent, started = 0, time.monotonic()
        try:
            while sent < 100_000_000:
                connection.sendall(b"x" * 100_000)
                sent += 100_000
        except OSError:
            pass  # the server rejected the request and closed the connection
        assert time.monotonic() - started < 5
        try:
            answer = connection.recv(4096)
        except ConnectionError:
            answer = b""
    assert sent < 100_000_000 or answer.startswith(b"HTTP/1.1 431 ")
    assert served.client.get("/livez").status_code == 200


def test_headers_above_the_limit_get_431(served):
    url = served.client.base_url
    with socket.create_connection((url.host, url.port), timeout=10) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 70_000)
        head, _, body = connection.recv(4096).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 431 ")
        assert json.loads(body)["type"].endswith("headers-too-large")
        assert connection.recv(10) == b""  # closed


def read_response(connection: socket.socket) -> int:
    """Reads a whole response, which may come in several pieces, and returns its status."""
    response = HTTPResponse(connection)
    response.begin()
    response.read()
    return response.status


def test_slow_headers_get_408(served, monkeypatch):
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.2)
    url = served.client.base_url
    for start in (b"", b"GET /livez HTTP/1.1\r\nHost: local"):
        with socket.create_connection((url.host, url.port), timeout=10) as connection:
            connection.sendall(start)
            assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")
    with socket.create_connection((url.host, url.port), timeout=10) as connection:
        request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.sendall(request)
        assert read_response(connection) == 200
        time.sleep(0.4)  # the deadline starts with the first bytes of the next request
        connection.sendall(request)
        assert read_response(connection) == 200
        connection.sendall(request[:20])
        assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")


def test_request_kinds_have_readable_names():
    assert [str(kind) for kind in RequestKind] == [
        *("requests", "waiting requests", "event streams", "uploads of large graphs")
    ]
