"""Jobs from claim to commit: at most one attempt of each ever writes an ending."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from store import jobs, logs
from store.errors import LeaseLost
from store.jobs import FairGroup, JobKind, Queue
from store.store import Store
from worker.execution.attempt_endings import Endings, failed, finished, released, stopped
from worker.execution.claimed_jobs import ClaimedJob, TimeSlice
from worker.execution.control import Stopped, StopReason
from worker.execution.failures import failure_of
from worker.execution.fair_scheduler import FairScheduler
from worker.execution.handler_api import Handler, Work
from worker.execution.watchdog import Patience, Watchdog
from worker.loading.library import Library

log = logging.getLogger(__name__)

_EXIT_BY_FORCE = 1  # the pool replaces a child that ended with an error at once
SLICE_SECONDS = 2.0  # that one party is served for before others have their turn
# Their jobs are short and many; what they need is the same, so that they are run together.
_TOGETHER = frozenset({JobKind.COUNTERFACTUAL})
# A training takes minutes: it takes turns with trainings alone, so that the message of a short
# job never begins one.
TRAINING_SECONDS = 30.0  # of a training's turn, if another training waits
_LONG = frozenset({Queue.TRAIN})


class Runner:
    """Runs jobs one after the other; belongs to one process."""

    def __init__(
        self,
        store: Store,
        library: Library,
        handlers: Mapping[JobKind, Handler],
        owner: str,
        *,
        queues: Sequence[Queue] = (),  # whose parties take turns with the announced job's
        exit_process: Callable[[int], object] = os._exit,
        ended: Callable[[Sequence[str]], None] = lambda job_ids: None,
        slice_seconds: float = SLICE_SECONDS,
        training_seconds: float = TRAINING_SECONDS,
    ) -> None:
        self._store = store
        self._library = library
        self._handlers = handlers
        self._owner = owner
        self._queues = frozenset(queues)
        self._exit_process = exit_process
        self._ended = ended
        settings = store.settings
        self._patience = Patience(
            lease_seconds=settings.lease_seconds,
            grace_seconds=settings.cancel_grace_seconds,
            time_limit_seconds=settings.job_time_limit_seconds,
            slice_seconds=slice_seconds,
            training_seconds=training_seconds,
        )
        self._most_mates = settings.jobs_at_once - 1
        self._turns = FairScheduler()
        self._lock = threading.Lock()
        self._current: TimeSlice | None = None
        self._shutting_down = False

    def run(self, job_id: str) -> None:
        """Runs the announced job, and before it whoever's turn it is."""
        with logs.job_context(job_id):
            while (turn := self._turn(job_id)) is not None:
                self._run_slice(turn)
                if turn == job_id:
                    return
            log.debug("nothing to do: claimed by another worker, waiting or ended")

    def shut_down(self) -> None:
        """From any thread: give up what is running, and all later jobs, for others to go on."""
        with self._lock:
            self._shutting_down = True
            if self._current is not None:
                self._current.stop(StopReason.SHUTDOWN)

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return self._current is None

    def _wait_for_room(self) -> None:
        """A job whose result cannot be stored is not begun; its announcement waits here."""
        disk = self._store.disk
        shortage = disk.shortage()
        if shortage is not None:
            log.warning("no job is begun: %s", shortage)
            disk.wait_for_room(lambda: self._shutting_down)

    def _turn(self, announced: str) -> str | None:
        """The job to begin now; None if the announced one is not to be had."""
        self._wait_for_room()
        with self._store.database.reading() as session:
            party = jobs.group_of(session, announced)
            if party is None:
                return None
            queues = self._queues & _LONG if party.kind.queue in _LONG else self._queues - _LONG
            waiting = jobs.waiting_groups(session, sorted(queues)) if queues else []
        if self._shutting_down or all(one.group != party for one in waiting):
            return announced
        turn = self._turns.next(waiting)
        return announced if turn.group == party else turn.job_id

    def _run_slice(self, job_id: str) -> None:
        with self._store.database.transaction() as session:
            claim = jobs.claim(session, job_id, self._owner, self._patience.lease_seconds)
        if claim is None:
            log.debug("claimed by another worker")
            return
        slice_ = TimeSlice(ClaimedJob(self._store, claim, has_begun=True))
        endings = Endings(self._store.database, lambda seats: self._left(slice_, seats))
        watchdog = Watchdog(
            self._store.database,
            slice_,
            endings,
            self._patience,
            end_by_force=lambda seat, reason: self._end_by_force(slice_, endings, seat, reason),
        )
        with self._running(slice_), watchdog:
            self._work_through(slice_, endings)
        self._turns.served(FairGroup(claim.tenant, claim.kind, claim.denoiser_id))

    def _work_through(self, slice_: TimeSlice, endings: Endings) -> None:
        try:
            while (seat := slice_.next()) is not None:
                with logs.job_context(seat.claim.job_id):
                    self._attempt(seat, slice_, endings)
                if not slice_.has_waiting:
                    endings.write()
                    slice_.add(self._mates(slice_))
            endings.write()
        except BaseException:  # the process was told to go, in the middle of a handler
            _give_back(slice_, endings)
            if slice_.current is not None:
                endings.add(released(slice_.current))
            endings.write()
            raise

    def _mates(self, slice_: TimeSlice) -> list[ClaimedJob]:
        """As many as should be done when the slice is over, judged by those before."""
        first = slice_.first.claim
        left = self._patience.slice_seconds - slice_.seconds
        if first.kind not in _TOGETHER or self._shutting_down or left <= 0:
            return []
        count = min(self._most_mates, int(left * slice_.done / slice_.seconds))
        if count < 1 or self._store.disk.shortage() is not None:
            return []
        with self._store.database.transaction() as session:
            claims = jobs.reserve_matching(session, first, self._patience.lease_seconds, count)
        if claims:
            log.info("%d jobs of the same denoiser are run together with it", len(claims))
        return [ClaimedJob(self._store, claim, has_begun=False) for claim in claims]

    def _left(self, slice_: TimeSlice, seats: Sequence[ClaimedJob]) -> None:
        slice_.leave(seats)
        self._ended([seat.claim.job_id for seat in seats])

    @contextmanager
    def _running(self, slice_: TimeSlice) -> Iterator[None]:
        with self._lock:
            self._current = slice_
            if self._shutting_down:
                slice_.stop(StopReason.SHUTDOWN)
        try:
            yield
        finally:
            with self._lock:
                self._current = None

    def _attempt(self, seat: ClaimedJob, slice_: TimeSlice, endings: Endings) -> None:
        claim, control = seat.claim, seat.control
        try:
            if self._shutting_down:
                control.stop(StopReason.SHUTDOWN)
            # A claim that is given up at once is announced to others at once; a message that
            # is only dropped would wait for the dispatcher's next round.
            control.raise_if_stopped()
            if not seat.has_begun:
                endings.begin(seat)
            log.info("attempt %d of a %s job starts", claim.attempt, claim.kind)
            outcome = self._handlers[claim.kind](Work(claim, control, self._store, self._library))
            endings.add(finished(seat, outcome))
            log.info("done")
        except LeaseLost:
            endings.add(stopped(seat, StopReason.LEASE_LOST))
        except Stopped as stop:
            if stop.reason is not StopReason.LEASE_LOST:
                log.info("stopped: %s", stop.reason.value)
            endings.add(stopped(seat, stop.reason))
        except Exception as error:
            failure = failure_of(error)
            log.warning("the attempt failed: %s", failure.message, exc_info=True)
            self._library.forget()  # what was kept warm may be why there was no memory
            endings.add(failed(seat, failure))
            if not failure.counts:
                self._store.disk.note_refusal()
            if failure.unsound_process:
                _give_back(slice_, endings)
                endings.write()
                self._exit_process(_EXIT_BY_FORCE)
        finally:
            slice_.done += 1

    def _end_by_force(
        self, slice_: TimeSlice, endings: Endings, seat: ClaimedJob, reason: StopReason
    ) -> None:
        """Called by the watchdog when the handler does not stop: ends job and process."""
        log.warning("the job does not stop (%s): its process ends", reason.value)
        _give_back(slice_, endings)
        try:
            endings.try_to_write()
            with self._store.database.transaction() as session:
                stopped(seat, reason).write(session)
        except LeaseLost:
            return  # the handler ended after all and its ending was written
        except SQLAlchemyError:
            log.warning("the ending was not written; the lease will run out", exc_info=True)
        self._exit_process(_EXIT_BY_FORCE)


def _give_back(slice_: TimeSlice, endings: Endings) -> None:
    """Those that nobody has begun are for others to run."""
    for seat in slice_.held():
        if seat.take():
            endings.add(released(seat))
