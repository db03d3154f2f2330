"""The API process: it does not import torch, stays small and stops quickly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import httpx
import psutil
import pytest

from d4explain.stack.ports import free_port
from store.settings import Settings
from store.store import Store

MAX_RSS = 165e6  # 150e6 before the API signed receipts (7 MB) and wrote pages (3 MB)


def test_the_service_imports_nothing_heavy():
    code = (
        "import service.app, service.__main__, service.drawing.svg, sys;"
        "heavy = {'torch', 'torch_geometric', 'networkx', 'scipy', 'rdkit', 'fpdf', 'alembic',"
        "'models', 'worker'};"
        "found = heavy & set(sys.modules);"
        "sys.exit(f'imported: {found}' if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def process(tmp_path):
    """`python -m service` on a free port, with an unreachable broker.

    The database exists: only the very first start creates it, which imports Alembic.
    """
    Store.open(Settings(data_dir=tmp_path / "data")).close()
    port = free_port()
    environment = {
        **os.environ,
        "D4_DATA_DIR": str(tmp_path / "data"),
        "D4_PORT": str(port),
        "D4_REDIS_URL": "redis://127.0.0.1:1/0",
    }
    with (
        open(tmp_path / "log", "w") as log,
        subprocess.Popen([sys.executable, "-m", "service"], env=environment, stderr=log) as started,
    ):
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
                deadline = time.monotonic() + 30
                while True:
                    try:
                        client.get("/livez")
                        break
                    except httpx.ConnectError:
                        assert started.poll() is None, (tmp_path / "log").read_text()
                        assert time.monotonic() < deadline
                        time.sleep(0.05)
                yield started, client, tmp_path
        finally:
            started.kill()


def test_the_process_stays_small_after_a_drawing_and_stops_quickly(process, deployment_of):
    started, client, folder = process
    with Store.open(Settings(data_dir=folder / "data"), migrate=False) as store:
        api = deployment_of(store, client)
        posted = api.explanation()
        api.finish_explanation(posted)
        for form in ("svg", "graphml", "cytoscape", "pyg", "json"):
            address = f"/v1/explanations/{posted['id']}?format={form}"
            assert client.get(address).status_code == 200
        assert client.get("/openapi.json").status_code == 200
        assert client.get("/readyz").json()["accepts_submissions"] is True
        waiting = api.explanation(seed=1, denoiser={"steps": 3})["job"]["id"]

    rss = psutil.Process(started.pid).memory_info().rss
    assert rss < MAX_RSS, f"{rss / 1e6:.0f} MB"

    answers = []

    def follow():
        with client.stream("GET", f"/v1/jobs/{waiting}/events") as stream:
            answers.append([line for line in stream.iter_lines() if line.startswith("event")])

    def wait():
        answers.append(client.get(f"/v1/jobs/{waiting}", headers={"Prefer": "wait=60"}).json())

    clients = [threading.Thread(target=follow), threading.Thread(target=wait)]
    for thread in clients:
        thread.start()
    time.sleep(0.5)
    stopping = time.monotonic()
    started.send_signal(signal.SIGTERM)
    assert started.wait(timeout=10) in (0, -signal.SIGTERM)
    assert time.monotonic() - stopping < 4
    for thread in clients:
        thread.join()
    # Both got complete responses: the stream ended, the waiting request has the current state.
    assert sorted(type(answer).__name__ for answer in answers) == ["dict", "list"]
    assert "Traceback" not in (folder / "log").read_text()


@pytest.mark.parametrize(
    ("setting", "value", "code", "words"),
    [
        ("D4_PORT", "many", 2, "D4_PORT"),
        ("D4_REDIS_URL", "amqp://host", 2, "D4_REDIS_URL"),
        ("D4_DATABASE_URL", "no url", 1, "cannot open the database"),
        ("D4_DATABASE_URL", "sqlite:////proc/nowhere/x", 1, "cannot open the database"),
    ],
)
def test_an_invalid_setting_is_reported(setting, value, code, words):
    done = subprocess.run(
        [sys.executable, "-m", "service"],
        env={**os.environ, setting: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has one thread anyway")
def test_linear_algebra_has_one_thread():
    code = (
        "import service.__main__, numpy as np, psutil;"
        "np.ones((500, 500)) @ np.ones((500, 500));"
        "print(psutil.Process().num_threads())"
    )
    threads = {"OPENBLAS_NUM_THREADS": "4", "OMP_NUM_THREADS": "4"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "1"
