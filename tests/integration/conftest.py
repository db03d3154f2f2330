"""Fixtures of real processes (broker, API, workers); each module starts its own, ends them all."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from sqlalchemy import make_url
from sqlalchemy.exc import OperationalError

from store.queue.dispatcher import Dispatcher
from store.queue.queue_publisher import QueuePublisher
from tests.processes import (
    POSTGRES,
    DiskNotMounted,
    EdgeCounter,
    Stack,
    created_database,
    opened_stack,
    small_disk,
)

REDIS = os.environ.get("D4_TEST_REDIS", "redis://127.0.0.1:6379/15")


@pytest.fixture(scope="session")
def edge_counter() -> EdgeCounter:
    return EdgeCounter.make()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Broker and store, with short leases so that jobs recover quickly."""
    with opened_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture(scope="module")
def black_box_stack(
    tmp_path_factory: pytest.TempPathFactory, self_signed: tuple[Path, ssl.SSLContext]
) -> Iterator[Stack]:
    """Its workers may query black boxes on this machine and trust their certificate."""
    allowed = {"black_box_hosts": "127.0.0.1", "black_box_private_hosts": "127.0.0.1"}
    with (
        pytest.MonkeyPatch.context() as patched,
        opened_stack(tmp_path_factory.mktemp("stack"), black_box=True, **allowed) as running,
    ):
        patched.setenv("SSL_CERT_FILE", str(self_signed[0]))
        yield running


@pytest.fixture
def scaled_out_stack(tmp_path: Path, postgres_url: str, redis_url: str) -> Iterator[Stack]:
    """A stack on running PostgreSQL and Redis servers."""
    with opened_stack(tmp_path, redis_url=redis_url, database_url=postgres_url) as running:
        yield running


@pytest.fixture
def small_disk_stack(tmp_path: Path) -> Iterator[Stack]:
    """A stack whose data folder is a separate disk of 96 MiB."""
    try:
        with small_disk(tmp_path / "data", 96), opened_stack(tmp_path) as running:
            yield running
    except DiskNotMounted as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    """A new database on the server, dropped afterwards."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgres)")
    try:
        with created_database() as url:
            yield url
    except OperationalError as error:
        pytest.skip(f"no PostgreSQL at {make_url(POSTGRES)} (set D4_TEST_POSTGRES): {error.orig}")


@pytest.fixture
def redis_url() -> Iterator[str]:
    """An empty database of a running Redis, flushed afterwards."""
    with redis.Redis.from_url(REDIS, socket_timeout=2) as client:
        try:
            keys = client.dbsize()
        except redis.RedisError as error:
            pytest.skip(f"no Redis at {REDIS} (set D4_TEST_REDIS): {error}")
        if keys:
            pytest.skip(f"{REDIS} is not empty ({keys} keys; set D4_TEST_REDIS)")
        try:
            yield REDIS
        finally:
            client.flushdb()


@pytest.fixture
def dispatcher(stack: Stack) -> Iterator[Dispatcher]:
    """The dispatcher thread of the API, without the API."""
    publisher = QueuePublisher(stack.broker.url)
    thread = Dispatcher(stack.store.database, publisher, stack.settings)
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()
        publisher.close()
