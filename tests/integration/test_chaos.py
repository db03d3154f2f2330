"""Kills every process repeatedly while jobs arrive; no job is lost or done twice."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest
from sqlalchemy import func, select

from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from store.database.tables import Job
from store.jobs import EventType, JobState

if TYPE_CHECKING:
    from tests.processes import EdgeCounter, Stack

PREDICTIONS, TRAININGS = 60, 12
SECONDS_OF_CHAOS = 60.0


class Caller:
    """A client that repeats a request with the same key until the API accepts it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._keys = 0

    def post(self, path: str, **arguments: Any) -> dict[str, Any]:
        self._keys += 1
        headers = {"Idempotency-Key": f"chaos-{self._keys}", "Prefer": "wait=0"}
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(httpx.TransportError):
                answer = httpx.post(self._url + path, headers=headers, timeout=5, **arguments)
                assert answer.status_code < 500, answer.text
                assert answer.is_success, answer.text
                document: dict[str, Any] = answer.json()
                return document
            time.sleep(0.1)
        raise TimeoutError(f"{path} was not accepted within 60 s")


def ring(nodes: int) -> dict[str, Any]:
    return {
        "nodes": [{"id": node, "x": [1.0]} for node in range(nodes)],
        "edges": [{"source": node, "target": (node + 1) % nodes} for node in range(nodes)],
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [0, 1])
def test_no_job_is_lost_or_committed_twice(
    many_attempts_stack: Stack, edge_counter: EdgeCounter, seed: int
) -> None:
    stack = many_attempts_stack
    service = stack.start_service()
    port = int(service.url.rsplit(":", 1)[1])
    stack.ensure_workers(2)
    caller = Caller(service.url)
    files = {"spec": json.dumps(edge_counter.spec), "weights": edge_counter.weights}
    gnn = caller.post("/v1/gnns", data={"name": "counter"}, files=files)["id"]
    stack.until(lambda: _gnn_state(service.url, gnn) == "ready", "the GNN is ready")
    dataset = caller.post(
        "/v1/datasets", json={"name": "rings", "graphs": [ring(n) for n in (4, 5, 6, 7)]}
    )["id"]

    def predict(_: int) -> str:
        body = caller.post(f"/v1/gnns/{gnn}/predictions", json={"graph": ring(5)})
        return str(body["job"]["id"])

    def train(position: int) -> str:
        config = {"steps": 300, "hidden": 4, "blocks": 1, "seed": position}
        body = {"gnn": gnn, "dataset": dataset, "objective": "class", "config": config}
        return str(caller.post("/v1/denoisers", json=body)["job"]["id"])

    rng = random.Random(seed)
    submissions = [predict] * PREDICTIONS + [train] * TRAININGS
    rng.shuffle(submissions)
    submitted: list[str] = []
    kills: dict[str, int] = {}
    started = time.monotonic()
    next_kill = started + 2
    for position, submit in enumerate(submissions):
        submitted.append(submit(position))
        while time.monotonic() < started + SECONDS_OF_CHAOS * (position + 1) / len(submissions):
            if time.monotonic() >= next_kill:
                name, kill = rng.choice(_killers(stack, port))
                kill()
                kills[name] = kills.get(name, 0) + 1
                next_kill = time.monotonic() + rng.uniform(1, 4)
            time.sleep(0.05)
    stack.ensure_workers(2)
    stack.until(lambda: _all_ended(stack, submitted), "every job has ended", 240)

    assert sum(kills.values()) >= 10, kills
    assert len(set(submitted)) == len(submissions)
    with stack.store.database.reading() as session:
        total = session.scalar(select(func.count()).select_from(Job))
        assert total == len(submissions) + 1  # and a probe
        for job_id in submitted:
            events = jobs.events(session, job_id, limit=100_000, tenant=DEFAULT_TENANT)
            states = [event.data for event in events if event.type is EventType.STATE]
            assert [state["state"] for state in states].count("succeeded") == 1, (job_id, states)
            assert states[-1]["state"] == "succeeded", (job_id, states)


def _killers(stack: Stack, port: int) -> list[tuple[str, Callable[[], None]]]:
    def worker() -> None:
        alive = [process for process in stack.workers if process.is_alive]
        if alive:
            alive[0].kill()
        while sum(process.is_alive for process in stack.workers) < 2:
            stack.start_worker()

    def child() -> None:
        for parent in stack.workers:
            for process in parent.children()[-1:]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
                return

    def broker(*, loses_files: bool) -> None:
        stack.broker.kill()
        if loses_files:
            stack.broker.delete_files()
        time.sleep(0.3)
        stack.broker.start()

    def api() -> None:
        stack.services[-1].kill()
        stack.start_service(port)

    return [
        ("worker", worker),
        ("child", child),
        ("broker", lambda: broker(loses_files=False)),
        ("broker and its files", lambda: broker(loses_files=True)),
        ("api", api),
    ]


def _all_ended(stack: Stack, submitted: list[str]) -> bool:
    with stack.store.database.reading() as session:
        unfinished = session.scalar(
            select(func.count())
            .select_from(Job)
            .where(Job.id.in_(submitted), Job.state.in_([JobState.QUEUED, JobState.RUNNING]))
        )
    return unfinished == 0


def _gnn_state(url: str, gnn: str) -> str:
    return str(httpx.get(f"{url}/v1/gnns/{gnn}", timeout=5).json()["state"])
