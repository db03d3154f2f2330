"""Notifications about ended jobs through a real broker."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from d4explain.contracts.scopes import DEFAULT_TENANT
from service.http.waiting import JobWatcher
from store import jobs
from store.jobs import JobKind
from store.queue.job_notifications import JobNotifications

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.processes import Stack


def received_by(notifications: JobNotifications, publish: Callable[[], None]) -> set[str]:
    found: set[str] = set()
    deadline = time.monotonic() + 10
    while not found and time.monotonic() < deadline:
        publish()  # again until the listener has subscribed
        found = notifications.receive(0.2)
    return found


def test_published_jobs_are_received(stack: Stack) -> None:
    broker = stack.broker
    sender, listener = JobNotifications(broker.url), JobNotifications(broker.url)
    assert received_by(listener, lambda: sender.publish(["job_1", "job_2"])) == {"job_1", "job_2"}
    # Another deployment on the same server.
    other = JobNotifications(broker.url.removesuffix("/0") + "/1")
    other.publish(["job_3"])
    while (found := listener.receive(0.3)) == {"job_1", "job_2"}:
        pass
    assert found == set()


def test_a_broker_outage_does_not_block_and_ends_when_the_broker_returns(stack: Stack) -> None:
    broker = stack.broker
    sender, listener = JobNotifications(broker.url), JobNotifications(broker.url)
    received_by(listener, lambda: sender.publish(["job_1"]))
    broker.kill()
    sender.publish(["job_2"])
    began = time.monotonic()
    for _ in range(20):
        sender.publish(["job_2"])
    assert time.monotonic() - began < 0.5
    assert listener.receive(0.1) in (set(), {"job_1"})
    broker.start()
    again = JobNotifications(broker.url)
    assert received_by(listener, lambda: again.publish(["job_3"])) == {"job_3"}


def test_a_waiter_is_notified_before_the_next_poll(stack: Stack) -> None:
    sender = JobNotifications(stack.broker.url)
    with stack.store.database.transaction() as session:
        job_id = jobs.submit(session, kind=JobKind.PREDICT, tenant=DEFAULT_TENANT).id
    watch = JobWatcher(stack.store.database, JobNotifications(stack.broker.url), poll_seconds=30.0)

    async def wait() -> float:
        with watch.subscribe(job_id) as change:
            await change.wait(2)  # the first poll notifies all subscribers
            began = time.monotonic()
            await change.wait(20)
            return time.monotonic() - began

    done = threading.Event()

    def publish() -> None:
        while not done.wait(0.1):
            sender.publish([job_id])

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        assert asyncio.run(wait()) < 10
    finally:
        done.set()
        thread.join()
        watch.stop()
