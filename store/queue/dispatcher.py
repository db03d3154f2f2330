"""Announces queued jobs and takes jobs back from silent workers, outside of any request."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

from store import jobs
from store.artifacts.files import Artifacts
from store.database.sessions import Database
from store.queue import housekeeping, leader_election
from store.queue.queue_publisher import Bell, BrokerDown
from store.settings import Settings

logger = logging.getLogger(__name__)

_LEAD = "dispatcher"
_LEAD_SECONDS = 10.0
_POLL_SECONDS = 1.0
_QUIET_SECONDS = 0.1  # after a nudge, before what was announced is written down
_EPOCH_SECONDS = 2.0
_BATCH = 100
_LONGEST_REST = 0.25  # between two rounds, however long the first one took
_TIDY_SECONDS = 3600.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0  # between tries while the broker is away


class Dispatcher:
    """One thread; several API processes may each run one, and one of them leader_election."""

    def __init__(
        self,
        database: Database,
        doorbell: Bell | None,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._doorbell = doorbell
        self._settings = settings
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._wake = threading.Event()
        # What nudges have said: which jobs are new, or only that there are some.
        self._queued: deque[jobs.Announcement] = deque()
        self._look = threading.Event()
        self._look.set()  # whatever was queued before this process started
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._clock = clock
        # Moments by that clock.
        self._ask_lead_at = 0.0
        self._ask_epoch_at = 0.0
        self._try_broker_at = 0.0
        self._tidy_at = clock() + _TIDY_SECONDS
        self._tidying: threading.Thread | None = None
        self._leads = False
        # Jobs, with their attempts, that were announced and not marked yet.
        self._rung: dict[str, int] = {}
        self._epoch: str | None = None
        self._broker_pause = _FIRST_PAUSE
        self._trouble: str | None = None

    def start(self) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns when the thread has ended; the next process can lead at once."""
        if self._thread is None:
            return
        self._stopping.set()
        self._wake.set()
        self._thread.join()
        self._thread = None
        if self._tidying is not None:
            self._tidying.join()
            self._tidying = None

    def nudge(self, *queued: jobs.Announcement) -> None:
        """Call after a commit that queued jobs: they are announced now, not at the next poll.

        Who says which ones saves looking for them.
        """
        if queued:
            self._queued.extend(queued)
        else:
            self._look.set()
        self._wake.set()

    def run_once(self, *, nudged: bool = False) -> None:
        """Reaps and announces; trouble is logged when it begins and when it ends, never raised.

        Only the leader polls, but whoever queued a job may announce it: `jobs.due` gives each
        job to one caller.
        """
        self._guarded(lambda: self._round(nudged))

    def _round(self, nudged: bool) -> None:
        if self._is_leading():
            self._reap()
            self._tidy_sometimes()
        if self._leads or nudged:
            self._announce()

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except BrokerDown as error:
            self._try_broker_at = self._clock() + self._broker_pause
            self._broker_pause = min(2 * self._broker_pause, _LONGEST_PAUSE)
            self._report("broker unreachable", error)
        except Exception as error:  # the thread must outlive whatever happens to the database
            self._report("dispatching failed", error)

    def _run(self) -> None:
        nudged, next_round = True, 0.0
        while not self._stopping.is_set():
            began = time.monotonic()
            if nudged:
                self._guarded(self._announce_new)
            if not nudged or self._clock() >= next_round:
                self.run_once(nudged=bool(self._rung))
                next_round = self._clock() + _POLL_SECONDS
            if nudged:
                # While jobs keep coming, requests get most of this process, and announcements go
                # out in larger batches. A lone job is announced at once.
                self._stopping.wait(min(2 * (time.monotonic() - began), _LONGEST_REST))
            self._wake.wait(_QUIET_SECONDS if self._rung else _POLL_SECONDS)
            self._wake.clear()
            # Not what `wait` said: a nudge may have come after its time was up.
            nudged = bool(self._queued) or self._look.is_set()
        self._give_up_lead()

    def _is_leading(self) -> bool:
        # Asked three times per lease, so that an idle system writes little.
        if self._clock() >= self._ask_lead_at:
            self._leads = False  # unless the database says so
            with self._database.transaction() as session:
                self._leads = leader_election.take(session, _LEAD, self._owner, _LEAD_SECONDS)
            self._ask_lead_at = self._clock() + _LEAD_SECONDS / 3
        return self._leads

    def _give_up_lead(self) -> None:
        if not self._leads:
            return
        self._leads = False
        self._ask_lead_at = 0.0
        try:
            with self._database.transaction() as session:
                leader_election.give_up(session, _LEAD, self._owner)
        except Exception as error:  # the lease will run out
            self._report("giving up the lead failed", error)

    def _reap(self) -> None:
        with self._database.reading() as session:
            if not jobs.is_anything_to_reap(session):
                return
        with self._database.transaction() as session:
            reaped = jobs.reap(session)
        if reaped:
            logger.warning("took back %d jobs", len(reaped), extra={"jobs": reaped[:20]})

    def _tidy_sometimes(self) -> None:
        if self._clock() < self._tidy_at:
            return
        self._tidy_at = self._clock() + _TIDY_SECONDS
        # Beside the dispatcher: listing a large store takes long, and jobs shall not wait for it.
        self._tidying = threading.Thread(target=self._tidy, name="housekeeping", daemon=True)
        self._tidying.start()

    def _tidy(self) -> None:
        try:
            artifacts = Artifacts(self._settings.artifacts)
            removed = housekeeping.tidy(
                self._database, artifacts, should_stop=self._stopping.is_set
            )
            logger.info("removed %d artifacts that nothing names", removed)
        except Exception:  # it is tried again in an hour
            logger.exception("housekeeping failed")

    def _announce_new(self) -> None:
        """Rings first and lets the next round mark it: nobody waits for that write.

        By then most jobs have been claimed and need no mark.
        """
        new = [self._queued.popleft() for _ in range(len(self._queued))]
        if self._doorbell is None or self._clock() < self._try_broker_at:
            return  # the rounds find them
        if self._look.is_set():
            self._look.clear()
            with self._database.reading() as session:
                # Those that were rung and are not marked yet come first.
                new += jobs.never_announced(session, _BATCH + len(new) + len(self._rung))
        new = self._unrung(list(dict.fromkeys(new)))
        if new:
            self._doorbell.ring(new)
            self._rung.update((job.job_id, job.attempt) for job in new)

    def _announce(self) -> None:
        if self._doorbell is None or self._clock() < self._try_broker_at:
            return
        if self._leads:
            self._check_epoch(self._doorbell)
        while not self._stopping.is_set():
            with self._database.reading() as session:
                if not jobs.is_anything_due(session):
                    break
            with self._database.transaction() as session:
                due = jobs.due(session, _BATCH)
            self._ring(self._doorbell, self._unrung(due))
        self._rung.clear()
        self._broker_pause = _FIRST_PAUSE
        if self._trouble is not None:
            logger.info("dispatching works again", extra={"was": self._trouble})
            self._trouble = None

    def _unrung(self, announced: list[jobs.Announcement]) -> list[jobs.Announcement]:
        return [job for job in announced if self._rung.get(job.job_id) != job.attempt]

    def _ring(self, doorbell: Bell, due: list[jobs.Announcement]) -> None:
        if not due:
            return
        try:
            doorbell.ring(due)
        except Exception:
            with self._database.transaction() as session:
                jobs.announce_again(session, [job.job_id for job in due])
            raise

    def _check_epoch(self, doorbell: Bell) -> None:
        if self._clock() < self._ask_epoch_at:
            return
        epoch = doorbell.epoch()
        self._ask_epoch_at = self._clock() + _EPOCH_SECONDS
        if epoch == self._epoch:
            return
        with self._database.transaction() as session:
            if leader_election.note_epoch(session, _LEAD, epoch):
                jobs.announce_all_again(session)
                self._rung.clear()
                logger.info("the broker is new or has lost its messages: announcing all again")
        self._epoch = epoch

    def _report(self, what: str, error: Exception) -> None:
        if what != self._trouble:
            logger.warning("%s: %s", what, error, exc_info=not isinstance(error, BrokerDown))
        self._trouble = what
