"""Measure submission throughput and latency of the API during a training."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.data.synthetic import ba3motif
from bench.gnns.example_gnn import CLASS_NAMES, example_spec, node_link
from bench.progress import OnProgress
from bench.speed.api.deployment import Deployment, deployment
from bench.speed.api.plain_commits import Commit, Loop, read_commits, write_commits
from bench.speed.api.submitters import Submissions, run_submitters
from bench.speed.section import Figures, Section, Table
from d4explain.client.client import Client
from d4explain.contracts.job_states import JobState
from d4explain.contracts.requests import DenoiserConfig
from d4explain.contracts.scopes import DEFAULT_TENANT, Scope
from d4explain.export.exporter import export
from d4explain.gnn.network import Gnn
from store.access import api_keys
from store.store import Store

CLIENTS = 16
SECONDS = 15.0
_SHORT_SECONDS = 4.0
_NOTICED_SECONDS = 4.0  # an API asks every two seconds whether there are keys
_REFERENCE_GRAPHS = 120
_TRAINING_TIMEOUT = 180.0  # seconds for the first training step on a busy machine
# Trained in seconds, so that the dispatcher announces jobs at once; no worker serves their queue.
_QUICK = DenoiserConfig(steps=1, hidden=4, blocks=1)
_LONG = DenoiserConfig(steps=100_000)  # keeps the worker busy during the measurement


@dataclass(frozen=True)
class LoadFigures(Figures):
    submit_rps: float
    submit_p99_ms: float
    submit_over_bare: float | None  # None at a fixed rate, which does not show the maximum
    submit_bare_rps: float
    submit_rps_with_key: float
    submit_p99_ms_with_key: float
    submit_with_key_over_without: float  # both relative to the plain loops beside them
    submit_rps_without_broker: float
    submit_p99_ms_without_broker: float


def measure(short: bool, seed: int, on_progress: OnProgress) -> Section[LoadFigures]:
    return measure_load(CLIENTS, _SHORT_SECONDS if short else SECONDS, seed, on_progress)


def measure_load(
    clients: int, seconds: float, seed: int, on_progress: OnProgress, rate: float | None = None
) -> Section[LoadFigures]:
    """Measure submissions, the same commits in a plain loop, and submissions without a broker.

    Then the deployment gets its first key. From there on every request needs it, so the runs
    without and with a key cannot alternate; plain loops before, between and after show the machine.

    With `rate`, submissions are scheduled at this rate per second and timed from their schedule.
    Without it, each client submits again after its last answer.
    """

    def report(stages_done: int) -> None:
        on_progress("load", stages_done, 8)

    report(0)
    with deployment("train,light") as running, Client(running.url) as client:
        body = _prepare_request(client, seed)
        training = _start_training(client, body)
        load = _Load(running, body, clients, rate)
        report(1)
        commits = read_commits(running.settings, load.submit(max(2.0, seconds / 5)).ids)
        report(2)
        loops = [_plain_loop(commits, running, seconds / 2)]
        report(3)
        steps_before = _progress(client, training)
        served = load.submit(seconds)
        steps = _progress(client, training) - steps_before
        report(4)
        loops.append(_plain_loop(commits, running, seconds / 2))
        report(5)
        load.key = _make_key(running)
        with_key = load.submit(seconds)
        report(6)
        loops.append(_plain_loop(commits, running, seconds / 2))
        running.kill("broker")
        report(7)
        without_broker = load.submit(max(2.0, seconds / 2))
        # Fails unless every accepted submission has exactly one job and request.
        read_commits(running.settings, [*served.ids, *with_key.ids, *without_broker.ids])
        report(8)
    beside = loops[:2], loops[1:]  # the run without a key, the one with it
    loop_rate, later_rate = map(_rate, beside)
    count = sum(loop.count for loop in beside[0])
    figures = LoadFigures(
        submit_rps=served.per_second,
        submit_p99_ms=served.milliseconds(0.99),
        submit_over_bare=served.per_second / loop_rate if rate is None else None,
        submit_bare_rps=loop_rate,
        submit_rps_with_key=with_key.per_second,
        submit_p99_ms_with_key=with_key.milliseconds(0.99),
        submit_with_key_over_without=(with_key.per_second / later_rate)
        / (served.per_second / loop_rate),
        submit_rps_without_broker=without_broker.per_second,
        submit_p99_ms_without_broker=without_broker.milliseconds(0.99),
    )
    pace = "" if rate is None else f" at {rate:g} per second"
    title = (
        f"{clients} clients submit counterfactuals of one graph{pace} for {seconds:g} s "
        f"during a single-threaded training ({steps} steps); SQLite with `synchronous=FULL`"
    )
    columns = ("", "per second", "p50 ms", "p99 ms", "CPU ms per submission", "accepted")
    loop_cpu_ms = 1000 * sum(loop.cpu_seconds for loop in beside[0]) / count
    rows = (
        ("API", *_cells(served)),
        ("API, with a key", *_cells(with_key)),
        ("API, with a key, broker killed", *_cells(without_broker)),
        ("plain loop of the same commits", loop_rate, 1000 / loop_rate, "-", loop_cpu_ms, "-"),
    )
    return Section(figures, (Table(title, columns, rows),))


@dataclass(frozen=True)
class _Served(Submissions):
    cpu_seconds: float  # of the API's process

    def milliseconds(self, share: float) -> float:
        return 1000 * self.quantile(share)


@dataclass
class _Load:
    running: Deployment
    body: dict[str, Any]
    clients: int
    rate: float | None
    first_seed: int = 0
    key: str = ""

    def submit(self, seconds: float) -> _Served:
        cpu_before = self.running.cpu_seconds("api")
        submissions = run_submitters(
            self.body,
            self.running.port,
            clients=self.clients,
            seconds=seconds,
            first_seed=self.first_seed,
            rate=self.rate,
            key=self.key,
        )
        self.running.require_alive()
        if submissions.refusals or not submissions.ids:
            raise RuntimeError(
                f"{len(submissions.refusals)} submissions were refused: {submissions.refusals[:3]}"
            )
        # New seeds, because an equal request would reuse an existing artifact.
        self.first_seed += 1_000_000
        return _Served(
            **vars(submissions), cpu_seconds=self.running.cpu_seconds("api") - cpu_before
        )


def _prepare_request(client: Client, seed: int) -> dict[str, Any]:
    """Register an untrained GNN, a reference set and a denoiser; return a request for one graph."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    graphs, labels = ba3motif(_REFERENCE_GRAPHS + 1, generator)
    documents = [
        node_link(graph, label) for graph, label in zip(graphs, labels.tolist(), strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        exported = Path(folder)
        network = Gnn(example_spec(graphs[0].features.shape[1], len(CLASS_NAMES))).eval()
        export(network, exported, CLASS_NAMES)
        gnn = client.register_gnn("load", exported / "spec.json", exported / "weights.safetensors")
    dataset = client.create_dataset("load", documents[1:])
    denoiser = client.train_denoiser(gnn.id, dataset.id, config=_QUICK)
    client.wait(denoiser.job.id, timeout=_TRAINING_TIMEOUT)
    return {
        "kind": "counterfactual",
        "aim": "minimal",
        "judges": "none",
        "gnn": gnn.id,
        "dataset": dataset.id,
        "graph": documents[0],
        "denoiser": _QUICK.model_dump(exclude_none=True),
    }


def _make_key(running: Deployment) -> str:
    """The first key; returns once the API has noticed it."""
    with Store.open(running.settings) as store, store.database.transaction() as session:
        key = api_keys.create(session, tenant=DEFAULT_TENANT, name="load", scopes=list(Scope)).text
    time.sleep(_NOTICED_SECONDS)
    return key


def _rate(loops: Sequence[Loop]) -> float:
    return sum(loop.count for loop in loops) / sum(loop.seconds for loop in loops)


def _start_training(client: Client, body: dict[str, Any]) -> str:
    """Start a training; return its job id once it has made progress."""
    job = client.train_denoiser(body["gnn"], body["dataset"], config=_LONG).job.id
    deadline = time.monotonic() + _TRAINING_TIMEOUT
    while _progress(client, job) == 0:
        if time.monotonic() > deadline:
            raise RuntimeError("The background training did not start.")
        time.sleep(0.1)
    return job


def _progress(client: Client, job_id: str) -> int:
    job = client.job(job_id)
    if job.state not in (JobState.QUEUED, JobState.RUNNING):
        raise RuntimeError(f"The background training is {job.state}: {job.error}")
    return 0 if job.progress is None else job.progress.step


def _plain_loop(commits: list[Commit], running: Deployment, seconds: float) -> Loop:
    """Write the same commits in a loop, during the same training and on the same disk."""
    with tempfile.TemporaryDirectory(prefix="loop-", dir=running.settings.data_dir) as folder:
        return write_commits(commits, Path(folder), seconds)


def _cells(served: _Served) -> tuple[str | float, ...]:
    return (
        served.per_second,
        served.milliseconds(0.5),
        served.milliseconds(0.99),
        1000 * served.cpu_seconds / len(served.ids),
        len(served.ids),
    )
