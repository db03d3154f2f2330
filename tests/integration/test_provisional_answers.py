"""A first answer at once, with a real API, broker and workers, and workers that are killed."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from d4explain.contracts.job_states import JobState

if TYPE_CHECKING:
    from tests.processes import EdgeCounter, ServiceProcess, Stack

# Tests run beside others; the target on an idle machine is 3 s:
# `python -m bench speed --part first-answer`.
GENEROUS_SECONDS = 20.0
SMALL_DENOISER = {"steps": 400, "hidden": 4, "blocks": 1}


def ring(nodes: int) -> dict[str, Any]:
    return {
        "nodes": [{"id": node, "x": [1.0]} for node in range(nodes)],
        "edges": [{"source": node, "target": (node + 1) % nodes} for node in range(nodes)],
    }


@pytest.fixture
def service(stack: Stack) -> ServiceProcess:
    return stack.start_service()


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=90) as opened:
        yield opened


def question(client: httpx.Client, edge_counter: EdgeCounter, **body: Any) -> dict[str, Any]:
    """A question about a probed GNN for which nothing is trained."""
    files = {"spec": json.dumps(edge_counter.spec), "weights": edge_counter.weights}
    gnn = client.post(
        "/v1/gnns", data={"name": "counter"}, files=files, headers={"Prefer": "wait=60"}
    ).json()
    assert gnn["state"] == "ready", gnn
    graphs = [ring(nodes) for nodes in (4, 5, 6, 7)]
    dataset = client.post("/v1/datasets", json={"name": "rings", "graphs": graphs}).json()
    return {"kind": "counterfactual", "gnn": gnn["id"], "dataset": dataset["id"], **body}


@pytest.mark.alone
def test_the_first_answer_about_a_new_gnn_comes_at_once(
    stack: Stack, client: httpx.Client, edge_counter: EdgeCounter
) -> None:
    stack.wait_for(stack.start_worker("train"), stack.start_worker("sample,light"))
    body = question(client, edge_counter, graph=ring(60), denoiser={"steps": 2000})
    started = time.monotonic()
    answer = client.post(
        "/v1/explanations?wait_for=provisional", json=body, headers={"Prefer": "wait=60"}
    )
    seconds = time.monotonic() - started
    assert (answer.status_code, answer.json()["result_stage"]) == (200, "provisional"), answer.text
    assert answer.json()["state"] == "running"
    assert seconds < GENEROUS_SECONDS
    assert client.post(f"/v1/jobs/{answer.json()['job']['id']}/cancel").status_code == 200


def test_nothing_is_lost_if_workers_die_between_provisional_and_final(
    stack: Stack, client: httpx.Client, edge_counter: EdgeCounter
) -> None:
    sampler = stack.start_worker("sample,light")
    stack.wait_for(sampler)
    body = question(client, edge_counter, graph=ring(5), denoiser=SMALL_DENOISER)
    posted = client.post("/v1/explanations", json=body).json()
    states: list[str] = []

    def read() -> dict[str, Any]:
        found: dict[str, Any] = client.get(f"/v1/explanations/{posted['id']}").json()
        states.append(found["state"])
        return found

    stack.until(lambda: read()["result_stage"] == "provisional", "there is a provisional answer")
    first = read()["answers"][0]["sha256"]
    sampler.kill()
    trainer = stack.start_worker("train")
    training = posted["job"]["waiting_for"]

    def is_training() -> bool:
        found = client.get(f"/v1/jobs/{training}").json()
        return bool(found["progress"] and found["progress"]["step"] > 0)

    stack.until(is_training, "the training makes steps")
    trainer.kill()
    stack.start_worker("train,sample,light")
    stack.until(lambda: JobState(read()["state"]).is_terminal, "the explanation has ended", 120)

    ended = read()
    assert (ended["state"], ended["result_stage"]) == ("succeeded", "final"), ended["job"]["error"]
    assert ended["answers"][0]["sha256"] == first
    for answer in ended["answers"]:
        document = client.get(answer["url"]).content
        assert hashlib.sha256(document).hexdigest() == answer["sha256"]
    order = ["queued", "running", "succeeded"]
    assert sorted(states, key=order.index) == states  # they only went forward
    with client.stream("GET", f"/v1/jobs/{posted['job']['id']}/events") as events:
        lines = [line for line in events.iter_lines() if line.startswith(("event:", "data:"))]
    pairs = list(zip(lines[::2], map(_data, lines[1::2]), strict=True))
    assert [data["stage"] for kind, data in pairs if kind.endswith("answer")] == [
        "provisional",
        "final",
    ]
    ends = [d for kind, d in pairs if kind.endswith("state") and JobState(d["state"]).is_terminal]
    assert len(ends) == 1


def _data(line: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return data
