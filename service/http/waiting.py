"""Waits for jobs: `Prefer: wait=n`, and one watcher for all waiting requests."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from sqlalchemy import func, select
from starlette.requests import Request

from service.http.faults import reject, shown
from store.database.sessions import Database
from store.database.tables import JobEvent
from store.queue.job_notifications import JobNotifications

log = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 60
DEFAULT_WAIT_SECONDS = 10  # for probes and predictions, which are short

_POLL_SECONDS = 0.05
POLL_SECONDS_WITH_NOTIFICATIONS = 0.25  # for progress and lost notifications
_LISTEN_SECONDS = 1.0
_EVENT_BATCH = 1000
_WAIT = re.compile(r'wait\s*=\s*"?([0-9]{1,20})"?')


@dataclass(frozen=True)
class Preference:
    """How long to wait, and the value of `Preference-Applied` (RFC 7240)."""

    seconds: int
    applied: str | None

    @property
    def headers(self) -> dict[str, str]:
        return {"Preference-Applied": self.applied} if self.applied else {}


NO_WAIT = Preference(0, None)


def parse_prefer(header: str | None, default: int) -> Preference:
    """Reads `Prefer`; ignores unknown preferences, as the RFC asks, but not a wrong `wait`."""
    tokens = [token.strip().lower() for token in (header or "").split(",")]
    for token in tokens:
        match = _WAIT.fullmatch(token.split(";")[0].strip())
        if match:
            seconds = min(int(match[1]), MAX_WAIT_SECONDS)
            return Preference(seconds, f"wait={seconds}")
        if token.partition("=")[0].strip() == "wait":
            allowed = f"wait takes whole seconds, at most {MAX_WAIT_SECONDS}, such as wait=10"
            reject("Prefer", f"is {shown(token)}; {allowed}", "header")
    if "respond-async" in tokens:
        return Preference(0, "respond-async")
    return Preference(default, None)


class JobChange:
    """Set by the watcher's thread when a job has a new event."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: float) -> None:
        """Returns at the next change, or after `seconds`."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return
        self._event.clear()


async def until_disconnected(request: Request) -> None:
    """Returns when the client disconnects; the body must have been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@contextmanager
def watch_disconnect(
    request: Request, on_disconnect: Callable[[], None]
) -> Iterator[Callable[[], bool]]:
    """Calls `on_disconnect` if the client disconnects within the block; yields whether it did."""
    disconnected = asyncio.ensure_future(until_disconnected(request))
    disconnected.add_done_callback(lambda _: on_disconnect())
    try:
        yield disconnected.done
    finally:
        disconnected.cancel()


class JobWatcher:
    """Polls the events of all jobs in one query, only while a request waits.

    Notifications report the end of a job before the next poll.
    """

    def __init__(
        self,
        database: Database,
        notifications: JobNotifications | None = None,
        poll_seconds: float = POLL_SECONDS_WITH_NOTIFICATIONS,
    ) -> None:
        self._database = database
        self._notifications = notifications
        self._poll_seconds = _POLL_SECONDS if notifications is None else poll_seconds
        self._subscribers: dict[str, set[JobChange]] = defaultdict(set)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._seen: int | None = None  # id of the newest event read
        self.stopping = False

    @contextmanager
    def subscribe(self, job_id: str) -> Iterator[JobChange]:
        """Signals changes of one job. Read the job after subscribing, to miss no change."""
        change = JobChange()
        with self._changed:
            self._subscribers[job_id].add(change)
            if self._thread is None and not self.stopping:
                self._thread = threading.Thread(target=self._run, name="job-watch", daemon=True)
                self._thread.start()
                if self._notifications is not None:
                    listen = partial(self._listen, self._notifications)
                    threading.Thread(target=listen, name="job-notifications", daemon=True).start()
            self._changed.notify()
        try:
            yield change
        finally:
            with self._changed:
                self._subscribers[job_id].discard(change)
                if not self._subscribers[job_id]:
                    del self._subscribers[job_id]

    def stop(self) -> None:
        """Wakes all waiting requests; they answer with the current state."""
        with self._changed:
            self.stopping = True
            self._changed.notify()
            self._set_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout=1)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._subscribers:
                    self._seen = None
                    self._changed.wait_for(lambda: self._subscribers or self.stopping)
                if self.stopping:
                    return
            try:
                self._poll()
            except Exception:  # an outage; waiting requests also read the job themselves
                log.warning("could not read job events; retrying", exc_info=True)
                time.sleep(1.0)
            time.sleep(self._poll_seconds)

    def _listen(self, notifications: JobNotifications) -> None:
        while not self.stopping:
            self._set(notifications.receive(_LISTEN_SECONDS))
        notifications.close()

    def _poll(self) -> None:
        with self._database.reading() as session:
            if self._seen is None:
                self._seen = session.scalar(select(func.max(JobEvent.id))) or 0
                changed = None
            else:
                newer = select(JobEvent.id, JobEvent.job_id).where(JobEvent.id > self._seen)
                rows = session.execute(newer.order_by(JobEvent.id).limit(_EVENT_BATCH)).all()
                if rows:
                    self._seen = rows[-1].id
                changed = {row.job_id for row in rows}
        if changed is not None:
            self._set(changed)
            return
        with self._changed:
            self._set_all()

    def _set(self, job_ids: set[str]) -> None:
        with self._changed:
            for job_id in job_ids & self._subscribers.keys():
                for change in self._subscribers[job_id]:
                    change.set()

    def _set_all(self) -> None:
        for changes in self._subscribers.values():
            for change in changes:
                change.set()
