"""An upgrade without a stop: programs of two job formats side by side on one database."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from store.database.tables import Job
from store.jobs.submission import JOB_FORMAT
from tests.newer_program import newer_program
from tests.processes import (
    EdgeCounter,
    ServiceProcess,
    Stack,
    WorkerProcess,
    opened_stack,
)


@pytest.fixture
def upgraded_stack(tmp_path: Path) -> Iterator[Stack]:
    # A job whose message is dropped would wait for the next one for longer than the test.
    with opened_stack(tmp_path, redispatch_seconds=1000.0) as running:
        yield running


def register(api: ServiceProcess, edge_counter: EdgeCounter) -> str:
    """Registers a GNN and returns its probe job."""
    files = {"spec": json.dumps(edge_counter.spec), "weights": edge_counter.weights}
    answer = httpx.post(
        f"{api.url}/v1/gnns",
        data={"name": "counter"},
        files=files,
        headers={"Prefer": "wait=0"},
        timeout=30,
    )
    return str(answer.raise_for_status().json()["job_id"])


def read_job(stack: Stack, job_id: str) -> Job:
    with stack.store.database.reading() as session:
        job = session.get(Job, job_id)
    assert job is not None
    return job


def attempts_in_log(worker: WorkerProcess, job_id: str) -> int:
    records = [json.loads(line) for line in worker.log.read_text().splitlines() if line[:1] == "{"]
    return sum(
        record["message"].startswith("Starting attempt") and record.get("job") == job_id
        for record in records
    )


@pytest.mark.timeout(600)
def test_an_older_worker_leaves_the_jobs_of_a_newer_api(
    upgraded_stack: Stack, tmp_path: Path, edge_counter: EdgeCounter
) -> None:
    stack, newest = upgraded_stack, newer_program(tmp_path / "newer")
    old_api, new_api = stack.start_service(), stack.start_service(folder=newest)
    old_worker = stack.start_worker()
    stack.wait_for(old_worker)

    newer = register(new_api, edge_counter)
    assert read_job(stack, newer).format == JOB_FORMAT + 1
    stack.until(lambda: read_job(stack, newer).dispatches == 1, "it is announced", 60)
    time.sleep(2)  # the older worker is idle
    waiting = read_job(stack, newer)
    assert (waiting.state, waiting.attempt, waiting.lease_owner) == ("queued", 0, None)
    health = httpx.get(f"{new_api.url}/readyz").json()
    assert f"have format {JOB_FORMAT + 1}" in json.dumps(health)

    older = register(old_api, edge_counter)
    stack.until(lambda: read_job(stack, older).state == "succeeded", "the older worker works", 60)
    assert read_job(stack, newer).state == "queued"

    new_worker = stack.start_worker(folder=newest)
    stack.wait_for(new_worker)
    stack.until(lambda: read_job(stack, newer).state == "succeeded", "the newer worker works", 90)
    assert read_job(stack, newer).attempt == 1
    assert (attempts_in_log(old_worker, newer), attempts_in_log(new_worker, newer)) == (0, 1)
    assert attempts_in_log(old_worker, older) == 1
    assert old_worker.is_alive

    # The upgrade ends: the newer worker also does the jobs of an API that is still the older one.
    old_worker.kill()
    older = register(old_api, edge_counter)
    assert read_job(stack, older).format == JOB_FORMAT
    stack.until(lambda: read_job(stack, older).state == "succeeded", "older jobs are done", 60)
