"""Announces queued jobs to workers and requeues the jobs of dead workers, in the background."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from store import jobs
from store.artifacts.artifact_store import ArtifactStore
from store.audit import chain as audit_chain
from store.database.sessions import Database
from store.queue import cleanup, leader_election
from store.queue.queue_publisher import BrokerDown, Publisher
from store.retention.expiry import retention_of
from store.settings import Settings

logger = logging.getLogger(__name__)

_ROLE = "dispatcher"
_LEASE_SECONDS = 10.0
_POLL_SECONDS = 1.0
_MARK_DELAY_SECONDS = 0.1  # between announcing new jobs and marking them in the database
_EPOCH_SECONDS = 2.0
_BATCH_SIZE = 100
_MAX_REST_SECONDS = 0.25  # between two rounds
_CLEANUP_SECONDS = 3600.0
_PURGE_SECONDS = 60.0  # between two deletions of the files of deleted resources
_MIN_BACKOFF, _MAX_BACKOFF = 0.5, 5.0  # seconds between attempts to reach the broker


class Dispatcher:
    """One thread per API process; one of these processes is the leader."""

    def __init__(
        self,
        database: Database,
        publisher: Publisher | None,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._publisher = publisher
        self._settings = settings
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._wake = threading.Event()
        self._new_jobs: deque[jobs.Announcement] = deque()  # named in `notify`
        self._query_new = threading.Event()  # set if `notify` did not name the jobs
        self._query_new.set()  # jobs that were queued before this process started
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._clock = clock
        # Times by this clock.
        self._renew_lease_at = 0.0
        self._check_epoch_at = 0.0
        self._retry_broker_at = 0.0
        self._clean_up_at = clock() + _CLEANUP_SECONDS
        self._purge_at = clock() + _PURGE_SECONDS
        self._cleanup_thread: threading.Thread | None = None
        self._is_leader = False
        # Announced jobs that are not marked in the database yet: job id to attempt.
        self._published: dict[str, int] = {}
        self._epoch: str | None = None
        self._broker_backoff = _MIN_BACKOFF
        self._problem: str | None = None

    def start(self) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Waits for the thread to end; another process can lead at once."""
        if self._thread is None:
            return
        self._stopping.set()
        self._wake.set()
        self._thread.join()
        self._thread = None
        if self._cleanup_thread is not None:
            self._cleanup_thread.join()
            self._cleanup_thread = None

    def notify(self, *queued: jobs.Announcement) -> None:
        """Call after a commit that queued jobs, to announce them before the next poll.

        Passing the jobs avoids a query.
        """
        if queued:
            self._new_jobs.extend(queued)
        else:
            self._query_new.set()
        self._wake.set()

    def run_once(self, *, notified: bool = False) -> None:
        """Reaps and announces; errors are logged, once when they begin and once when they end.

        Only the leader polls, but every process may announce the jobs that it queued: `jobs.due`
        returns each job to one caller.
        """
        self._run_logged(lambda: self._round(notified))

    def _round(self, notified: bool) -> None:
        if self._renew_leadership():
            self._reap()
            self._chain_audit_log()
            self._clean_up_if_due()
        if self._is_leader or notified:
            self._announce()

    def _run_logged(self, act: Callable[[], None]) -> None:
        try:
            act()
        except BrokerDown as error:
            self._retry_broker_at = self._clock() + self._broker_backoff
            self._broker_backoff = min(2 * self._broker_backoff, _MAX_BACKOFF)
            self._report("broker unreachable", error)
        except Exception as error:  # the thread must survive any database error
            self._report("dispatching failed", error)

    def _run(self) -> None:
        notified, next_round = True, 0.0
        while not self._stopping.is_set():
            began = time.monotonic()
            if notified:
                self._run_logged(self._publish_new)
            if not notified or self._clock() >= next_round:
                self.run_once(notified=bool(self._published))
                next_round = self._clock() + _POLL_SECONDS
            if notified:
                # Under load, leave most of the CPU to requests and announce in larger batches.
                # A single job is announced at once.
                self._stopping.wait(min(2 * (time.monotonic() - began), _MAX_REST_SECONDS))
            self._wake.wait(_MARK_DELAY_SECONDS if self._published else _POLL_SECONDS)
            self._wake.clear()
            # Do not use the result of `wait`: `notify` may run after its timeout.
            notified = bool(self._new_jobs) or self._query_new.is_set()
        self._release_leadership()

    def _renew_leadership(self) -> bool:
        # Three renewals per lease keep an idle system from writing often.
        if self._clock() >= self._renew_lease_at:
            self._is_leader = False  # in case the transaction fails
            with self._database.transaction() as session:
                self._is_leader = leader_election.acquire(
                    session, _ROLE, self._owner, _LEASE_SECONDS
                )
            self._renew_lease_at = self._clock() + _LEASE_SECONDS / 3
        return self._is_leader

    def _release_leadership(self) -> None:
        if not self._is_leader:
            return
        self._is_leader = False
        self._renew_lease_at = 0.0
        try:
            with self._database.transaction() as session:
                leader_election.release(session, _ROLE, self._owner)
        except Exception as error:  # the lease will expire
            self._report("releasing the leader lease failed", error)

    def _reap(self) -> None:
        with self._database.reading() as session:
            if not jobs.is_anything_to_reap(session):
                return
        with self._database.transaction() as session:
            reaped = jobs.reap(session)
        if reaped:
            logger.warning("reaped %d jobs", len(reaped), extra={"jobs": reaped[:20]})

    def _chain_audit_log(self) -> None:
        with self._database.reading() as session:
            if not audit_chain.is_anything_unchained(session):
                return
        with self._database.transaction() as session:
            audit_chain.chain(session)

    def _clean_up_if_due(self) -> None:
        at = self._clock()
        is_whole = at >= self._clean_up_at
        if at < self._purge_at and not is_whole:
            return
        if self._cleanup_thread is not None and self._cleanup_thread.is_alive():
            return
        self._purge_at = at + _PURGE_SECONDS
        if is_whole:
            self._clean_up_at = at + _CLEANUP_SECONDS
        # In its own thread: listing a large store is slow, and jobs must not wait for it.
        clean_up: Callable[..., int] = cleanup.delete_released
        if is_whole:
            retention = retention_of(self._settings)
            clean_up = partial(cleanup.delete_unneeded, retention=retention)
        self._cleanup_thread = threading.Thread(
            target=self._clean_up, args=(clean_up,), name="cleanup", daemon=True
        )
        self._cleanup_thread.start()

    def _clean_up(self, clean_up: Callable[..., int]) -> None:
        try:
            artifacts = ArtifactStore(self._settings.artifacts)
            removed = clean_up(self._database, artifacts, should_stop=self._stopping.is_set)
            if removed:
                logger.info("removed %d unused artifacts", removed)
        except Exception:  # the next run is in an hour
            logger.exception("cleanup failed")

    def _publish_new(self) -> None:
        """Publishes new jobs first; the next round marks them in the database.

        By then workers have claimed most of them, and claimed jobs need no mark.
        """
        new = [self._new_jobs.popleft() for _ in range(len(self._new_jobs))]
        if self._publisher is None or self._clock() < self._retry_broker_at:
            return  # the next round finds them
        if self._query_new.is_set():
            self._query_new.clear()
            with self._database.reading() as session:
                # The query also returns published jobs that are not marked yet.
                new += jobs.never_announced(session, _BATCH_SIZE + len(new) + len(self._published))
        new = self._unpublished(list(dict.fromkeys(new)))
        if new:
            self._publisher.publish(new)
            self._published.update((job.job_id, job.attempt) for job in new)

    def _announce(self) -> None:
        if self._publisher is None or self._clock() < self._retry_broker_at:
            return
        if self._is_leader:
            self._check_epoch(self._publisher)
        while not self._stopping.is_set():
            with self._database.reading() as session:
                if not jobs.is_anything_due(session):
                    break
            with self._database.transaction() as session:
                due = jobs.due(session, _BATCH_SIZE)
            self._publish(self._publisher, self._unpublished(due))
        self._published.clear()
        self._broker_backoff = _MIN_BACKOFF
        if self._problem is not None:
            logger.info("dispatching recovered", extra={"was": self._problem})
            self._problem = None

    def _unpublished(self, announced: list[jobs.Announcement]) -> list[jobs.Announcement]:
        return [job for job in announced if self._published.get(job.job_id) != job.attempt]

    def _publish(self, publisher: Publisher, due: list[jobs.Announcement]) -> None:
        if not due:
            return
        try:
            publisher.publish(due)
        except Exception:
            with self._database.transaction() as session:
                jobs.announce_again(session, [job.job_id for job in due])
            raise

    def _check_epoch(self, publisher: Publisher) -> None:
        if self._clock() < self._check_epoch_at:
            return
        epoch = publisher.epoch()
        self._check_epoch_at = self._clock() + _EPOCH_SECONDS
        if epoch == self._epoch:
            return
        with self._database.transaction() as session:
            if leader_election.record_epoch(session, _ROLE, epoch):
                jobs.announce_all_again(session)
                self._published.clear()
                logger.info("the broker is new or lost its messages: announcing all jobs again")
        self._epoch = epoch

    def _report(self, what: str, error: Exception) -> None:
        if what != self._problem:
            logger.warning("%s: %s", what, error, exc_info=not isinstance(error, BrokerDown))
        self._problem = what
