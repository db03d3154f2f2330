"""Runs random sequences of job operations and compares the database with a small model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import event, select, text, update
from sqlalchemy.orm import Session

from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from store.catalogue import denoisers, explanations, retries, witness_sets
from store.database.job_policy import JobPolicy
from store.database.sessions import Database, now
from store.database.tables import Denoiser, Explanation, JobEvent, WitnessSet
from store.errors import Conflict, LeaseLost
from store.jobs import Claim, Job, JobKind, JobState
from tests.store_rows import create_dataset, create_explanation, create_ready_gnn

MAX_ATTEMPTS = 2
WORK = [
    "claim",
    "claim",
    "reserve",
    "begin",
    "begin",
    "replace",
    "beat",
    "progress",
    "succeed",
    "succeed",
    "fail",
    "stop",
]
Token = tuple[int, str]


def awaited_jobs(job: Job) -> list[str]:
    ids = (job.waiting_for, job.also_waiting_for, job.waiting_for_provisional)
    return [id_ for id_ in ids if id_ is not None]


def token(claim: Claim) -> Token:
    return claim.attempt, claim.owner


def is_running(job: Job) -> bool:
    return job.state is JobState.RUNNING


def fresh_database(folder: Path) -> Database:
    database = Database(
        f"sqlite:///{folder / 'jobs.sqlite'}", policy=JobPolicy(max_attempts=MAX_ATTEMPTS)
    )

    def disable_sync(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA synchronous=OFF")  # faster; the test needs no durability

    event.listen(database.engine, "connect", disable_sync)
    return database


class JobsMachine(RuleBasedStateMachine):
    """One rule each for clients, workers and the dispatcher, which choose their actions at random.

    With one rule per action, Hypothesis could leave out actions. A run without claims tests little.
    """

    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        shutil.copy(self.template, self.folder / "jobs.sqlite")
        self.database = fresh_database(self.folder)
        self.job_ids: list[str] = []
        self.claims: list[Claim] = []  # also of workers that lost their job
        self.holder: dict[str, Token] = {}  # the attempt that holds a running job
        self.reserved: dict[str, Token] = {}  # the attempt that a queued job will have
        self.attempts: dict[str, int] = {}
        self.ended: dict[str, tuple[JobState, object]] = {}
        self.results: dict[str, int] = {}  # the attempt whose result was committed
        self.explained: dict[str, tuple[JobState, str | None, str | None]] = {}

    def teardown(self) -> None:
        self.database.close()
        shutil.rmtree(self.folder)

    @initialize()
    def begin(self) -> None:
        with self.database.transaction() as session:
            self.gnn = create_ready_gnn(session)
            self.dataset = create_dataset(session)
        self.submit()
        self.request_explanation(judged=True, provisional=True)

    @rule(
        action=st.sampled_from(
            ["submit", "explain", "judge", "answer", "cancel", "cancel", "retry", "retry"]
        ),
        which=st.integers(0, 11),
    )
    def client(self, action: str, which: int) -> None:
        job_id = self.job_ids[which % len(self.job_ids)]
        if action == "cancel":
            self.cancel(max(self.holder, default=job_id) if which % 2 else job_id)
        elif action == "retry":
            self.retry(job_id)
        elif len(self.job_ids) > 6:  # few jobs with many events test more than many jobs
            return
        elif action == "submit":
            self.submit()
        else:
            self.request_explanation(judged=action == "judge", provisional=action == "answer")

    @rule(
        actions=st.lists(st.sampled_from(WORK), min_size=2, max_size=5),
        which=st.integers(0, 11),
        retryable=st.booleans(),
        ending=st.sampled_from([jobs.release, jobs.expire, jobs.cancel_running]),
    )
    def worker(
        self,
        actions: list[str],
        which: int,
        retryable: bool,
        ending: Callable[[Session, Claim], None],
    ) -> None:
        for action in actions:
            if action == "claim" or not self.claims:
                self.claim(self.some_job(which))
                continue
            claim = self.claims[-1 - which % len(self.claims)]
            match action:
                case "reserve":
                    self.reserve_matching(claim, 1 + which % 3)
                case "begin":
                    self.begin_reserved(which)
                case "replace":
                    if retryable:
                        self.stop(claim, jobs.release)
                    else:
                        self.expire_lease(claim.job_id)
                    self.claim(claim.job_id)
                case "beat":
                    self.heartbeat(claim)
                case "progress":
                    self.write_progress(claim)
                case "succeed":
                    self.succeed(claim)
                case "fail":
                    self.stop(claim, lambda s, c: jobs.fail(s, c, "Error", "boom", retryable))
                case "stop":
                    self.stop(claim, ending)

    def some_job(self, which: int) -> str:
        """Usually a job that can be claimed."""
        with self.database.reading() as session:
            free = session.scalars(
                select(Job.id).where(Job.state == "queued", ~Job.is_blocked)
            ).all()
        candidates = free if free and which % 4 else self.job_ids
        return candidates[which % len(candidates)]

    @rule(action=st.sampled_from(["reap", "reap", "announce"]), which=st.integers(0, 11))
    def dispatcher(self, action: str, which: int) -> None:
        if action == "announce":
            self.announce()
        else:
            self.expire_lease(self.job_ids[which % len(self.job_ids)])
            self.reap()

    # Actions of clients.

    def submit(self) -> None:
        with self.database.transaction() as session:
            job = jobs.submit(
                session, kind=JobKind.PREDICT, gnn_id=self.gnn.id, tenant=DEFAULT_TENANT
            )
        self.job_ids.append(job.id)

    def request_explanation(self, *, judged: bool, provisional: bool) -> None:
        with self.database.transaction() as session:
            _, job = create_explanation(
                session, self.gnn, self.dataset, judged=judged, provisional=provisional
            )
        self.add_job_ids(*awaited_jobs(job), job.id)

    def cancel(self, job_id: str) -> None:
        before, first = self.stored(job_id).state, self.stored(job_id).waiting_for_provisional
        with self.database.transaction() as session:
            if before.is_terminal:
                with pytest.raises(Conflict):
                    jobs.cancel(session, job_id, tenant=DEFAULT_TENANT)
            else:
                jobs.cancel(session, job_id, tenant=DEFAULT_TENANT)
        if before is JobState.QUEUED:
            self.reserved.pop(job_id, None)
            assert self.stored(job_id).state is JobState.CANCELED
        if first is not None:  # the provisional answer is canceled with the final one
            provisional = self.stored(first)
            assert provisional.cancel_requested
            if provisional.state is JobState.CANCELED:
                self.reserved.pop(first, None)

    def retry(self, job_id: str) -> None:
        before = self.stored(job_id)
        try:
            with self.database.transaction() as session:
                again = retries.retry(session, job_id, tenant=DEFAULT_TENANT)
        except Conflict:
            return
        assert before.state in (JobState.FAILED, JobState.CANCELED, JobState.EXPIRED)
        assert (again.retry_of, again.attempt, again.kind) == (job_id, 0, before.kind)
        self.explained.pop(before.subject_id or "", None)  # its state may go back
        self.add_job_ids(*awaited_jobs(again), again.id)

    def add_job_ids(self, *job_ids: str | None) -> None:
        self.job_ids += [id_ for id_ in job_ids if id_ and id_ not in self.job_ids]

    # Actions of workers.

    def claim(self, job_id: str) -> None:
        before = self.stored(job_id)
        is_held = before.state is not JobState.QUEUED or job_id in self.reserved
        is_free = not is_held or self.is_lease_expired(before)
        with self.database.transaction() as session:
            claim = jobs.claim(session, job_id, f"worker {len(self.claims)}", 3600)
        has_attempts = before.attempts_used < MAX_ATTEMPTS
        may_run = before.awaited is None and not before.cancel_requested and has_attempts
        assert (claim is not None) == (is_free and may_run)
        if claim is not None:
            assert claim.attempt == before.attempt + 1
            self.holder[job_id] = token(claim)
            self.attempts[job_id] = claim.attempt
            self.reserved.pop(job_id, None)
            self.claims.append(claim)

    def reserve_matching(self, first: Claim, limit: int) -> None:
        before = [self.stored(job_id) for job_id in self.job_ids]
        matching = [
            job.id
            for job in sorted(before, key=lambda job: (job.priority, job.created_at, job.id))
            if (job.kind, job.denoiser_id) == (first.kind, first.denoiser_id)
            and job.state is JobState.QUEUED
            and job.awaited is None
            and (job.id not in self.reserved or self.is_lease_expired(job))
            and job.attempts_used < MAX_ATTEMPTS
        ]
        with self.database.transaction() as session:
            claimed = jobs.reserve_matching(session, first, 3600, limit)
        assert [claim.job_id for claim in claimed] == matching[:limit]
        attempts = {job.id: job.attempt for job in before}
        for claim in claimed:
            assert claim.attempt == attempts[claim.job_id] + 1
            self.reserved[claim.job_id] = token(claim)
            self.claims.append(claim)

    def begin_reserved(self, which: int) -> None:
        """Begins or gives back a job that was reserved; another worker may have taken it since."""
        claims = [claim for claim in self.claims if claim.job_id in self.reserved] or self.claims
        claim = claims[which % len(claims)]
        is_reserved = self.reserved.get(claim.job_id) == token(claim)
        if which % 4 == 0:
            act, allowed = jobs.give_back, is_reserved
        else:
            act, allowed = jobs.begin, is_reserved or self.holds(claim)
        try:
            with self.database.transaction() as session:
                act(session, claim)
        except LeaseLost:
            assert not allowed
            return
        assert allowed
        self.reserved.pop(claim.job_id, None)
        if act is jobs.begin:
            self.holder[claim.job_id] = token(claim)
            self.attempts[claim.job_id] = claim.attempt

    def expire_lease(self, job_id: str) -> None:
        with self.database.transaction() as session:
            session.execute(
                update(Job)
                .where(Job.id == job_id, Job.lease_until.is_not(None))
                .values(lease_until=now() - 1)
            )

    def heartbeat(self, claim: Claim) -> None:
        """Sends the heartbeat of one claim, then of all claims together."""
        for claims in ([claim], self.claims):
            with self.database.transaction() as session:
                beats = jobs.heartbeat(session, claims, 3600)
            assert [beat.held for beat in beats] == [
                self.holds(claim) or self.reserved.get(claim.job_id) == token(claim)
                for claim in claims
            ]

    def write_progress(self, claim: Claim) -> None:
        def write(session: Session) -> None:
            jobs.record_progress(session, claim, {"attempt": claim.attempt})
            jobs.record_checkpoint(session, claim, "4" * 64, claim.attempt)

        self.write_as(claim, write)

    def succeed(self, claim: Claim) -> None:
        def write(session: Session) -> None:
            if claim.kind is JobKind.TRAIN:
                denoisers.finish(session, claim, weights_digest="5" * 64, shape={}, metrics={})
            if claim.kind is JobKind.PROVISIONAL:
                explanations.finish_provisional(
                    session, claim, result_digest="7" * 64, summary={"attempt": claim.attempt}
                )
            if claim.kind is JobKind.COUNTERFACTUAL:
                explanations.finish(session, claim, result_digest="8" * 64)
            if claim.kind is JobKind.WITNESSES:
                witness_sets.finish(
                    session, claim, weights_digest="6" * 64, description={}, metrics={}
                )
            jobs.succeed(session, claim, {"attempt": claim.attempt})

        if self.write_as(claim, write):
            assert claim.job_id not in self.results
            self.results[claim.job_id] = claim.attempt
            del self.holder[claim.job_id]

    def stop(self, claim: Claim, ending: Callable[[Session, Claim], None]) -> None:
        if self.write_as(claim, lambda session: ending(session, claim)):
            del self.holder[claim.job_id]

    # Actions of the dispatcher.

    def reap(self) -> None:
        with self.database.transaction() as session:
            reaped = jobs.reap(session)
        for job_id in reaped:
            self.holder.pop(job_id, None)
            self.reserved.pop(job_id, None)
            assert self.stored(job_id).state is not JobState.RUNNING

    def announce(self) -> None:
        with self.database.transaction() as session:
            due = jobs.due(session, 100)
        for one in due:
            job = self.stored(one.job_id)
            assert job.state is JobState.QUEUED
            assert job.awaited is None

    # Invariants.

    @invariant()
    def invariants_hold(self) -> None:
        with self.database.reading() as session:
            rows = {job.id: job for job in session.scalars(select(Job))}
            trained = [*session.scalars(select(Denoiser)), *session.scalars(select(WitnessSet))]
            events = list(session.scalars(select(JobEvent).order_by(JobEvent.id)))
            explained = list(session.scalars(select(Explanation)))
        self.check_endings_and_attempts(rows)
        self.check_leases(rows)
        self.check_waiting_jobs(rows)
        self.check_trained(rows, trained)
        self.check_events(rows, events)
        self.check_explanations(rows, explained, events)

    def check_endings_and_attempts(self, rows: dict[str, Job]) -> None:
        for job in rows.values():
            assert job.attempt >= self.attempts.get(job.id, 0)
            assert job.attempts_used <= MAX_ATTEMPTS
            self.attempts[job.id] = job.attempt
            if job.id in self.ended:
                assert self.ended[job.id] == (job.state, job.result)
            if job.state.is_terminal:
                self.ended[job.id] = (job.state, job.result)
                assert job.finished_at is not None
                assert (job.lease_owner, job.awaited) == (None, None)
            if job.id in self.results:
                assert job.result == {"attempt": self.results[job.id]}

    def check_leases(self, rows: dict[str, Job]) -> None:
        leased = [job for job in rows.values() if job.lease_owner is not None]
        running = {job.id: (job.attempt, job.lease_owner) for job in leased if is_running(job)}
        queued = {
            job.id: (job.attempt + 1, job.lease_owner) for job in leased if not is_running(job)
        }
        assert {job.id for job in rows.values() if is_running(job)} == set(running)
        assert (running, queued) == (self.holder, self.reserved)

    def check_waiting_jobs(self, rows: dict[str, Job]) -> None:
        for job in rows.values():
            assert not (job.cancel_requested and job.state is JobState.QUEUED)
            waits = awaited_jobs(job)
            if waits:
                assert job.state is JobState.QUEUED
                assert len(set(waits)) == len(waits)
                assert not any(rows[id_].state.is_terminal for id_ in waits)
            if (job.error or {}).get("type") == "dependency":  # only a denoiser is indispensable
                assert "the train job" in job.error["message"]

    def check_trained(self, rows: dict[str, Job], trained: Sequence[Denoiser | WitnessSet]) -> None:
        expected_state = {
            JobState.QUEUED: "training",
            JobState.RUNNING: "training",
            JobState.SUCCEEDED: "ready",
        }
        for row in trained:
            assert row.state == expected_state.get(rows[row.job_id].state, "failed")
            open_trainings = [
                job
                for job in rows.values()
                if job.subject_id == row.id and not job.state.is_terminal
            ]
            assert len(open_trainings) <= 1

    def check_events(self, rows: dict[str, Job], events: list[JobEvent]) -> None:
        last_states = {each.job_id: each.data["state"] for each in events if each.type == "state"}
        assert last_states == {job.id: job.state.value for job in rows.values()}

    def check_explanations(
        self, rows: dict[str, Job], explained: list[Explanation], events: list[JobEvent]
    ) -> None:
        """States go forward, answers do not change, and events tell of each answer once."""
        told = [(one.job_id, one.data["sha256"]) for one in events if one.type == "answer"]
        assert len(told) == len(set(told))
        for row in explained:
            job, first = rows[row.job_id], rows.get(row.provisional_job_id or "")
            state = explanations.state_of(row, job, first)
            if state is JobState.SUCCEEDED:
                assert row.result_digest or row.provisional_digest
            if job.state.is_terminal and first is not None and not first.state.is_terminal:
                assert first.cancel_requested  # it will end soon, and its answer is left out
            if row.id in self.explained:
                before, provisional, final = self.explained[row.id]
                assert not before.is_terminal or state is before
                assert not (before is JobState.RUNNING and state is JobState.QUEUED)
                assert provisional in (None, row.provisional_digest)
                assert final in (None, row.result_digest)
                if before.is_terminal:
                    assert (provisional, final) == (row.provisional_digest, row.result_digest)
            self.explained[row.id] = (state, row.provisional_digest, row.result_digest)

    def write_as(self, claim: Claim, write: Callable[[Session], None]) -> bool:
        """Writes as this attempt; only the attempt that holds the job may succeed."""
        try:
            with self.database.transaction() as session:
                write(session)
        except LeaseLost:
            assert not self.holds(claim)
            return False
        assert self.holds(claim)
        return True

    def holds(self, claim: Claim) -> bool:
        return self.holder.get(claim.job_id) == token(claim)

    def is_lease_expired(self, job: Job) -> bool:
        with self.database.reading() as session:
            until = session.scalar(select(Job.lease_until - now()).where(Job.id == job.id))
        return until is not None and until < 0

    def stored(self, job_id: str) -> Job:
        with self.database.reading() as session:
            return jobs.get(session, job_id, tenant=DEFAULT_TENANT)


def test_job_invariants_hold_under_random_operations(tmp_path: Path) -> None:
    JobsMachine.template = tmp_path / "jobs.sqlite"
    database = fresh_database(tmp_path)
    database.migrate()
    with database.reading() as session:
        assert session.scalar(text("PRAGMA synchronous")) == 0
    database.close()
    JobsMachine.TestCase.settings = settings(
        max_examples=25,
        stateful_step_count=20,
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    JobsMachine.TestCase("runTest").runTest()
