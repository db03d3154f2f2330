from __future__ import annotations

from sqlalchemy import update

from store.database.sessions import Database, now
from store.database.tables import Worker
from store.jobs import Queue, workers


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
