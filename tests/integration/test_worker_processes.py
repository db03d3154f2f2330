"""Jobs survive when real processes die, stop or are paused.

The test process acts as the API: it writes jobs and runs the dispatcher.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
import torch
from sqlalchemy import select

from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.gnn_spec import GnnSpecDocument
from d4explain.contracts.job_states import TrainingState
from d4explain.contracts.requests import (
    CanonicalGraph,
    CounterfactualRequest,
    DenoiserConfig,
    PredictionRequest,
)
from d4explain.contracts.scopes import DEFAULT_TENANT
from models.diffusion.recipes import Objective, recipe_for
from models.training.trainer import Trainer
from store import jobs
from store.artifacts import graph_sets
from store.catalogue import datasets, denoisers, explanations, gnns
from store.database.tables import Dataset, Denoiser, Gnn, Job
from store.jobs import EventType, JobKind, JobState
from store.queue.dispatcher import Dispatcher
from worker.loading.graph_conversion import graph_of

if TYPE_CHECKING:
    from tests.processes import EdgeCounter, Stack, WorkerProcess

SECONDS = 8.0  # of training: enough for several checkpoints and an interruption
SMALL = {"hidden": 4, "blocks": 1}


@dataclass
class World:
    """A GNN and a reference set in the store, and methods to submit jobs."""

    stack: Stack
    gnn: Gnn
    dataset: Dataset
    steps_per_second: float  # of a training here and now
    seed: int = 0

    def train(self, seconds: float = SECONDS, objective: str = "class") -> str:
        """Trains for about this time; a training for counterfactuals may stop early."""
        self.seed += 1  # another seed is another denoiser
        with self.stack.store.database.transaction() as session:
            _, job = denoisers.get_or_create(
                session,
                gnn=self.gnn,
                dataset=self.dataset,
                objective=objective,
                config=DenoiserConfig(
                    steps=round(seconds * self.steps_per_second), seed=self.seed, **SMALL
                ),
            )
            assert job is not None
            return job.id

    def predict(self, count: int) -> list[str]:
        request = PredictionRequest(graphs=[ring(5)])
        digest = self.stack.store.artifacts.of("default").put(request.model_dump_json().encode())
        with self.stack.store.database.transaction() as session:
            return [
                jobs.submit(
                    session,
                    kind=JobKind.PREDICT,
                    gnn_id=self.gnn.id,
                    request_digest=digest,
                    tenant=DEFAULT_TENANT,
                ).id
                for _ in range(count)
            ]

    def explain(self, denoiser: Denoiser, count: int, graphs: int = 1) -> list[str]:
        """Submits `count` jobs with `graphs` graphs each."""
        request = CounterfactualRequest(graphs=[ring(12, [(0, 5), (2, 8)])] * graphs)
        digest = self.stack.store.artifacts.of("default").put(request.model_dump_json().encode())
        with self.stack.store.database.transaction() as session:
            return [
                explanations.create(
                    session,
                    kind="counterfactual",
                    gnn=self.gnn,
                    dataset=self.dataset,
                    denoiser=denoiser,
                    train_job=None,
                    request_digest=digest,
                )[1].id
                for _ in range(count)
            ]

    def job(self, job_id: str) -> Job:
        with self.stack.store.database.reading() as session:
            return jobs.get(session, job_id, tenant=DEFAULT_TENANT)

    def states(self, job_id: str) -> list[tuple[str, int]]:
        """Every state of the job, with the number of its attempt."""
        with self.stack.store.database.reading() as session:
            events = jobs.events(session, job_id, limit=10_000, tenant=DEFAULT_TENANT)
        return [
            (event.data["state"], event.data["attempt"])
            for event in events
            if event.type is EventType.STATE
        ]

    def first_step_of_run(self, job_id: str, run: int) -> int | None:
        """The first progress after the job was started for the `run`-th time; None if not yet."""
        with self.stack.store.database.reading() as session:
            events = jobs.events(session, job_id, limit=10_000, tenant=DEFAULT_TENANT)
        starts = 0
        for event in events:
            if event.type is EventType.STATE:
                starts += event.data["state"] == "running"
            elif event.type is EventType.PROGRESS and starts == run:
                return int(event.data["step"])
        return None

    def wait_for_checkpoint(self, job_id: str) -> int:
        self.stack.until(
            lambda: self.job(job_id).checkpoint is not None, "the training has a checkpoint"
        )
        checkpoint = self.job(job_id).checkpoint
        assert checkpoint is not None
        return int(checkpoint["step"])

    def wait_for(self, job_id: str, state: JobState, seconds: float = 60.0) -> float:
        def arrived() -> bool:
            job = self.job(job_id)
            assert not job.state.is_terminal or job.state is state, (job.state, job.error)
            return job.state is state

        return self.stack.until(arrived, f"job is {state}", seconds)

    def wait_for_attempt(self, job_id: str, attempt: int) -> float:
        return self.stack.until(
            lambda: (
                (self.job(job_id).state, self.job(job_id).attempt) == (JobState.RUNNING, attempt)
            ),
            f"attempt {attempt} runs",
        )

    def worker_of(self, job_id: str) -> WorkerProcess:
        owner = self.job(job_id).lease_owner
        assert owner is not None
        child = int(owner.rsplit(":", 1)[1])
        return next(
            worker
            for worker in self.stack.workers
            if any(process.pid == child for process in worker.children())
        )


def ring(nodes: int, chords: Sequence[tuple[int, int]] = ()) -> CanonicalGraph:
    edges = [(i, i + 1) for i in range(nodes - 1)] + [(0, nodes - 1), *chords]
    return CanonicalGraph(node_ids=list(range(nodes)), x=[[1.0]] * nodes, edges=sorted(edges))


@pytest.fixture(scope="module")
def world(stack: Stack, edge_counter: EdgeCounter) -> World:
    spec = GnnSpecDocument.model_validate(edge_counter.spec)
    graphs = [ring(5), ring(6), ring(5, [(0, 2), (1, 3)]), ring(7, [(0, 2), (1, 4)])] * 5
    figures = graph_sets.describe(graphs)
    with stack.store.database.transaction() as session:
        gnn, _ = gnns.create(
            session,
            name="edge counter",
            spec=spec,
            weights_digest=stack.store.artifacts.of("default").put(edge_counter.weights),
            tenant=DEFAULT_TENANT,
        )
        dataset = datasets.create(
            session,
            name="rings",
            gnn_features=1,
            graphs_digest=stack.store.artifacts.of("default").put(graph_sets.pack(graphs)),
            sha256=graph_sets.canonical_set_hash(graphs),
            graph_count=figures.graph_count,
            label_counts=figures.label_counts,
            max_nodes=figures.max_nodes,
            mean_nodes=figures.mean_nodes,
            mean_edges=figures.mean_edges,
            tenant=DEFAULT_TENANT,
        )
    return World(stack, gnn, dataset, measured_speed(graphs))


def measured_speed(graphs: Sequence[CanonicalGraph]) -> float:
    """Steps per second of a training of the size used here, without the GNN."""
    recipe = recipe_for(Objective.CLASS, **SMALL)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        trainer = Trainer(
            [graph_of(graph) for graph in graphs],
            None,
            recipe,
            seed=0,
            device=torch.device("cpu"),
        )
        *_, last = trainer.run(until=100)
    finally:
        torch.set_num_threads(threads)
    return last.step / last.seconds


def pause(stack: Stack, worker: WorkerProcess) -> None:
    """Sends SIGSTOP, but not during a transaction.

    SQLite has one writer: a process paused while it writes blocks all others.
    """
    for _ in range(50):
        worker.signal(signal.SIGSTOP)
        with closing(sqlite3.connect(stack.store.database.engine.url.database or "")) as database:
            database.execute("PRAGMA busy_timeout=300")
            try:
                database.execute("BEGIN IMMEDIATE")
                database.execute("ROLLBACK")
                return
            except sqlite3.OperationalError:
                worker.signal(signal.SIGCONT)
                time.sleep(0.05)
    raise AssertionError("the worker was writing at every try")


@pytest.fixture(autouse=True)
def _running_dispatcher(dispatcher: Dispatcher) -> None:
    """Runs a dispatcher in every test."""


def test_a_waiting_explanation_is_released_by_its_training(stack: Stack, world: World) -> None:
    stack.ensure_workers(2)
    request = CounterfactualRequest(graphs=[ring(5)])
    with stack.store.database.transaction() as session:
        denoiser, training = denoisers.get_or_create(
            session,
            gnn=world.gnn,
            dataset=world.dataset,
            objective="counterfactual",
            config=DenoiserConfig(steps=20, seed=1000, **SMALL),
        )
        assert training is not None
        explanation, waiting = explanations.create(
            session,
            kind="counterfactual",
            gnn=world.gnn,
            dataset=world.dataset,
            denoiser=denoiser,
            train_job=training,
            request_digest=stack.store.artifacts.of("default").put(
                request.model_dump_json().encode()
            ),
        )
    world.wait_for(training.id, JobState.SUCCEEDED)
    world.wait_for(waiting.id, JobState.SUCCEEDED)
    with stack.store.database.reading() as session:
        assert (
            denoisers.get(session, denoiser.id, tenant=DEFAULT_TENANT).state is TrainingState.READY
        )
        digest = explanations.get(session, explanation.id, tenant=DEFAULT_TENANT).result_digest
    assert digest is not None
    result = CounterfactualResult.model_validate_json(
        stack.store.artifacts.of("default").get(digest)
    )
    assert result.answers[0].found
    assert world.states(waiting.id) == [
        ("queued", 0),  # waiting
        ("queued", 0),  # released
        ("running", 1),
        ("succeeded", 1),
    ]


def test_queued_and_running_jobs_are_canceled(stack: Stack, world: World) -> None:
    stack.ensure_workers(2)
    running = [world.train(120), world.train(120)]
    for job_id in running:
        world.wait_for(job_id, JobState.RUNNING)
    queued = world.train()  # both workers are busy
    with stack.store.database.transaction() as session:
        assert jobs.cancel(session, queued, tenant=DEFAULT_TENANT).state is JobState.CANCELED
        for job_id in running:
            jobs.cancel(session, job_id, tenant=DEFAULT_TENANT)
    for job_id in running:
        assert world.wait_for(job_id, JobState.CANCELED) < 3
    world.wait_for(world.predict(1)[0], JobState.SUCCEEDED)  # the workers are free again
    assert world.states(queued) == [("queued", 0), ("canceled", 0)]


def test_a_paused_worker_cannot_commit_late(stack: Stack, world: World) -> None:
    stack.ensure_workers(2)
    job_id = world.train()
    step = world.wait_for_checkpoint(job_id)
    paused = world.worker_of(job_id)
    pause(stack, paused)
    try:
        world.wait_for_attempt(job_id, 2)
        assert world.worker_of(job_id) is not paused
    finally:
        paused.signal(signal.SIGCONT)
    world.wait_for(job_id, JobState.SUCCEEDED)
    resumed = world.first_step_of_run(job_id, 2)
    assert resumed is not None
    assert resumed >= step
    stack.until(lambda: bool(stack.logs("Lease lost")), "the first attempt stopped")
    assert world.states(job_id)[-1] == ("succeeded", 2)
    assert [state for state, _ in world.states(job_id)].count("succeeded") == 1
    # The paused worker still works.
    several = world.predict(6)
    for predicted in several:
        world.wait_for(predicted, JobState.SUCCEEDED)


@pytest.mark.parametrize("keeps_its_files", [True, False], ids=["with its files", "without"])
def test_a_killed_broker_loses_no_job(stack: Stack, world: World, keeps_its_files: bool) -> None:
    living = stack.ensure_workers(2)
    for worker in living:
        pause(stack, worker)  # so that nobody receives the messages
    try:
        submitted = world.predict(12)
        stack.until(
            lambda: all(world.job(job_id).dispatches for job_id in submitted),
            "all jobs are announced",
        )
        stack.broker.kill()
        if not keeps_its_files:
            stack.broker.delete_files()
        submitted += world.predict(3)  # submitting works while the broker is down
        stack.broker.start()
    finally:
        for worker in living:
            worker.signal(signal.SIGCONT)
    for job_id in submitted:
        world.wait_for(job_id, JobState.SUCCEEDED)
    for job_id in submitted:
        assert world.states(job_id) == [("queued", 0), ("running", 1), ("succeeded", 1)]


def test_sigterm_releases_the_job_to_another_worker(stack: Stack, world: World) -> None:
    stack.ensure_workers(2)
    job_id = world.train()
    step = world.wait_for_checkpoint(job_id)
    stopping = world.worker_of(job_id)
    signalled = time.monotonic()
    os.kill(stopping.pid, signal.SIGTERM)
    assert stopping.process.wait(timeout=10) == 0
    assert time.monotonic() - signalled < 5
    assert stopping.children() == []
    world.wait_for(job_id, JobState.SUCCEEDED)
    resumed = world.first_step_of_run(job_id, 2)
    assert resumed is not None
    assert resumed > step  # it wrote a checkpoint before it stopped
    assert world.states(job_id) == [
        ("queued", 0),
        ("running", 1),
        ("queued", 0),  # the released attempt does not count
        ("running", 1),
        ("succeeded", 1),
    ]


def test_a_worker_ignores_packages_of_the_current_folder(
    stack: Stack, world: World, tmp_path: Path
) -> None:
    """The folder of a user may contain a `models` package, too."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").write_text("raise ImportError('the package of a user')")
    for worker in stack.workers:
        worker.kill()
    stack.wait_for(stack.start_worker(folder=tmp_path))
    (job_id,) = world.predict(1)
    world.wait_for(job_id, JobState.SUCCEEDED)


