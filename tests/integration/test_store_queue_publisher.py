"""The publisher on a real Redis-protocol server, over TCP and over a Unix socket."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from d4explain.stack.ports import free_port
from store.jobs import Announcement, Queue
from store.jobs.submission import JOB_FORMAT
from store.queue.celery_config import known_message_queues
from store.queue.queue_publisher import BrokerDown, QueuePublisher

PASSWORD = "p/ss wörd"
QUOTED = "p%2Fss%20w%C3%B6rd"


class Server:
    """A broker without persistence: it loses all data when it is killed."""

    def __init__(self, folder: Path, transport: str) -> None:
        self._socket = folder / "broker.sock"
        self._port = free_port() if transport == "tcp" else 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        if self._port:
            return f"redis://:{QUOTED}@127.0.0.1:{self._port}/0"
        return f"redis+socket://:{QUOTED}@{self._socket}"

    @property
    def client(self) -> redis.Redis:
        if self._port:
            return redis.Redis(port=self._port, password=PASSWORD)
        return redis.Redis(unix_socket_path=str(self._socket), password=PASSWORD)

    def start(self) -> None:
        binary = shutil.which("valkey-server") or shutil.which("redis-server")
        if binary is None:
            pytest.skip("no valkey-server or redis-server on PATH")
        options = {
            "port": str(self._port),
            "unixsocket": str(self._socket),
            "requirepass": PASSWORD,
            "save": "",
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        self._process = subprocess.Popen([binary, *arguments], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while True:
            with self.client as client:
                try:
                    client.ping()
                    return
                except redis.RedisError:
                    assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture(params=["tcp", "unix"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path, request.param)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def publisher(server: Server) -> Iterator[QueuePublisher]:
    publisher = QueuePublisher(server.url)
    yield publisher
    publisher.close()


def messages(server: Server, queue: str, priority: int, job_format: int = 2) -> list[object]:
    """The arguments of the queued tasks, read from kombu's list."""
    name = f"{queue}.{job_format}"
    key = name if priority == 0 else f"{name}\x06\x16{priority}"
    with server.client as client:
        return [json.loads(message)["headers"]["argsrepr"] for message in client.lrange(key, 0, -1)]


def announced(job_id: str, queue: Queue, priority: int = 6, job_format: int = 2) -> Announcement:
    return Announcement(job_id, attempt=0, queue=queue, priority=priority, format=job_format)


def test_each_job_is_one_message_in_its_queue(server: Server, publisher: QueuePublisher) -> None:
    assert publisher.ping()
    new, recovered = announced("job_new", Queue.TRAIN), announced("job_recovered", Queue.TRAIN, 0)
    publisher.publish([new, recovered, announced("job_other", Queue.SAMPLE)])
    assert messages(server, "train", 6) == ["['job_new']"]
    assert messages(server, "train", 0) == ["['job_recovered']"]
    assert messages(server, "sample", 6) == ["['job_other']"]
    assert messages(server, "light", 6) == []


def test_each_job_format_has_its_own_queues(server: Server, publisher: QueuePublisher) -> None:
    publisher.publish([announced("job_old", Queue.LIGHT), announced("job_new", Queue.LIGHT, 6, 3)])
    assert messages(server, "light", 6) == ["['job_old']"]
    assert messages(server, "light", 6, job_format=3) == ["['job_new']"]


def test_a_worker_reads_the_queues_of_the_formats_that_it_knows() -> None:
    read = known_message_queues([Queue.TRAIN])
    assert read == [f"train.{known}" for known in range(1, JOB_FORMAT + 1)]


def test_an_outage_is_reported_soon_and_recovered_from(
    server: Server, publisher: QueuePublisher
) -> None:
    publisher.publish([announced("job_1", Queue.LIGHT)])
    epoch = publisher.epoch()
    assert publisher.epoch() == epoch
    server.kill()
    for _ in range(2):
        started = time.monotonic()
        with pytest.raises(BrokerDown):
            publisher.publish([announced("job_2", Queue.LIGHT)])
        with pytest.raises(BrokerDown):
            publisher.epoch()
        assert not publisher.ping()
        assert time.monotonic() - started < 6
    server.start()
    publisher.publish([announced("job_3", Queue.LIGHT)])
    assert messages(server, "light", 6) == ["['job_3']"]
    assert publisher.epoch() != epoch  # its data was lost


def test_a_wrong_password_counts_as_an_outage(server: Server) -> None:
    publisher = QueuePublisher(server.url.replace(QUOTED, "guess"))
    try:
        with pytest.raises(BrokerDown):
            publisher.epoch()
        with pytest.raises(BrokerDown):
            publisher.publish([announced("job_1", Queue.LIGHT)])
        assert not publisher.ping()
    finally:
        publisher.close()
