"""Runs jobs from claim to commit; at most one attempt of a job ever writes its ending."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy.exc import SQLAlchemyError

from store import jobs, logs
from store.errors import LeaseLost
from store.jobs import FairGroup, JobKind, Queue
from store.store import Store
from worker.execution.attempt_endings import EndingWriter, failed, finished, released, stopped
from worker.execution.attempt_spans import attempt_span, fail_attempt
from worker.execution.claimed_jobs import ClaimedJob, TimeSlice
from worker.execution.control import Stopped, StopReason
from worker.execution.failures import ARTIFACTS_UNAVAILABLE, DISK_FULL, Failure, failure_of
from worker.execution.fair_scheduler import FairScheduler
from worker.execution.handler_api import Handler, HandlerContext
from worker.execution.phases import Phases
from worker.execution.watchdog import Deadlines, Watchdog
from worker.loading.library import Library

log = logging.getLogger(__name__)

_ERROR_EXIT_CODE = 1  # the pool replaces a child that exits with an error at once
SLICE_SECONDS = 2.0  # one fair group is served for this long before the others
# Counterfactual jobs are short and many. Those of one denoiser share their inputs, so a time
# slice runs several of them.
_BATCHED_KINDS = frozenset({JobKind.COUNTERFACTUAL})
# A training takes minutes, so trainings alternate only with trainings: the message of a short job
# never starts one.
_LONG_QUEUES = frozenset({Queue.TRAIN})
TRAINING_SECONDS = 30.0  # a training yields after this if another training waits
_STORAGE_PAUSE_SECONDS = 1.0


class Runner:
    """Runs jobs one after the other; belongs to one process."""

    def __init__(
        self,
        store: Store,
        library: Library,
        handlers: Mapping[JobKind, Handler],
        owner: str,
        *,
        queues: Sequence[Queue] = (),  # their fair groups alternate with that of the message's job
        exit_process: Callable[[int], object] = os._exit,
        on_ended: Callable[[Sequence[str]], None] = lambda job_ids: None,
        slice_seconds: float = SLICE_SECONDS,
        training_seconds: float = TRAINING_SECONDS,
    ) -> None:
        self._store = store
        self._library = library
        self._handlers = handlers
        self._owner = owner
        self._queues = frozenset(queues)
        self._exit_process = exit_process
        self._on_ended = on_ended
        settings = store.settings
        self._deadlines = Deadlines(
            lease_seconds=settings.lease_seconds,
            grace_seconds=settings.cancel_grace_seconds,
            time_limit_seconds=settings.job_time_limit_seconds,
            slice_seconds=slice_seconds,
            training_seconds=training_seconds,
        )
        self._max_reserved = settings.jobs_at_once - 1
        self._scheduler = FairScheduler()
        self._lock = threading.Lock()
        self._current: TimeSlice | None = None
        self._shutting_down = False
        self._artifacts_failed = False  # in the last attempt

    def run(self, job_id: str) -> None:
        """Runs the job of a message, after jobs that have waited longer."""
        with logs.job_context(job_id):
            while (next_id := self._next_job(job_id)) is not None:
                self._run_slice(next_id)
                if next_id == job_id:
                    return
            log.debug("Nothing to do: the job is claimed, waiting or ended")

    def shut_down(self) -> None:
        """From any thread: releases the running job, and all later ones, to other workers."""
        with self._lock:
            self._shutting_down = True
            if self._current is not None:
                self._current.stop(StopReason.SHUTDOWN)

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return self._current is None

    def _wait_for_storage(self) -> None:
        """Does not start a job whose inputs could not be read or whose result not be stored."""
        while self._artifacts_failed and not self._shutting_down:
            problem = self._store.artifacts.problem()
            self._artifacts_failed = problem is not None
            if problem is not None:
                log.warning("Waiting before the next job: %s", problem)
                time.sleep(_STORAGE_PAUSE_SECONDS)
        disk = self._store.disk
        shortage = disk.shortage()
        if shortage is not None:
            log.warning("Waiting for disk space before the next job: %s", shortage)
            disk.wait_for_room(lambda: self._shutting_down)

    def _next_job(self, announced: str) -> str | None:
        """The job to run now; None if the announced job cannot be claimed."""
        self._wait_for_storage()
        with self._store.database.reading() as session:
            group = jobs.group_of(session, announced)
            if group is None:
                return None
            is_long = group.kind.queue in _LONG_QUEUES
            queues = self._queues & _LONG_QUEUES if is_long else self._queues - _LONG_QUEUES
            waiting = jobs.waiting_groups(session, sorted(queues)) if queues else []
        if self._shutting_down or all(entry.group != group for entry in waiting):
            return announced
        chosen = self._scheduler.next(waiting)
        return announced if chosen.group == group else chosen.job_id

    def _run_slice(self, job_id: str) -> None:
        with self._store.database.transaction() as session:
            claim = jobs.claim(session, job_id, self._owner, self._deadlines.lease_seconds)
        if claim is None:
            log.debug("Another worker has claimed the job")
            return
        time_slice = TimeSlice(ClaimedJob(self._store, claim, has_begun=True))
        endings = EndingWriter(
            self._store.database, lambda claimed_jobs: self._remove_ended(time_slice, claimed_jobs)
        )
        watchdog = Watchdog(
            self._store.database,
            time_slice,
            endings,
            self._deadlines,
            end_process=lambda claimed_job, reason: self._end_process(
                time_slice, endings, claimed_job, reason
            ),
        )
        context = logs.job_context(claim.job_id, claim.origin.request_id)
        with context, self._running(time_slice), watchdog:
            self._run_claimed_jobs(time_slice, endings)
        self._scheduler.mark_served(FairGroup(claim.tenant, claim.kind, claim.denoiser_id))

    def _run_claimed_jobs(self, time_slice: TimeSlice, endings: EndingWriter) -> None:
        try:
            while (claimed_job := time_slice.next()) is not None:
                claim = claimed_job.claim
                with logs.job_context(claim.job_id, claim.origin.request_id), attempt_span(claim):
                    self._run_attempt(claimed_job, time_slice, endings)
                if not time_slice.has_waiting:
                    endings.write()
                    time_slice.add(self._reserve_jobs(time_slice))
            endings.write()
        except BaseException:  # the process was told to exit while a handler ran
            _release_waiting(time_slice, endings)
            if time_slice.current is not None:
                endings.add(released(time_slice.current))
            endings.write()
            raise

    def _reserve_jobs(self, time_slice: TimeSlice) -> list[ClaimedJob]:
        """Reserves as many jobs as should fit into the slice, given the speed so far."""
        first = time_slice.first.claim
        seconds_left = self._deadlines.slice_seconds - time_slice.seconds
        if first.kind not in _BATCHED_KINDS or self._shutting_down or seconds_left <= 0:
            return []
        expected = int(seconds_left * time_slice.attempts_done / time_slice.seconds)
        count = min(self._max_reserved, expected)
        if count < 1 or self._artifacts_failed or self._store.disk.shortage() is not None:
            return []
        with self._store.database.transaction() as session:
            claims = jobs.reserve_matching(session, first, self._deadlines.lease_seconds, count)
        if claims:
            log.info("Reserved %d more jobs of the same denoiser", len(claims))
        return [ClaimedJob(self._store, claim, has_begun=False) for claim in claims]

    def _remove_ended(self, time_slice: TimeSlice, claimed_jobs: Sequence[ClaimedJob]) -> None:
        time_slice.remove(claimed_jobs)
        self._on_ended([claimed_job.job_id for claimed_job in claimed_jobs])

    @contextmanager
    def _running(self, time_slice: TimeSlice) -> Iterator[None]:
        with self._lock:
            self._current = time_slice
            if self._shutting_down:
                time_slice.stop(StopReason.SHUTDOWN)
        try:
            yield
        finally:
            with self._lock:
                self._current = None

    def _run_attempt(
        self, claimed_job: ClaimedJob, time_slice: TimeSlice, endings: EndingWriter
    ) -> None:
        claim, control, phases = claimed_job.claim, claimed_job.control, Phases()
        try:
            if self._shutting_down:
                control.stop(StopReason.SHUTDOWN)
            # Releasing the claim announces the job to other workers at once. A message that is
            # only dropped would wait for the dispatcher's next round.
            control.raise_if_stopped()
            if not claimed_job.has_begun:
                endings.begin(claimed_job)
            log.info("Starting attempt %d of a %s job", claim.attempt, claim.kind)
            context = HandlerContext(claim, control, self._store, self._library, phases)
            output = self._handlers[claim.kind](context)
            phases.end()
            endings.add(finished(claimed_job, output, phases.seconds))
            log.info("Attempt succeeded")
        except LeaseLost:
            endings.add(stopped(claimed_job, StopReason.LEASE_LOST))
        except Stopped as stop:
            if stop.reason is not StopReason.LEASE_LOST:
                log.info("Attempt stopped: %s", stop.reason.value)
            endings.add(stopped(claimed_job, stop.reason))
        except Exception as error:
            failure = failure_of(error)
            if failure.kind == DISK_FULL:
                failure = self._disk_failure(failure)
            elif failure.kind == ARTIFACTS_UNAVAILABLE:
                failure = self._artifact_failure(failure)
            log.warning("Attempt failed: %s", failure.message, exc_info=True)
            fail_attempt(failure.kind)
            self._library.clear()  # the cache may be the reason for a lack of memory
            endings.add(failed(claimed_job, failure))
            if failure.unsound_process:
                _release_waiting(time_slice, endings)
                endings.write()
                self._exit_process(_ERROR_EXIT_CODE)
        finally:
            phases.end()
            time_slice.attempts_done += 1

    def _disk_failure(self, failure: Failure) -> Failure:
        """Counts the attempt if the disk has free space: this job needs more than there is."""
        disk = self._store.disk
        needs_too_much = disk.below_reserve() is None
        disk.note_refusal()
        message = f"{failure.message} Now {disk.free_space()}."
        return replace(failure, message=message, counts=needs_too_much)

    def _artifact_failure(self, failure: Failure) -> Failure:
        """Counts the attempt if the artifact store answers again: then the job may be at fault."""
        self._artifacts_failed = self._store.artifacts.problem() is not None
        return replace(failure, counts=not self._artifacts_failed)

    def _end_process(
        self,
        time_slice: TimeSlice,
        endings: EndingWriter,
        claimed_job: ClaimedJob,
        reason: StopReason,
    ) -> None:
        """Called by the watchdog if the handler does not stop: ends the job and the process."""
        log.warning("The job does not stop (%s); ending its process", reason.value)
        _release_waiting(time_slice, endings)
        try:
            endings.try_to_write()
            with self._store.database.transaction() as session:
                stopped(claimed_job, reason).write(session)
        except LeaseLost:
            return  # the handler has stopped meanwhile and its ending is written
        except SQLAlchemyError:
            log.warning("Could not write the ending; the lease will expire", exc_info=True)
        self._exit_process(_ERROR_EXIT_CODE)


def _release_waiting(time_slice: TimeSlice, endings: EndingWriter) -> None:
    """Releases jobs that have not started, so that other workers can run them."""
    for claimed_job in time_slice.unfinished():
        if claimed_job.take():
            endings.add(released(claimed_job))
