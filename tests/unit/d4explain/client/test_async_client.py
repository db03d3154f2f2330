"""Both clients send the same requests; retries, headers and proxies."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from d4explain import AsyncClient, Client, RefusedError, UnreachableError
from d4explain.client.resources import Job
from d4explain.client.transport.operation import run
from d4explain.contracts.requests import DenoiserConfig
from tests.unit.d4explain.client.test_client import FakeJobServer, gnn, job, problem, progress, sse

ANSWERS: dict[str, Any] = {
    "/v1/gnns/g": gnn(),
    "/v1/gnns": {"items": [gnn(), gnn(id="gnn_2")], "next_cursor": None},
    "/v1/jobs/job_1": job("succeeded"),
    "/v1/jobs/job_1/retry": job("queued"),
    "/v1/datasets/large": {
        **{"id": "set_1", "name": "web", "version": 1, "sha256": "0", "graph_count": 1},
        **{"features": 1, "max_nodes": 3, "mean_nodes": 3.0, "mean_edges": 2.0, "large": True},
        "created_at": "now",
    },
}


class Recorder:
    """Answers from `ANSWERS` and keeps the requests, without their idempotency keys."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append((request.method, str(request.url), request.read()))
        return httpx.Response(200, json=ANSWERS[request.url.path])

    async def asynchronous(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        return self(request)


def test_both_clients_send_the_same_requests(tmp_path: Path) -> None:
    lines = tmp_path / "web.ndjson"
    lines.write_bytes(b'{"edge_index": [[0, 1], [1, 2]]}\n' * 100_000)  # several chunks
    blocking, awaiting = Recorder(), Recorder()
    with Client("http://api", transport=httpx.MockTransport(blocking)) as client:
        first: list[Any] = [
            client.gnn("g"),
            list(client.gnns()),
            client.retry("job_1"),
            client.wait("job_1"),
            client.upload_large_graph("web", lines),
        ]

    async def same() -> list[Any]:
        transport = httpx.MockTransport(awaiting.asynchronous)
        async with AsyncClient("http://api", transport=transport) as client:
            return [
                await client.gnn("g"),
                [item async for item in client.gnns()],
                await client.retry("job_1"),
                await client.wait("job_1"),
                await client.upload_large_graph("web", lines),
            ]

    assert asyncio.run(same()) == first
    assert awaiting.requests == blocking.requests
    assert len(blocking.requests) == 5


def test_both_clients_have_the_same_methods_and_parameters() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(getattr(kind, name)).parameters)
            for name in dir(kind)
            if not name.startswith("_") and callable(getattr(kind, name))
        }

    assert methods(Client) == methods(AsyncClient)
    assert len(methods(Client)) > 30
    assert inspect.iscoroutinefunction(AsyncClient.gnn)
    assert not inspect.iscoroutinefunction(Client.gnn)


def test_the_asynchronous_client_follows_events() -> None:
    seen: list[int] = []

    def note(one: Job) -> None:
        seen.append(one.progress.step if one.progress else 0)

    async def wait(url: str) -> str:
        async with AsyncClient(url) as client:
            return str((await client.wait("job_1", on_progress=note)).state)

    with FakeJobServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        server.states = ["running", "succeeded"]
        server.streams = [progress(1, 3) + progress(2, 7) + sse(3, "state", {"state": "succeeded"})]
        assert asyncio.run(wait(server.url)) == "succeeded"
        server.shutdown()
        thread.join()
    assert seen == [0, 3, 7, 0]


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_for_now_is_repeated_with_the_same_key(status: int) -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) == 1:
            refusal = problem(status, "not now")
            refusal.headers["Retry-After"] = "0"
            return refusal
        return httpx.Response(202, json=job("queued"))

    with Client("http://api", transport=httpx.MockTransport(answer)) as client:
        client.retry("job_1")
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_the_asynchronous_client_raises_the_same_errors() -> None:
    async def refused() -> None:
        transport = httpx.MockTransport(lambda _: problem(422, "/seed: is required"))
        async with AsyncClient("http://api", transport=transport) as client:
            await client.gnn("g")

    with pytest.raises(RefusedError, match="/seed: is required"):
        asyncio.run(refused())


def test_headers_are_sent_with_every_request() -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["X-Gateway"])
        return httpx.Response(200, json=gnn())

    transport = httpx.MockTransport(answer)
    with Client("http://api", headers={"X-Gateway": "k"}, transport=transport) as client:
        client.gnn("g")
    assert sent == ["k"]


def test_requests_go_through_the_proxy() -> None:
    """The proxy answers itself, for a host that does not exist."""
    with FakeJobServer() as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.01,))
        thread.start()
        proxy.states = ["succeeded"]
        with Client("http://nowhere.invalid", proxy=proxy.url) as client:
            assert client.job("job_1").is_done
        proxy.shutdown()
        thread.join()
    with (
        Client("http://nowhere.invalid", attempts=1) as client,
        pytest.raises(UnreachableError, match=r"nowhere\.invalid"),
    ):
        client.job("job_1")


def test_an_operation_that_suspends_is_an_error() -> None:
    async def suspends() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="suspended"):
        run(suspends())


def test_options_are_sent_as_json() -> None:
    bodies: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        body = {"id": "exp_1", "kind": "counterfactual", "gnn": "gnn_1", "dataset": "set_1"}
        body |= {"denoiser": None, "state": "queued", "created_at": "now", "result": None}
        return httpx.Response(202, json={**body, "job": job("queued")})

    with Client("http://api", transport=httpx.MockTransport(answer)) as client:
        client.explain("g@2", "CCO", denoiser=DenoiserConfig(steps=5), target_class="toxic")
    assert bodies == [
        {
            "kind": "counterfactual",
            "gnn": "g@2",
            "dataset": "g",
            "graph": {"smiles": "CCO"},
            "denoiser": {"recipe": "default", "steps": 5, "seed": 0},
            "target_class": "toxic",
        }
    ]
