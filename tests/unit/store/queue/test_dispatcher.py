from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from store.database.sessions import Database
from store.database.tables import Job, Lead
from store.jobs import Announcement, JobKind
from store.queue import leader_election
from store.queue.dispatcher import Dispatcher
from store.queue.queue_publisher import BrokerDown
from store.settings import Settings


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += seconds


class RecordingPublisher:
    """Records announcements; can simulate a broker outage."""

    def __init__(self) -> None:
        self.published: list[Announcement] = []
        self.is_down = False
        self.breaks_after: int | None = None
        self.generation = "first"
        self.epoch_reads = 0
        self.was_called = threading.Event()

    def publish(self, announced: Sequence[Announcement]) -> None:
        if self.is_down:
            raise BrokerDown("connection refused")
        sent = announced[: self.breaks_after]
        self.published.extend(sent)
        self.was_called.set()
        if len(sent) < len(announced):
            raise BrokerDown("connection lost")

    def epoch(self) -> str:
        self.epoch_reads += 1
        if self.is_down:
            raise BrokerDown("connection refused")
        return self.generation

    def close(self) -> None:
        pass

    @property
    def ids(self) -> list[str]:
        return [one.job_id for one in self.published]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_environment({"D4_DATA_DIR": str(tmp_path)})


def submitted(database: Database) -> str:
    with database.transaction() as session:
        return jobs.submit(session, kind=JobKind.PROBE, tenant=DEFAULT_TENANT).id


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)


def test_queued_jobs_are_announced_once(database: Database, settings: Settings) -> None:
    publisher = RecordingPublisher()
    dispatcher = Dispatcher(database, publisher, settings)
    ids = {submitted(database) for _ in range(3)}
    dispatcher.run_once()
    dispatcher.run_once()
    assert sorted(publisher.ids) == sorted(ids)
    assert {(one.queue, one.priority) for one in publisher.published} == {("light", 6)}


def test_a_dead_workers_job_is_announced_with_priority(
    database: Database, settings: Settings
) -> None:
    publisher = RecordingPublisher()
    dispatcher = Dispatcher(database, publisher, settings)
    job_id = submitted(database)
    with database.transaction() as session:
        jobs.claim(session, job_id, "worker", -1)
    dispatcher.run_once()
    assert [(one.job_id, one.queue, one.priority) for one in publisher.published] == [
        (job_id, "light", 0)
    ]


def test_notify_publishes_at_once_and_stop_ends_the_thread(
    database: Database, settings: Settings
) -> None:
    publisher = RecordingPublisher()
    dispatcher = Dispatcher(database, publisher, settings)
    before = threading.active_count()
    dispatcher.start()
    wait_until(lambda: _leader(database) is not None)
    started = time.monotonic()
    job_id = submitted(database)
    dispatcher.notify()
    assert publisher.was_called.wait(5)
    assert time.monotonic() - started < 0.9  # sooner than the poll
    dispatcher.stop()
    dispatcher.stop()
    assert threading.active_count() == before
    assert publisher.ids == [job_id]
    with database.transaction() as session:  # the lead is free again
        assert leader_election.acquire(session, "dispatcher", "another", 10)


def test_a_notified_job_is_marked_later_and_announced_once(
    database: Database, settings: Settings
) -> None:
    publisher = RecordingPublisher()
    dispatcher = Dispatcher(database, publisher, settings)
    dispatcher.start()
    try:
        wait_until(lambda: _leader(database) is not None)
        first = submitted(database)
        dispatcher.notify()
        wait_until(lambda: publisher.ids == [first])
        second = submitted(database)
        dispatcher.notify()
        wait_until(lambda: publisher.ids == [first, second])

        def marks() -> list[int]:
            with database.reading() as session:
                return [
                    jobs.get(session, job_id, tenant=DEFAULT_TENANT).dispatches
                    for job_id in (first, second)
                ]

        wait_until(lambda: marks() == [1, 1])
        dispatcher.notify()
        time.sleep(0.3)
        assert publisher.ids == [first, second]
    finally:
        dispatcher.stop()


