"""There is one database connection per thread, so that no thread waits for one."""

from __future__ import annotations

import threading
import time
from dataclasses import fields

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from sqlalchemy import text

from service.app import create_app
from service.context import CONNECTIONS
from store.settings import Settings
from store.store import Store

SINGLE_THREADS = ("submissions", "job-watch", "dispatcher", "cleanup")


def test_there_are_as_many_connections_as_threads(opened_store):
    async def threads() -> int:
        context = create_app(opened_store).state.context
        limiters = [getattr(context, field.name) for field in fields(context)]
        limiters = [one for one in limiters if isinstance(one, CapacityLimiter)]
        limiters.append(anyio.to_thread.current_default_thread_limiter())
        return sum(int(limiter.total_tokens) for limiter in limiters) + len(SINGLE_THREADS)

    assert anyio.run(threads) <= CONNECTIONS


def test_all_connections_can_be_used_concurrently(tmp_path):
    together = threading.Barrier(CONNECTIONS)
    waited = []

    def read(store: Store) -> None:
        started = time.monotonic()
        with store.database.reading() as session:
            session.execute(text("SELECT 1"))
            waited.append(time.monotonic() - started)
            together.wait(timeout=20)  # no thread releases its connection before all have one

    with Store.open(Settings(data_dir=tmp_path), connections=CONNECTIONS) as store:
        threads = [threading.Thread(target=read, args=(store,)) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(waited) == CONNECTIONS
    assert max(waited) < 5
    assert not together.broken
