from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from store.database.sessions import Database, now
from store.database.tables import Worker
from store.jobs import Queue, workers


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    database.migrate()
    yield database
    database.close()


def test_workers_are_live_while_they_say_so(database: Database) -> None:
    with database.transaction() as session:
        workers.beat(session, name="a", queues=[Queue.TRAIN], device="cuda:0", pid=1)
        workers.beat(session, name="b", queues=["sample", "light"], device="cpu", pid=2)
    with database.transaction() as session:
        workers.beat(session, name="b", queues=["sample", "light"], device="cpu", pid=3)
        session.execute(update(Worker).where(Worker.name == "a").values(seen_at=now() - 60))
    with database.reading() as session:
        (live,) = workers.live(session, within=30)
        assert (live.name, live.queues, live.device, live.pid) == ("b", "sample,light", "cpu", 3)
        assert len(workers.live(session, within=90)) == 2


def test_workers_that_stop_or_stay_silent_are_forgotten(database: Database) -> None:
    with database.transaction() as session:
        for name in "abc":
            workers.beat(session, name=name, queues=[Queue.LIGHT], device="cpu", pid=1)
        workers.leave(session, "a")
        session.execute(update(Worker).where(Worker.name == "b").values(seen_at=0))
        workers.delete_dead(session)
        assert [worker.name for worker in workers.live(session, within=1e12)] == ["c"]
