"""What several machines need: a leader that is replaced, one clock, backups, and a doctor."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from sqlalchemy import make_url, select

from store import jobs
from store.database.sessions import now
from store.database.tables import Job, Lead
from store.jobs import JobKind, workers
from store.maintenance.consistency import check
from store.store import Store
from tests.processes import created_database, wait_until

if TYPE_CHECKING:
    from tests.processes import EdgeCounter, Stack

HOUR = 3600.0


def leader(stack: Stack) -> str | None:
    with stack.store.database.reading() as session:
        return session.scalar(select(Lead.owner).where(Lead.lease_until > now()))


def job(stack: Stack, job_id: str) -> Job:
    with stack.store.database.reading() as session:
        return jobs.get(session, job_id, tenant="default")


def register(client: httpx.Client, counter: EdgeCounter) -> dict[str, Any]:
    files = {"spec": json.dumps(counter.spec), "weights": counter.weights}
    posted = client.post("/v1/gnns", data={"name": "counter"}, files=files)
    assert posted.status_code in (201, 202), posted.text
    document: dict[str, Any] = posted.json()
    return document


def test_another_api_leads_after_the_leader_was_killed(scaled_out_stack: Stack) -> None:
    stack = scaled_out_stack
    services = [stack.start_service() for _ in range(2)]
    wait_until(lambda: leader(stack) is not None, "one API leads")
    first = str(leader(stack))
    killed, left = sorted(services, key=lambda one: f":{one.process.pid}:" not in first)
    started = time.monotonic()
    killed.kill()
    # Nobody announces this job but a leader: no API knows that it was written.
    with stack.store.database.transaction() as session:
        orphan = jobs.submit(session, kind=JobKind.PREDICT, tenant="default").id
    wait_until(lambda: leader(stack) not in (first, None), "the other API leads", 20)
    seconds = time.monotonic() - started
    print(f"hand-over after {seconds:.1f} s")
    assert f":{left.process.pid}:" in str(leader(stack))
    assert seconds < 10 + 10 / 3 + 2  # its lease, the pause between two tries, and the poll
    wait_until(lambda: job(stack, orphan).dispatches > 0, "the new leader announced the job", 10)


def test_processes_with_wrong_clocks_use_that_of_the_database(
    scaled_out_stack: Stack, edge_counter: EdgeCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_spec("libfaketime")
    if found is None or not found.submodule_search_locations:
        pytest.skip("libfaketime is not installed")
    folder = Path(found.submodule_search_locations[0])
    library = folder / "vendor/libfaketime/src/libfaketime.so.1"
    stack = scaled_out_stack
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    monkeypatch.setenv("FAKETIME", "-1h")
    shown = subprocess.check_output([sys.executable, "-c", "import time; print(time.time())"])
    assert abs(float(shown) + HOUR - time.time()) < 60
    api = stack.start_service()
    monkeypatch.setenv("FAKETIME", "+1h")
    stack.wait_for(stack.start_worker("light"))
    monkeypatch.delenv("LD_PRELOAD")
    with httpx.Client(base_url=api.url, timeout=60) as client:
        posted = register(client, edge_counter)
        path = f"/v1/gnns/{posted['id']}"
        wait_until(lambda: client.get(path).json()["state"] == "ready", "it is ready", 60)
    row = job(stack, posted["job_id"])
    times = [row.created_at, row.started_at, row.finished_at]
    assert all(at is not None and abs(at - time.time()) < 120 for at in times), times
    assert row.attempt == 1  # nobody thought that the lease was over
    assert [worker.queues for worker in stack.present()] == ["light"]


def test_a_restored_backup_has_every_artifact(
    scaled_out_stack: Stack, edge_counter: EdgeCounter, tmp_path: Path
) -> None:
    if shutil.which("pg_dump") is None:
        pytest.skip("pg_dump is not installed")
    stack = scaled_out_stack
    api = stack.start_service()
    with httpx.Client(base_url=api.url, timeout=60) as client:
        posted = register(client, edge_counter)
    url = make_url(stack.settings.database_url)
    dump = tmp_path / "d4explain.dump"
    address = url.set(drivername="postgresql").render_as_string(hide_password=False)
    subprocess.run(["pg_dump", "--format=custom", f"--file={dump}", address], check=True)
    assert stack.store.artifacts.folder is not None
    shutil.copytree(stack.store.artifacts.folder, tmp_path / "copy")  # after the database
    api.kill()

    with created_database() as restored:
        target = make_url(restored).set(drivername="postgresql")
        database_url = target.render_as_string(hide_password=False)
        subprocess.run(["pg_restore", f"--dbname={database_url}", "--no-owner", dump], check=True)
        settings = stack.settings.model_copy(
            update={"database_url": restored, "artifacts": str(tmp_path / "copy")}
        )
        with Store.open(settings) as store:
            found = check(store.database, store.artifacts, read=True)
            assert found.faults == []
            assert found.rows > 0
        environment = {**os.environ, **settings.environment()}
        command = [sys.executable, "-m", "store", "check", "--read"]
        sound = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        assert (sound.returncode, sound.stderr) == (0, "")
        assert "0 faults" in sound.stdout
        [weights] = [path for path in (tmp_path / "copy").rglob("*") if path.is_file()][:1]
        weights.unlink()
        broken = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        assert broken.returncode == 1
        assert f"of {posted['id']} is missing: artifact {weights.name}" in broken.stdout


def test_the_doctor_accepts_a_whole_deployment(scaled_out_stack: Stack) -> None:
    stack = scaled_out_stack
    stack.start_service()
    stack.wait_for(stack.start_worker("train,sample"), stack.start_worker("light"))
    wait_until(lambda: leader(stack) is not None, "one API leads")
    command = [sys.executable, "-m", "d4explain", "doctor", "--deployment", "--json"]

    def findings(code: int) -> dict[str, dict[str, str]]:
        done = subprocess.run(
            command, env=stack.environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return {found["name"]: found for found in json.loads(done.stdout)}

    whole = findings(0)
    assert {"database", "broker", "broker eviction", "artifacts", "dispatcher", "clock"} <= set(
        whole
    )
    assert stack.settings.database_url.split("@")[-1] in whole["database"]["detail"]
    with stack.store.database.transaction() as session:
        for worker in workers.live(session):
            if worker.queues == "light":
                workers.leave(session, worker.name)
    stack.workers[1].kill()
    missed = findings(1)["queue light"]
    assert missed["status"] == "failed"
    assert "python -m worker --queues light" in missed["fix"]
