"""One job from claim to commit: at most one attempt of it ever writes an ending."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from store import jobs, logs
from store.errors import LeaseLost
from store.jobs import Claim, JobKind
from store.opened import Store
from worker.control import Control, Stopped, StopReason
from worker.failures import failure_of
from worker.loading import Library
from worker.watchdog import Patience, Watchdog
from worker.work import Handler, Outcome, Work

log = logging.getLogger(__name__)

_EXIT_BY_FORCE = 1  # the pool replaces a child that ended with an error at once
_COMMIT_PAUSES = (0.1, 0.3, 1.0, 3.0, 5.0)


class Runner:
    """Runs jobs one after the other; belongs to one process."""

    def __init__(
        self,
        store: Store,
        library: Library,
        handlers: Mapping[JobKind, Handler],
        owner: str,
        *,
        exit_process: Callable[[int], object] = os._exit,
    ) -> None:
        self._store = store
        self._library = library
        self._handlers = handlers
        self._owner = owner
        self._exit_process = exit_process
        settings = store.settings
        self._patience = Patience(
            lease_seconds=settings.lease_seconds,
            grace_seconds=settings.cancel_grace_seconds,
            time_limit_seconds=settings.job_time_limit_seconds,
        )
        self._lock = threading.Lock()
        self._current: Control | None = None
        self._shutting_down = False

    def run(self, job_id: str) -> None:
        with logs.job_context(job_id):
            with self._store.database.transaction() as session:
                claim = jobs.claim(session, job_id, self._owner, self._patience.lease_seconds)
            if claim is None:
                log.info("nothing to do: claimed by another worker, waiting or ended")
                return
            log.info("attempt %d of a %s job starts", claim.attempt, claim.kind)
            keeper = _CheckpointKeeper(self._store, claim)
            control = Control(keeper.save)
            watchdog = Watchdog(
                self._store.database,
                claim,
                control,
                self._patience,
                end_by_force=partial(self._end_by_force, claim),
            )
            with self._running(control), watchdog:
                succeeded = self._attempt(claim, control)
            if succeeded:
                keeper.drop()

    def shut_down(self) -> None:
        """From any thread: give up the running job, and every later one, for others to go on."""
        with self._lock:
            self._shutting_down = True
            if self._current is not None:
                self._current.stop(StopReason.SHUTDOWN)

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return self._current is None

    @contextmanager
    def _running(self, control: Control) -> Iterator[None]:
        with self._lock:
            self._current = control
            if self._shutting_down:
                control.stop(StopReason.SHUTDOWN)
        try:
            yield
        finally:
            with self._lock:
                self._current = None

    def _attempt(self, claim: Claim, control: Control) -> bool:
        try:
            # A claim that is given up at once is announced to others at once; a message that
            # is only dropped would wait for the dispatcher's next round.
            control.raise_if_stopped()
            outcome = self._handlers[claim.kind](Work(claim, control, self._store, self._library))
            self._commit(claim, control, partial(_end_finished, claim=claim, outcome=outcome))
            log.info("succeeded")
            return True
        except LeaseLost:
            _log_lost()
        except Stopped as stopped:
            if stopped.reason is StopReason.LEASE_LOST:
                _log_lost()
            else:
                log.info("stopped: %s", stopped.reason.value)
                self._commit_unless_lost(
                    claim, control, partial(_end_stopped, claim=claim, reason=stopped.reason)
                )
        except Exception as error:
            failure = failure_of(error)
            log.warning("the attempt failed: %s", failure.message, exc_info=True)
            self._library.forget()  # what was kept warm may be why there was no memory
            self._commit_unless_lost(
                claim,
                control,
                partial(
                    jobs.fail,
                    claim=claim,
                    error_type=failure.kind,
                    message=failure.message,
                    retryable=failure.retryable,
                ),
            )
            if failure.unsound_process:
                self._exit_process(_EXIT_BY_FORCE)
        except BaseException:  # the process was told to go, in the middle of the handler
            self._commit_unless_lost(claim, control, partial(jobs.release, claim=claim))
            raise
        return False

    def _commit(self, claim: Claim, control: Control, ending: Callable[[Session], None]) -> None:
        """Writes the ending, fenced; a database that is away for a moment is waited for."""
        last_progress = control.take_progress()
        for pause in (*_COMMIT_PAUSES, None):
            try:
                with self._store.database.transaction() as session:
                    if last_progress is not None:
                        jobs.record_progress(session, claim, last_progress.document())
                    ending(session)
                return
            except OperationalError:
                if pause is None:
                    raise
                log.warning("the ending could not be written yet", exc_info=True)
                time.sleep(pause)

    def _commit_unless_lost(
        self, claim: Claim, control: Control, ending: Callable[[Session], None]
    ) -> None:
        try:
            self._commit(claim, control, ending)
        except LeaseLost:
            _log_lost()

    def _end_by_force(self, claim: Claim, reason: StopReason) -> None:
        """Called by the watchdog when the handler does not stop: ends job and process."""
        log.warning("the job does not stop (%s): its process ends", reason.value)
        try:
            with self._store.database.transaction() as session:
                _end_stopped(session, claim, reason)
        except LeaseLost:
            return  # the handler ended after all and its ending was written
        except SQLAlchemyError:
            log.warning("the ending was not written; the lease will run out", exc_info=True)
        self._exit_process(_EXIT_BY_FORCE)


class _CheckpointKeeper:
    """Keeps the newest checkpoint of one attempt and drops the one before."""

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self._kept: str | None = claim.checkpoint["digest"] if claim.checkpoint else None

    def save(self, data: bytes, step: int) -> None:
        digest = self._store.artifacts.put(data)
        with self._store.database.transaction() as session:
            jobs.record_checkpoint(session, self._claim, digest, step)
        if self._kept is not None and self._kept != digest:
            self._store.artifacts.delete(self._kept)
        self._kept = digest

    def drop(self) -> None:
        """Nobody will resume a job that has succeeded."""
        if self._kept is not None:
            self._store.artifacts.delete(self._kept)


def _log_lost() -> None:
    log.warning("the lease is lost; nothing of this attempt is written")


def _end_finished(session: Session, claim: Claim, outcome: Outcome) -> None:
    outcome.record(session)
    jobs.succeed(session, claim, outcome.result)


def _end_stopped(session: Session, claim: Claim, reason: StopReason) -> None:
    match reason:
        case StopReason.CANCELED:
            jobs.cancel_running(session, claim)
        case StopReason.TIMED_OUT:
            jobs.expire(session, claim)
        case StopReason.SHUTDOWN:
            jobs.release(session, claim)
        case StopReason.LEASE_LOST:
            pass