def test_a_named_job_is_announced_without_a_query(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = RecordingPublisher()
    dispatcher = Dispatcher(database, publisher, settings)
    queries: list[int] = []
    query = jobs.never_announced

    def counted(session: Session, limit: int) -> list[Announcement]:
        queries.append(limit)
        return query(session, limit)

    monkeypatch.setattr(jobs, "never_announced", counted)
    dispatcher.start()
    try:
        wait_until(
            lambda: _leader(database) is not None and len(queries) == 1
        )  # one query at the start
        # A round that still runs would find the named jobs, too. This job shows when it has ended.
        polled = submitted(database)
        wait_until(lambda: publisher.ids == [polled])
        time.sleep(0.2)
        with database.transaction() as session:
            several = [
                jobs.submit(session, kind=JobKind.PROBE, tenant=DEFAULT_TENANT) for _ in range(3)
            ]
        named = [Announcement.of(job) for job in several]
        dispatcher.notify(*named[:2])
        dispatcher.notify(named[2])
        dispatcher.notify(named[0])  # again, as when a client repeats its request
        wait_until(lambda: len(publisher.published) == 4)
        time.sleep(0.3)
        assert (publisher.published[1:], len(queries)) == (named, 1)
        unnamed = submitted(database)
        dispatcher.notify()
        wait_until(lambda: publisher.ids[4:] == [unnamed])
        assert len(queries) == 2
    finally:
        dispatcher.stop()


def test_a_named_job_survives_a_broker_outage(database: Database, settings: Settings) -> None:
    publisher = RecordingPublisher()
    publisher.is_down = True
    dispatcher = Dispatcher(database, publisher, settings)
    dispatcher.start()
    try:
        wait_until(lambda: publisher.epoch_reads > 0)
        with database.transaction() as session:
            job = jobs.submit(session, kind=JobKind.PROBE, tenant=DEFAULT_TENANT)
        dispatcher.notify(Announcement.of(job))
        time.sleep(0.3)
        publisher.is_down = False
        wait_until(lambda: publisher.ids == [job.id])
    finally:
        dispatcher.stop()


def test_a_notification_at_the_end_of_a_wait_is_not_lost(
    database: Database, settings: Settings
) -> None:
    publisher = RecordingPublisher()
    dispatcher = Dispatcher(database, publisher, settings)
    late: list[Announcement] = []

    class Wake(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            woken = super().wait(timeout)
            if late and not woken:
                dispatcher.notify(late.pop())
            return woken

    dispatcher._wake = Wake()
    with database.transaction() as session:  # so that this dispatcher does not poll
        assert leader_election.acquire(session, "dispatcher", "another", 60)
        job = jobs.submit(session, kind=JobKind.PROBE, tenant=DEFAULT_TENANT)
    dispatcher._query_new.clear()
    late.append(Announcement.of(job))
    dispatcher.start()
    try:
        wait_until(lambda: publisher.ids == [job.id])
    finally:
        dispatcher.stop()


def test_a_requeued_job_is_announced_again_at_once(database: Database, settings: Settings) -> None:
    publisher = RecordingPublisher()
    dispatcher = Dispatcher(database, publisher, settings)
    dispatcher.start()
    try:
        wait_until(lambda: _leader(database) is not None)
        job_id = submitted(database)
        dispatcher.notify()
        wait_until(lambda: publisher.ids == [job_id])
        with database.transaction() as session:  # before its announcement could be marked
            claim = jobs.claim(session, job_id, "worker", 60)
            assert claim is not None
            jobs.release(session, claim)
        dispatcher.notify()
        wait_until(lambda: publisher.ids == [job_id, job_id])
    finally:
        dispatcher.stop()


def test_the_poll_finds_a_job_without_notification(database: Database, settings: Settings) -> None:
    publisher = RecordingPublisher()
    dispatcher = Dispatcher(database, publisher, settings)
    dispatcher.start()
    try:
        job_id = submitted(database)
        wait_until(lambda: publisher.ids == [job_id])
    finally:
        dispatcher.stop()


def _leader(database: Database) -> str | None:
    with database.reading() as session:
        lead = session.get(Lead, "dispatcher")
    return lead.owner if lead else None


def test_a_broker_outage_loses_nothing_and_is_logged_once(
    database: Database, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "store.queue.dispatcher")
    publisher = RecordingPublisher()
    publisher.is_down = True
    clock = Clock()
    dispatcher = Dispatcher(database, publisher, settings, clock=clock)
    job_id = submitted(database)
    for _ in range(3):
        dispatcher.run_once(notified=True)
        clock.advance(5)
    assert [record.getMessage() for record in caplog.records] == [
        "broker unreachable: connection refused"
    ]
    publisher.is_down = False
    dispatcher.run_once()
    assert publisher.ids == [job_id]
    assert caplog.messages[-1] == "dispatching recovered"
    publisher.is_down = True
    submitted(database)
    clock.advance(5)
    dispatcher.run_once()
    assert caplog.messages[-1] == "broker unreachable: connection refused"


def test_the_dispatcher_backs_off_during_a_broker_outage(
    database: Database, settings: Settings
) -> None:
    publisher = RecordingPublisher()
    publisher.is_down = True
    clock = Clock()
    dispatcher = Dispatcher(database, publisher, settings, clock=clock)
    submitted(database)
    tries = []
    for _ in range(240):
        before = publisher.epoch_reads
        dispatcher.run_once()
        if publisher.epoch_reads > before:
            tries.append(clock.time)
        clock.advance(0.125)
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0]


def test_unsent_jobs_are_announced_after_an_outage(database: Database, settings: Settings) -> None:
    publisher = RecordingPublisher()
    publisher.breaks_after = 2
    clock = Clock()
    dispatcher = Dispatcher(database, publisher, settings, clock=clock)
    ids = [submitted(database) for _ in range(5)]
    dispatcher.run_once()
    assert len(publisher.ids) == 2
    publisher.breaks_after = None
    clock.advance(1)
    dispatcher.run_once()
    # It is unknown which messages arrived, so all jobs are announced again, once.
    assert set(publisher.ids[2:]) == set(ids)
    assert len(publisher.ids) == 2 + len(ids)
    dispatcher.run_once()
    assert len(publisher.ids) == 2 + len(ids)


def test_jobs_are_announced_again_after_the_broker_lost_its_messages(
    database: Database, settings: Settings
) -> None:
    publisher = RecordingPublisher()
    clock = Clock()
    dispatcher = Dispatcher(database, publisher, settings, clock=clock)
    queued, running = submitted(database), submitted(database)
    dispatcher.run_once()
    with database.transaction() as session:
        jobs.claim(session, running, "worker", 60)
    publisher.published.clear()
    publisher.generation = "second"
    clock.advance(3)
    dispatcher.run_once()
    assert publisher.ids == [queued]
    # A dispatcher that starts later knows the epoch from the database.
    Dispatcher(database, publisher, settings).run_once(notified=True)
    assert publisher.ids == [queued]


def test_one_of_two_dispatchers_leads_and_the_other_takes_over(
    database: Database, settings: Settings
) -> None:
    publisher = RecordingPublisher()
    clock = Clock()
    first, second = (Dispatcher(database, publisher, settings, clock=clock) for _ in range(2))
    first.run_once()
    leader = _leader(database)
    job_id = submitted(database)
    second.run_once()
    assert publisher.ids == []  # only the leader polls
    second.run_once(notified=True)
    assert publisher.ids == [job_id]  # every process announces the jobs that it received
    with database.transaction() as session:
        jobs.claim(session, job_id, "worker", -1)
    second.run_once()
    with database.transaction() as session:
        assert (
            jobs.get(session, job_id, tenant=DEFAULT_TENANT).state == "running"
        )  # only the leader reaps
        session.execute(update(Lead).values(lease_until=0.0))  # the leader has died
    clock.advance(5)
    second.run_once()
    assert _leader(database) != leader
    assert publisher.ids == [job_id, job_id]


def test_a_database_error_does_not_end_the_dispatcher(
    database: Database, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = RecordingPublisher()
    dispatcher = Dispatcher(database, publisher, settings)
    job_id = submitted(database)
    with database.transaction() as session:
        session.execute(update(Job).values(priority=0))
        session.connection().exec_driver_sql("ALTER TABLE leads RENAME TO elsewhere")
    dispatcher.run_once()
    dispatcher.run_once()
    assert len(caplog.records) == 1
    assert "no such table" in caplog.text
    with database.transaction() as session:
        session.connection().exec_driver_sql("ALTER TABLE elsewhere RENAME TO leads")
    dispatcher.run_once()
    assert publisher.ids == [job_id]


def test_without_a_broker_jobs_are_still_reaped(database: Database, settings: Settings) -> None:
    job_id = submitted(database)
    with database.transaction() as session:
        jobs.claim(session, job_id, "worker", -1)
    Dispatcher(database, None, settings).run_once()
    with database.reading() as session:
        assert jobs.get(session, job_id, tenant=DEFAULT_TENANT).state == "queued"
