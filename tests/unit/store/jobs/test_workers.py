from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import update

from store.database.sessions import Database, now
from store.database.tables import Worker
from store.errors import ManyMachines
from store.jobs import Queue, workers
from store.settings import Settings
from store.store import Store


def test_a_worker_is_live_for_some_time_after_its_heartbeat(database: Database) -> None:
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


def test_stopped_and_dead_workers_are_deleted(database: Database) -> None:
    with database.transaction() as session:
        for name in "abc":
            workers.beat(session, name=name, queues=[Queue.LIGHT], device="cpu", pid=1)
        workers.leave(session, "a")
        session.execute(update(Worker).where(Worker.name == "b").values(seen_at=0))
        workers.delete_dead(session)
        assert [worker.name for worker in workers.live(session, within=1e12)] == ["c"]


def test_a_sqlite_database_with_a_live_worker_of_another_machine_is_not_opened(
    tmp_path: Path,
) -> None:
    settings = Settings(data_dir=tmp_path)
    with Store.open(settings) as opened:
        for name in ("here-1", "there-1"):
            with opened.database.transaction() as session:
                workers.beat(session, name=name, queues=[Queue.LIGHT], device="cpu", pid=1)
        Store.open(settings).close()  # both are containers of this machine
        with opened.database.transaction() as session:
            session.execute(
                update(Worker).where(Worker.name == "there-1").values(machine="another boot")
            )
        with pytest.raises(ManyMachines, match="there-1 uses it on another machine"):
            Store.open(settings)
        with opened.database.transaction() as session:
            session.execute(
                update(Worker).where(Worker.name == "there-1").values(seen_at=now() - 60)
            )
        Store.open(settings).close()
