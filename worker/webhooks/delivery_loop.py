"""Sends the notifications that are due, in a thread of a worker's parent process.

The parent has no torch and runs no jobs: a slow receiver delays neither jobs nor, as a Celery task
would, the queue. What is due is in the database, so notifications do not depend on the broker.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from store import tracing
from store.database.sessions import Database
from store.outgoing_urls import webhook_rules
from store.queue.job_notifications import JobNotifications
from store.settings import Settings
from store.webhooks import deliveries
from store.webhooks.deliveries import AttemptResult, ClaimedDelivery
from worker.outgoing.pinned_requests import Sender
from worker.webhooks.attempt import SEND_SECONDS, attempt_delivery
from worker.webhooks.places import Places

log = logging.getLogger(__name__)

LEASE_SECONDS = 15.0
_POLL_SECONDS = 1.0
_MIN_ROUND_SECONDS = 0.02  # while many jobs end
_MAX_ANSWER_BYTES = 64 * 1024
_OVERDUE_SECONDS = 60.0  # between two searches for overdue deliveries
_CONNECTIONS = 2


@contextmanager
def delivering(settings: Settings) -> Iterator[None]:
    """Runs a delivery loop during the block, if the settings allow webhooks at all."""
    if not settings.webhook_hosts or settings.redis_url is None:
        yield
        return
    tracing.configure("webhooks")
    database = Database(settings.database_url, connections=_CONNECTIONS)
    loop = DeliveryLoop(settings, database, JobNotifications(settings.redis_url))
    thread = threading.Thread(target=loop.run, name="webhooks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.stop()
        thread.join(SEND_SECONDS + _POLL_SECONDS)
        database.close()
        tracing.flush()


class DeliveryLoop:
    """Each round records the attempts that have ended and claims the next deliveries."""

    def __init__(
        self, settings: Settings, database: Database, notifications: JobNotifications
    ) -> None:
        self._settings = settings
        self._database = database
        self._notifications = notifications
        self._sender = Sender(
            rules=webhook_rules(settings),
            seconds=SEND_SECONDS,
            max_answer_bytes=_MAX_ANSWER_BYTES,
            tls=ssl.create_default_context(),
        )
        self._places = Places()
        self._rng = Random()
        self._stopping = threading.Event()
        self._unrecorded: list[AttemptResult] = []
        self._overdue_at = 0.0

    def run(self) -> None:
        asyncio.run(self._run())

    def stop(self) -> None:
        """Claims nothing more; `run` returns once the current attempts are recorded."""
        self._stopping.set()

    async def _run(self) -> None:
        attempts: set[asyncio.Task[AttemptResult]] = set()
        wake: asyncio.Task[set[str]] | None = None
        while not (self._stopping.is_set() and not attempts and not self._unrecorded):
            for claimed in await asyncio.to_thread(self._round):
                attempts.add(asyncio.create_task(attempt_delivery(self._sender, claimed)))
            if wake is None:  # tells of jobs that end
                wake = asyncio.create_task(
                    asyncio.to_thread(self._notifications.receive, _POLL_SECONDS)
                )
            await asyncio.sleep(_MIN_ROUND_SECONDS)
            await asyncio.wait({wake, *attempts}, return_when=asyncio.FIRST_COMPLETED)
            if wake.done():
                wake = None
            for ended in [task for task in attempts if task.done()]:
                attempts.remove(ended)
                result = ended.result()
                self._places.give_back(result.delivery.group)
                self._unrecorded.append(result)
        if wake is not None:
            await wake
        self._notifications.close()

    def _round(self) -> list[ClaimedDelivery]:
        """Records and claims in one transaction; without anything to do, it only reads."""
        try:
            self._give_up_overdue()
            return self._record_and_claim()
        except Exception:  # the thread must survive any error of the database
            # If the leases of what is not recorded expire, it is sent again.
            log.warning("Could not record or claim notifications", exc_info=True)
            time.sleep(_POLL_SECONDS)
            return []

    def _record_and_claim(self) -> list[ClaimedDelivery]:
        full, free = self._places.full, self._places.free
        may_claim = free > 0 and not self._stopping.is_set()
        if may_claim:
            with self._database.reading() as session:
                may_claim = deliveries.is_anything_due(session, full)
        if not may_claim and not self._unrecorded:
            return []
        taken: list[deliveries.Group] = []

        def take_place(group: deliveries.Group, is_failing: bool) -> bool:
            if not self._places.take(group, is_failing):
                return False
            taken.append(group)
            return True

        try:
            with self._database.transaction() as session:
                deliveries.record(
                    session,
                    self._unrecorded,
                    retry_seconds=self._settings.webhook_retry_hours * 3600,
                    rng=self._rng,
                )
                claimed = []
                if may_claim:
                    claimed = deliveries.claim(
                        session,
                        places=free,
                        full=full,
                        take_place=take_place,
                        lease_seconds=LEASE_SECONDS,
                    )
        except BaseException:
            for group in taken:
                self._places.give_back(group)
            raise
        self._unrecorded.clear()
        return claimed

    def _give_up_overdue(self) -> None:
        if time.monotonic() < self._overdue_at:
            return
        self._overdue_at = time.monotonic() + _OVERDUE_SECONDS
        with self._database.transaction() as session:
            retry_seconds = self._settings.webhook_retry_hours * 3600
            count = deliveries.give_up_overdue(session, retry_seconds)
        if count:
            log.warning("Gave up %d notifications", count)
