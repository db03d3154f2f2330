"""A real stack and a real Chromium; tests are skipped where there is no Chromium."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.processes import EdgeCounter, Stack, opened_stack

CHROMIUM = os.environ.get("D4_TEST_CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no `chromium` on PATH and D4_TEST_CHROMIUM is not set")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def deployment(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Stack]]:
    """A running API with a worker, a GNN `edges` and a reference set `rings`, for all tests."""
    with opened_stack(tmp_path_factory.mktemp("stack")) as stack:
        yield prepared(stack), stack


@pytest.fixture(scope="session")
def address(deployment: tuple[str, Stack]) -> str:
    return deployment[0]


@pytest.fixture(scope="session")
def explanation(address: str) -> str:
    """The id of an answered question about a ring of 5."""
    return answered(address, ring(5))


@pytest.fixture(scope="session")
def class_explanation(address: str) -> str:
    """The id of an answered question about class 0, by a denoiser that is trained for it."""
    body = {
        "kind": "class",
        "gnn": "edges",
        "dataset": "rings",
        "target_class": 0,
        "preset": "fast",
        "denoiser": {"steps": 10, "hidden": 8, "blocks": 1},
    }
    posted = httpx.post(f"{address}/v1/explanations", json=body).json()
    with httpx.stream("GET", f"{address}/v1/jobs/{posted['job']['id']}/events", timeout=120) as log:
        assert [line for line in log.iter_lines() if "succeeded" in line]
    return str(posted["id"])


@pytest.fixture(scope="session")
def evaluation(address: str) -> str:
    """The id of an evaluation of all rings by two explainers."""
    return evaluated(address)


@pytest.fixture(scope="session")
def comparison(address: str, evaluation: str) -> str:
    """The id of a comparison of the two explainers."""
    body = {"baseline": evaluation, "candidate": evaluation}
    body |= {"explainer": "search", "candidate_explainer": "random"}
    headers = {"Prefer": "wait=60"}
    made = httpx.post(f"{address}/v1/comparisons", json=body, headers=headers, timeout=90)
    assert made.json()["state"] == "succeeded", made.text
    return str(made.json()["id"])


def evaluated(address: str, gnn: str = "edges", test: str = "rings") -> str:
    """The id of an evaluation that has ended; nothing is trained for it."""
    body = {
        "gnn": gnn,
        "dataset": "rings",
        "test": test,
        "explainers": ["search", "random"],
        "metrics": ["mmd", "robustness"],
    }
    made = httpx.post(f"{address}/v1/evaluations", json=body)
    assert made.status_code == 202, made.text
    path = f"{address}/v1/evaluations/{made.json()['id']}"
    for _ in range(6):
        found = httpx.get(path, headers={"Prefer": "wait=30"}, timeout=60).json()
        if found["job"]["finished_at"] is not None:
            break
    assert found["state"] == "succeeded", found["job"]["error"]
    return str(found["id"])


def answered(address: str, graph: object, gnn: str = "edges", dataset: str = "rings") -> str:
    """The id of an explanation by search alone."""
    body = {
        "kind": "counterfactual",
        "gnn": gnn,
        "dataset": dataset,
        "graph": graph,
        "explainer": "search",
        "aim": "minimal",
        "judges": "none",
    }
    headers = {"Prefer": "wait=60"}
    answer = httpx.post(f"{address}/v1/explanations", json=body, headers=headers, timeout=90)
    assert answer.json()["state"] == "succeeded", answer.text
    return str(answer.json()["id"])


def ask_page(address: str) -> str:
    """Where to ask the GNN `edges`, whatever else tests have registered."""
    gnn, dataset = (
        httpx.get(f"{address}/v1/{kind}").raise_for_status().json()["id"]
        for kind in ("gnns/edges", "datasets/rings")
    )
    return f"{address}/ask?gnn={gnn}&dataset={dataset}"


def prepared(stack: Stack, queues: str = "train,sample,light") -> str:
    """Starts an API and a worker of these queues; stores the GNN and the reference set."""
    service = stack.start_service()
    worker = stack.start_worker(queues)
    stack.wait_for(worker)
    with httpx.Client(base_url=service.url, timeout=60) as api:
        register(api, "edges")
        graphs = [ring(3 + number % 4) for number in range(24)]
        stored = api.post("/v1/datasets", json={"name": "rings", "graphs": graphs})
        assert stored.status_code == 201, stored.text
    return str(service.url)


def register(api: httpx.Client, name: str) -> None:
    files = {
        "spec": ("spec.json", json.dumps(EdgeCounter.make().spec)),
        "weights": ("weights.safetensors", EdgeCounter.make().weights),
    }
    headers = {"Prefer": "wait=30"}
    registered = api.post("/v1/gnns", data={"name": name}, files=files, headers=headers)
    assert registered.status_code == 201, registered.text


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails the test if a script throws or the browser reports an error."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert not errors, errors


def ring(nodes: int) -> dict[str, Any]:
    return {
        "nodes": [{"id": node, "x": [1.0]} for node in range(nodes)],
        "edges": [{"source": node, "target": (node + 1) % nodes} for node in range(nodes)],
    }


@pytest.fixture
def gnn_files(tmp_path: Path) -> tuple[Path, Path]:
    spec, weights = tmp_path / "spec.json", tmp_path / "weights.safetensors"
    spec.write_text(json.dumps(EdgeCounter.make().spec))
    weights.write_bytes(EdgeCounter.make().weights)
    return spec, weights
