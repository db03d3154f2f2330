"""Who waits is told of an end at once, by a real broker; without one the poll finds out."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from service.http.waiting import JobWatcher
from store import jobs
from store.jobs import JobKind
from store.queue.job_notifications import JobNotifications

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Stack


def heard_by(chime: JobNotifications, strike: Callable[[], None]) -> set[str]:
    found: set[str] = set()
    deadline = time.monotonic() + 10
    while not found and time.monotonic() < deadline:
        strike()  # again until the listener has subscribed
        found = chime.heard(0.2)
    return found


def test_what_is_struck_is_heard(stack: Stack) -> None:
    broker = stack.broker
    striker, listener = JobNotifications(broker.url), JobNotifications(broker.url)
    assert heard_by(listener, lambda: striker.strike(["job_1", "job_2"])) == {"job_1", "job_2"}
    other = JobNotifications(
        broker.url.removesuffix("/0") + "/1"
    )  # of another deployment on this server
    other.strike(["job_3"])
    while (found := listener.heard(0.3)) == {"job_1", "job_2"}:
        pass
    assert found == set()


def test_a_broker_that_is_away_holds_nobody_up_and_is_found_again(stack: Stack) -> None:
    broker = stack.broker
    striker, listener = JobNotifications(broker.url), JobNotifications(broker.url)
    heard_by(listener, lambda: striker.strike(["job_1"]))
    broker.kill()
    striker.strike(["job_2"])
    began = time.monotonic()
    for _ in range(20):
        striker.strike(["job_2"])
    assert time.monotonic() - began < 0.5
    assert listener.heard(0.1) in (set(), {"job_1"})
    broker.start()
    again = JobNotifications(broker.url)
    assert heard_by(listener, lambda: again.strike(["job_3"])) == {"job_3"}


def test_who_waits_hears_the_chime_sooner_than_the_poll(stack: Stack) -> None:
    striker = JobNotifications(stack.broker.url)
    with stack.store.database.transaction() as session:
        job_id = jobs.submit(session, kind=JobKind.PREDICT).id
    watch = JobWatcher(stack.store.database, JobNotifications(stack.broker.url), poll_seconds=30.0)

    async def wait() -> float:
        with watch.subscribe(job_id) as change:
            await change.wait(2)  # the first poll rings for all
            began = time.monotonic()
            await change.wait(20)
            return time.monotonic() - began

    done = threading.Event()

    def strike() -> None:
        while not done.wait(0.1):
            striker.strike([job_id])

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        assert asyncio.run(wait()) < 10
    finally:
        done.set()
        thread.join()
        watch.stop()
