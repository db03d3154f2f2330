"""Evaluations with real processes: a killed worker loses nothing and changes no figure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from sqlalchemy import select

from d4explain.contracts.job_states import JobKind, JobState
from store.database.tables import Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.processes import EdgeCounter, ServiceProcess, Stack

SECONDS = 180.0
TIMES = {"seconds", "cpu_seconds"}


def ring(nodes: int, chords: int = 0) -> dict[str, Any]:
    edges = [(node, (node + 1) % nodes) for node in range(nodes)]
    edges += [(node, node + 2) for node in range(chords)]
    return {
        "nodes": [{"id": node, "x": [1.0]} for node in range(nodes)],
        "edges": [{"source": one, "target": other} for one, other in edges],
        "label": int(nodes + 2 * len(edges) > 16),
    }


@pytest.fixture
def service(stack: Stack) -> ServiceProcess:
    return stack.start_service()


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=90) as opened:
        yield opened


def asked(client: httpx.Client, edge_counter: EdgeCounter) -> dict[str, Any]:
    files = {"spec": json.dumps(edge_counter.spec), "weights": edge_counter.weights}
    gnn = client.post(
        "/v1/gnns", data={"name": "counter"}, files=files, headers={"Prefer": "wait=60"}
    ).json()
    assert gnn["state"] == "ready", gnn
    reference = [ring(nodes) for nodes in (4, 5, 6, 7)] * 4
    tests = [ring(nodes, chords) for nodes in range(20, 36) for chords in range(6)]
    ids = [
        client.post("/v1/datasets", json={"name": name, "graphs": graphs}).json()["id"]
        for name, graphs in (("rings", reference), ("tests", tests))
    ]
    return {
        "gnn": gnn["id"],
        "dataset": ids[0],
        "test": ids[1],
        "explainers": ["search", "random"],
        "metrics": ["mmd", "robustness"],
        "constraints": {"max_edits": 3},
    }


def finished(stack: Stack, client: httpx.Client, path: str) -> dict[str, Any]:
    def state() -> str:
        return str(client.get(path).json()["state"])

    stack.until(lambda: state() in ("succeeded", "failed"), "the evaluation has ended", SECONDS)
    found: dict[str, Any] = client.get(path).json()
    assert found["state"] == "succeeded", found["job"]["error"]
    return found


def figures(evaluation: dict[str, Any]) -> Any:
    """Everything but times."""
    return [
        {name: value for name, value in one.items() if name not in TIMES}
        for one in evaluation["result"]["explainers"]
    ]


def test_a_worker_killed_in_the_middle_loses_nothing_and_changes_no_figure(
    stack: Stack, client: httpx.Client, edge_counter: EdgeCounter
) -> None:
    stack.ensure_workers(2)
    body = asked(client, edge_counter)
    calm = finished(stack, client, client.post("/v1/evaluations", json=body).headers["location"])

    path = client.post("/v1/evaluations", json=body).headers["location"]
    stack.until(lambda: client.get(path).json()["explained_count"] > 0, "rows exist", SECONDS)
    first = client.get(f"{path}/rows?limit=1000").json()["items"]
    killed = stack.workers[0]
    killed.kill()
    assert client.get(path).json()["state"] == "running"
    stack.ensure_workers(2)
    second = finished(stack, client, path)

    assert second["result"]["rows_sha256"] == calm["result"]["rows_sha256"]
    assert figures(second) == figures(calm)
    rows = client.get(f"{path}/rows?limit=1000").json()["items"]
    assert rows[: len(first)] == first  # committed rows were not computed again, nor their times
    with stack.store.database.reading() as session:
        shards = session.scalars(
            select(Job).where(Job.kind == JobKind.EVALUATION_SHARD, Job.subject_id == second["id"])
        ).all()
    assert {shard.state for shard in shards} == {JobState.SUCCEEDED}
    assert max(shard.attempt for shard in shards) == 2, "no shard was running when it was killed"
