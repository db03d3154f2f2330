"""A disk that is really full, and space freed while API and worker run."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest

from tests.full_disk.__main__ import NO_COMPILER
from tests.processes import ROOT, fill_disk

if TYPE_CHECKING:
    from tests.processes import EdgeCounter, Stack

GRAPH = {
    "nodes": [{"id": "a", "x": [1.0]}, {"id": "b", "x": [1.0]}],
    "edges": [{"source": "a", "target": "b"}],
}


def test_a_full_disk_refuses_work_until_space_is_freed(
    small_disk_stack: Stack, edge_counter: EdgeCounter
) -> None:
    stack = small_disk_stack
    api = stack.start_service()
    files = {"spec": json.dumps(edge_counter.spec), "weights": edge_counter.weights}
    dataset = {"name": "a set", "graphs": [GRAPH]}
    with httpx.Client(base_url=api.url, timeout=20) as client:
        first = client.post("/v1/datasets", json=dataset)
        assert first.status_code == 201, first.text
        registered = client.post(
            "/v1/gnns", data={"name": "counter"}, files=files, headers={"Prefer": "wait=0"}
        )
        assert registered.status_code == 202, registered.text
        gnn = f"/v1/gnns/{registered.json()['id']}"

        filler = fill_disk(stack.settings.data_dir)
        kept = {path for path in stack.settings.data_dir.rglob("*") if path.is_file()}
        for attempt in range(5):
            refused = client.post("/v1/datasets", json={**dataset, "name": f"set {attempt}"})
            assert refused.status_code == 507, refused.text
            assert refused.json()["type"].endswith("disk-full")
            assert "are free for" in refused.json()["detail"]
        # SQLite itself reports the full disk.
        deleted = client.delete(f"/v1/datasets/{first.json()['id']}")
        assert deleted.status_code == 507, deleted.text
        state = client.get("/readyz")
        assert state.status_code == 503
        assert any(reason.startswith("disk: only 0.0 MiB") for reason in state.json()["reasons"])
        assert client.get("/livez").status_code == 200
        assert len(client.get("/v1/datasets").json()["items"]) == 1
        assert {path for path in stack.settings.data_dir.rglob("*") if path.is_file()} <= kept

        worker = stack.start_worker("light")
        stack.until(lambda: bool(stack.logs("Waiting for disk space")), "the worker waits", 90)
        time.sleep(1)
        assert client.get(gnn).json()["state"] == "probing"

        filler.unlink()
        freed_at = time.monotonic()
        stack.until(lambda: client.get("/readyz").status_code == 200, "the API is ready", 10)
        accepted = client.post("/v1/datasets", json={**dataset, "name": "another"})
        assert accepted.status_code == 201, accepted.text
        stack.until(lambda: client.get(gnn).json()["state"] == "ready", "the worker continues", 20)
        assert time.monotonic() - freed_at < 20
        assert worker.is_alive
        job = client.get(f"/v1/jobs/{client.get(gnn).json()['job_id']}").json()
        assert job["attempt"] == 1


def test_an_upload_that_does_not_fit_leaves_nothing_behind(small_disk_stack: Stack) -> None:
    """40 MB of features with 34 MiB free: the write fails halfway."""
    stack = small_disk_stack
    api = stack.start_service()
    filler = fill_disk(stack.settings.data_dir, leave=34 * 2**20)
    assert 33 < shutil.disk_usage(stack.settings.data_dir).free / 2**20 < 35
    upload = io.BytesIO()
    features = np.zeros((10_000, 1000), np.float32)
    np.savez_compressed(upload, edge_index=np.array([[0], [1]]), x=features)

    def post() -> httpx.Response:
        return httpx.post(
            f"{api.url}/v1/datasets/large?name=wide",
            content=upload.getvalue(),
            headers={"Content-Type": "application/x-npz"},
            timeout=60,
        )

    refused = post()
    assert refused.status_code == 507, refused.text
    assert refused.json()["type"].endswith("disk-full")
    assert list(stack.settings.data_dir.rglob("*.tmp")) == []
    assert httpx.get(f"{api.url}/readyz").status_code == 200  # there is space for smaller uploads
    filler.unlink()
    assert post().status_code == 201


@pytest.mark.timeout(0)
@pytest.mark.parametrize("every", [97, pytest.param(9, marks=pytest.mark.slow)])
def test_any_write_may_find_the_disk_full(every: int) -> None:
    """SQLite's writes, too. `python -m tests.full_disk` lets each write fail in turn."""
    command = [sys.executable, "-m", "tests.full_disk", "--every", str(every)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode == NO_COMPILER:
        pytest.skip(ended.stdout)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-5000:]
