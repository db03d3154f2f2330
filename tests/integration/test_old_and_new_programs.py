"""An upgrade without a stop: programs of two job formats side by side on one database and broker.

The newer program is a copy of this one whose job format is one higher, so this one is the older.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from store.database.tables import Job
from store.jobs.submission import JOB_FORMAT
from tests.processes import ROOT, EdgeCounter, ServiceProcess, Stack, WorkerProcess, opened_stack

_PACKAGES = ("d4explain", "models", "service", "store", "worker")


@pytest.fixture(scope="module")
def newer_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newer")
    for package in _PACKAGES:
        shutil.copytree(
            ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    source = folder / "store/jobs/submission.py"
    text, count = re.subn(
        rf"^JOB_FORMAT = {JOB_FORMAT}$",
        f"JOB_FORMAT = {JOB_FORMAT + 1}",
        source.read_text(),
        flags=re.MULTILINE,
    )
    assert count == 1
    source.write_text(text)
    return folder


@pytest.fixture
def upgraded_stack(tmp_path: Path) -> Iterator[Stack]:
    # DEBUG: a worker logs messages whose job it cannot claim.
    with opened_stack(tmp_path, redispatch_seconds=1.0, log_level="DEBUG") as running:
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
    upgraded_stack: Stack, newer_program: Path, edge_counter: EdgeCounter
) -> None:
    stack = upgraded_stack
    old_api, new_api = stack.start_service(), stack.start_service(folder=newer_program)
    old_worker = stack.start_worker()
    stack.wait_for(old_worker)

    newer = register(new_api, edge_counter)
    assert read_job(stack, newer).format == JOB_FORMAT + 1
    stack.until(lambda: bool(stack.logs("Nothing to do")), "the older worker gets its message", 60)
    stack.until(lambda: read_job(stack, newer).dispatches >= 3, "it is announced again", 60)
    waiting = read_job(stack, newer)
    assert (waiting.state, waiting.attempt, waiting.lease_owner) == ("queued", 0, None)
    health = httpx.get(f"{new_api.url}/readyz").json()
    assert f"have format {JOB_FORMAT + 1}" in json.dumps(health)

    older = register(old_api, edge_counter)
    stack.until(lambda: read_job(stack, older).state == "succeeded", "the older worker works", 60)
    assert read_job(stack, newer).state == "queued"

    new_worker = stack.start_worker(folder=newer_program)
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