def trained(stack: Stack, world: World) -> Denoiser:
    training = world.train(1, "counterfactual")
    world.wait_for(training, JobState.SUCCEEDED)
    with stack.store.database.reading() as session:
        return denoisers.get(session, world.job(training).denoiser_id or "", tenant=DEFAULT_TENANT)


def test_reserved_jobs_survive_their_worker(stack: Stack, world: World) -> None:
    stack.ensure_workers(2)
    submitted = world.explain(trained(stack, world), 30)

    def claimed_together() -> list[str]:
        """Jobs of the worker that holds most, running or reserved."""
        with stack.store.database.reading() as session:
            rows = session.scalars(select(Job).where(Job.lease_owner.is_not(None))).all()
        owners = [job.lease_owner for job in rows]
        return [job.id for job in rows if job.lease_owner == max(owners, key=owners.count)]

    stack.until(lambda: len(claimed_together()) > 2, "a worker has reserved jobs")
    world.worker_of(claimed_together()[-1]).kill()
    for job_id in submitted:
        world.wait_for(job_id, JobState.SUCCEEDED, 90)
    for job_id in submitted:
        states = world.states(job_id)
        assert states[-1][0] == "succeeded", states
        assert [state for state, _ in states].count("succeeded") == 1, states
    again = [job_id for job_id in submitted if world.job(job_id).attempt > 1]
    assert len(again) <= 1  # the one that was running


