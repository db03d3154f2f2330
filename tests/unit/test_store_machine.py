"""Jobs under every order of events that Hypothesis thinks of, against a small model of them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)
from sqlalchemy import event, select, text, update

from store import datasets, denoisers, explanations, gnns, jobs
from store.database import Database, now
from store.errors import Conflict, LeaseLost
from store.gnn_spec import parse_spec
from store.job_policy import JobPolicy
from store.jobs import Claim, Job, JobKind, JobState
from store.requests import DenoiserConfig
from store.results import ProbeReport
from store.tables import Denoiser, Gnn, JobEvent, ReferenceSet

MAX_ATTEMPTS = 2
SPEC = parse_spec(
    {
        "features": 1,
        "classes": 2,
        "layers": [{"type": "pool", "op": "sum"}, {"type": "linear", "out": 2}],
    }
)


def fresh_database(folder: Path) -> Database:
    database = Database(
        f"sqlite:///{folder / 'jobs.sqlite'}", policy=JobPolicy(max_attempts=MAX_ATTEMPTS)
    )

    def hasten(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA synchronous=OFF")  # no power is lost in this test

    event.listen(database.engine, "connect", hasten)
    return database


class Jobs(RuleBasedStateMachine):
    template: Path
    job_ids = Bundle("job_ids")
    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        shutil.copy(self.template, self.folder / "jobs.sqlite")
        self.database = fresh_database(self.folder)
        self.holder: dict[str, int] = {}  # the attempt that holds a running job
        self.attempts: dict[str, int] = {}
        self.ended: dict[str, tuple[JobState, object]] = {}
        self.results: dict[str, int] = {}  # which attempt's result was committed

    def teardown(self) -> None:
        self.database.close()
        shutil.rmtree(self.folder)

    @initialize()
    def register(self) -> None:
        with self.database.transaction() as session:
            gnn, job = gnns.create(session, name="g", spec=SPEC, weights_digest="1" * 64)
            claim = jobs.claim(session, job.id, "worker", 60)
            assert claim is not None
            gnns.finish(session, claim, ProbeReport(passed=True, checks=[]))
            jobs.succeed(session, claim)
            dataset = datasets.create(
                session,
                name="d",
                gnn_features=1,
                graphs_digest="2" * 64,
                sha256="2" * 64,
                graph_count=1,
                label_counts={},
                max_nodes=1,
                mean_nodes=1.0,
                mean_edges=0.0,
            )
        self.gnn: Gnn = gnn
        self.dataset: ReferenceSet = dataset

    # What clients do

    @rule(target=job_ids)
    def submit(self) -> str:
        with self.database.transaction() as session:
            return jobs.submit(session, kind=JobKind.PREDICT, gnn_id=self.gnn.id).id

    @rule(target=job_ids, seed=st.integers(0, 1))
    def ask_for_an_explanation(self, seed: int) -> Any:
        with self.database.transaction() as session:
            denoiser, training = denoisers.get_or_create(
                session,
                gnn=self.gnn,
                dataset=self.dataset,
                objective="counterfactual",
                config=DenoiserConfig(seed=seed),
            )
            _, job = explanations.create(
                session,
                kind="counterfactual",
                gnn=self.gnn,
                dataset=self.dataset,
                denoiser=denoiser,
                train_job=training,
                request_digest="3" * 64,
            )
        return multiple(job.id, training.id) if training else job.id

    @rule(job_id=job_ids)
    def cancel(self, job_id: str) -> None:
        before = self.seen(job_id).state
        with self.database.transaction() as session:
            if before.is_terminal:
                with pytest.raises(Conflict):
                    jobs.cancel(session, job_id)
            else:
                jobs.cancel(session, job_id)
        if before is JobState.QUEUED:
            assert self.seen(job_id).state is JobState.CANCELED

    @rule(target=job_ids, job_id=job_ids)
    def retry(self, job_id: str) -> Any:
        before = self.seen(job_id)
        try:
            with self.database.transaction() as session:
                again = jobs.retry(session, job_id)
        except Conflict:
            return multiple()
        assert before.state in (JobState.FAILED, JobState.CANCELED, JobState.EXPIRED)
        assert (again.retry_of, again.attempt, again.kind) == (job_id, 0, before.kind)
        return multiple(again.id, again.waiting_for) if again.waiting_for else again.id

    # What workers do

    @rule(target=claims, job_id=job_ids)
    def claim(self, job_id: str) -> Any:
        before = self.seen(job_id)
        is_free = before.state is JobState.QUEUED or self.is_silent(before)
        with self.database.transaction() as session:
            claim = jobs.claim(session, job_id, "worker", 3600)
        if claim is None:
            assert (
                before.waiting_for
                or before.cancel_requested
                or not is_free
                or (before.attempts_used >= MAX_ATTEMPTS)
            )
            return multiple()
        assert is_free
        assert claim.attempt == before.attempt + 1
        self.holder[job_id] = claim.attempt
        return claim

    @rule(job_id=job_ids)
    def fall_silent(self, job_id: str) -> None:
        with self.database.transaction() as session:
            session.execute(
                update(Job)
                .where(Job.id == job_id, Job.state == JobState.RUNNING)
                .values(lease_until=now() - 1)
            )

    @rule(claim=claims)
    def heartbeat(self, claim: Claim) -> None:
        with self.database.transaction() as session:
            beat = jobs.heartbeat(session, claim, 3600)
        assert beat.held == self.holds(claim)

    @rule(claim=claims, step=st.integers(0, 9))
    def write_down_progress(self, claim: Claim, step: int) -> None:
        def write(session: Any) -> None:
            jobs.record_progress(session, claim, {"step": step})
            jobs.record_checkpoint(session, claim, "4" * 64, step)

        self.fenced(claim, write)

    @rule(claim=consumes(claims) | claims)
    def succeed(self, claim: Claim) -> None:
        def write(session: Any) -> None:
            if claim.kind is JobKind.TRAIN:
                denoisers.finish(session, claim, weights_digest="5" * 64, shape={}, metrics={})
            jobs.succeed(session, claim, {"attempt": claim.attempt})

        if self.fenced(claim, write):
            assert claim.job_id not in self.results
            self.results[claim.job_id] = claim.attempt
            del self.holder[claim.job_id]

    @rule(claim=claims, retryable=st.booleans())
    def fail(self, claim: Claim, retryable: bool) -> None:
        if self.fenced(claim, lambda s: jobs.fail(s, claim, "Error", "boom", retryable)):
            del self.holder[claim.job_id]

    @rule(
        claim=claims,
        ending=st.sampled_from([jobs.release, jobs.expire, jobs.cancel_running]),
    )
    def stop(self, claim: Claim, ending: Any) -> None:
        if self.fenced(claim, lambda session: ending(session, claim)):
            del self.holder[claim.job_id]

    # What the dispatcher does

    @rule()
    def reap(self) -> None:
        with self.database.transaction() as session:
            reaped = jobs.reap(session)
        for job_id in reaped:
            self.holder.pop(job_id, None)
            assert self.seen(job_id).state is not JobState.RUNNING

    @rule()
    def announce(self) -> None:
        with self.database.transaction() as session:
            due = jobs.due(session, 100)
        assert all(job.state is JobState.QUEUED and job.waiting_for is None for job in due)

    # What must always be so

    @invariant()
    def promises_are_kept(self) -> None:
        with self.database.reading() as session:
            rows = {job.id: job for job in session.scalars(select(Job))}
            trained = list(session.scalars(select(Denoiser)))
            events = list(session.scalars(select(JobEvent).order_by(JobEvent.id)))
        self.ends_are_final_and_attempts_only_grow(rows)
        self.running_means_held(rows)
        self.nobody_waits_for_what_has_ended(rows)
        self.denoisers_are_what_their_trainings_came_to(rows, trained)
        self.the_last_event_tells_the_state(rows, events)

    def ends_are_final_and_attempts_only_grow(self, rows: dict[str, Job]) -> None:
        for job in rows.values():
            assert job.attempt >= self.attempts.get(job.id, 0)
            assert job.attempts_used <= MAX_ATTEMPTS
            self.attempts[job.id] = job.attempt
            if job.id in self.ended:
                assert self.ended[job.id] == (job.state, job.result)
            if job.state.is_terminal:
                self.ended[job.id] = (job.state, job.result)
                assert job.finished_at is not None
                assert (job.lease_owner, job.waiting_for) == (None, None)
            if job.id in self.results:
                assert job.result == {"attempt": self.results[job.id]}

    def running_means_held(self, rows: dict[str, Job]) -> None:
        running = {job.id: job.attempt for job in rows.values() if job.state == "running"}
        assert running == self.holder

    def nobody_waits_for_what_has_ended(self, rows: dict[str, Job]) -> None:
        for job in rows.values():
            if job.waiting_for is not None:
                assert job.state is JobState.QUEUED
                assert not rows[job.waiting_for].state.is_terminal

    def denoisers_are_what_their_trainings_came_to(
        self, rows: dict[str, Job], trained: list[Denoiser]
    ) -> None:
        came_to = {
            JobState.QUEUED: "training",
            JobState.RUNNING: "training",
            JobState.SUCCEEDED: "ready",
        }
        for denoiser in trained:
            assert denoiser.state == came_to.get(rows[denoiser.job_id].state, "failed")
            open_trainings = [
                job
                for job in rows.values()
                if job.subject_id == denoiser.id and not job.state.is_terminal
            ]
            assert len(open_trainings) <= 1

    def the_last_event_tells_the_state(self, rows: dict[str, Job], events: list[JobEvent]) -> None:
        told = {each.job_id: each.data["state"] for each in events if each.type == "state"}
        assert told == {job.id: job.state.value for job in rows.values()}

    def fenced(self, claim: Claim, write: Any) -> bool:
        """Writes as this attempt; exactly the holder's writes must land."""
        try:
            with self.database.transaction() as session:
                write(session)
        except LeaseLost:
            assert not self.holds(claim)
            return False
        assert self.holds(claim)
        return True

    def holds(self, claim: Claim) -> bool:
        return self.holder.get(claim.job_id) == claim.attempt

    def is_silent(self, job: Job) -> bool:
        with self.database.reading() as session:
            until = session.scalar(select(Job.lease_until - now()).where(Job.id == job.id))
        return job.state is JobState.RUNNING and until is not None and until < 0

    def seen(self, job_id: str) -> Job:
        with self.database.reading() as session:
            return jobs.get(session, job_id)


def test_jobs_keep_their_promises(tmp_path: Path) -> None:
    Jobs.template = tmp_path / "jobs.sqlite"
    database = fresh_database(tmp_path)
    database.migrate()
    with database.reading() as session:
        assert session.scalar(text("PRAGMA synchronous")) == 0
    database.close()
    Jobs.TestCase.settings = settings(
        max_examples=30,
        stateful_step_count=25,
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    Jobs.TestCase("runTest").runTest()