def test_a_killed_child_does_not_harm_reserved_jobs(stack: Stack, world: World) -> None:
    stack.ensure_workers(2)
    denoiser = trained(stack, world)
    before = world.explain(denoiser, 10)
    (deadly,) = world.explain(denoiser, 1, graphs=200)  # long enough to be killed
    after = world.explain(denoiser, 20)
    for attempt in range(1, stack.settings.max_attempts + 1):
        world.wait_for_attempt(deadly, attempt)
        owner = world.job(deadly).lease_owner
        assert owner is not None
        os.kill(int(owner.rsplit(":", 1)[1]), signal.SIGKILL)
    world.wait_for(deadly, JobState.FAILED)
    for job_id in [*before, *after]:
        world.wait_for(job_id, JobState.SUCCEEDED, 90)
        assert world.states(job_id) == [("queued", 0), ("running", 1), ("succeeded", 1)]
        assert world.job(job_id).error is None


def test_another_worker_resumes_from_the_checkpoint_of_a_killed_one(
    stack: Stack, world: World
) -> None:
    stack.ensure_workers(2)
    job_id = world.train(10)
    first_checkpoint = world.wait_for_checkpoint(job_id)

    # Kill only the parent: its child must exit and must not finish the job.
    victim = world.worker_of(job_id)
    children = victim.children()
    os.kill(victim.pid, signal.SIGKILL)
    victim.process.wait()
    _, alive = psutil.wait_procs(children, timeout=3)
    assert alive == []
    recovery = world.wait_for_attempt(job_id, 2)
    assert recovery < stack.settings.lease_seconds + 3
    assert world.worker_of(job_id) is not victim

    # Kill only the child: the parent starts a new one.
    before = world.wait_for_checkpoint(job_id)
    stack.until(
        lambda: world.wait_for_checkpoint(job_id) > before, "the second attempt has a checkpoint"
    )
    stack.until(lambda: world.first_step_of_run(job_id, 2) is not None, "it reports progress")
    second_checkpoint = world.wait_for_checkpoint(job_id)
    owner = world.job(job_id).lease_owner
    assert owner is not None
    survivor = world.worker_of(job_id)
    os.kill(int(owner.rsplit(":", 1)[1]), signal.SIGKILL)
    world.wait_for_attempt(job_id, 3)
    assert survivor.is_alive

    world.wait_for(job_id, JobState.SUCCEEDED)
    second, third = world.first_step_of_run(job_id, 2), world.first_step_of_run(job_id, 3)
    assert second is not None
    assert third is not None
    assert 0 < first_checkpoint <= second
    assert first_checkpoint < second_checkpoint <= third
    assert world.states(job_id) == [
        ("queued", 0),
        ("running", 1),
        ("queued", 1),
        ("running", 2),
        ("queued", 2),
        ("running", 3),
        ("succeeded", 3),
    ]
    with stack.store.database.reading() as session:
        denoiser = denoisers.get(
            session, world.job(job_id).denoiser_id or "", tenant=DEFAULT_TENANT
        )
    assert denoiser.state is TrainingState.READY
