"""Measure the time from a question about a new GNN to its provisional answer over HTTP."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from bench.gnns.example_gnn import run as make_gnn
from bench.gnns.training import Training
from bench.progress import OnProgress
from bench.speed.section import Figures, Section
from d4explain.client.client import Client
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.job_states import GnnState, Stage
from d4explain.stack.embedded import embedded_stack

_QUESTIONS, _SHORT_QUESTIONS = 10, 3
_REFERENCE_GRAPHS = 300
_MAX_NODES = 60
_TIMEOUT = 120.0


@dataclass(frozen=True)
class FirstAnswerFigures(Figures):
    first_answer_seconds: float  # of the first question, for which the worker loads everything
    first_answer_median_seconds: float
    first_answer_max_seconds: float


def measure(short: bool, seed: int, on_progress: OnProgress) -> Section[FirstAnswerFigures]:
    """Each question needs a new denoiser; its trainings are canceled after the first answer."""
    count = _SHORT_QUESTIONS if short else _QUESTIONS
    with TemporaryDirectory() as folder:
        out = Path(folder) / "gnn"
        training = Training(epochs=10, seconds=60.0)
        make_gnn(
            out,
            graphs=_REFERENCE_GRAPHS,
            test=count,
            seed=seed,
            training=training,
            console=Console(quiet=True),
        )
        data_dir = Path(folder) / "data"
        with embedded_stack(data_dir, Path(folder) / "stack.log") as url, Client(url) as client:
            seconds = _ask(client, out, on_progress)
    return Section(FirstAnswerFigures(seconds[0], median(seconds), max(seconds)))


def _ask(client: Client, folder: Path, on_progress: OnProgress) -> list[float]:
    gnn = client.register_gnn("motifs", folder / "spec.json", folder / "weights.safetensors")
    if gnn.state is not GnnState.READY:
        raise RuntimeError(f"The GNN is {gnn.state}")
    dataset = client.create_dataset("motifs", _graphs(folder / "reference.json"))
    graphs = _graphs(folder / "heldout.json")
    seconds = []
    for number, graph in enumerate(graphs):
        on_progress("questions", number, len(graphs))
        assert len(graph["nodes"]) <= _MAX_NODES
        started = time.monotonic()
        explanation = client.explain_counterfactual(
            gnn.id, dataset.id, [graph], denoiser={"seed": number}
        )
        result = client.result(explanation, wait_for="provisional", timeout=_TIMEOUT)
        seconds.append(time.monotonic() - started)
        assert isinstance(result, CounterfactualResult)
        assert result.stage is Stage.PROVISIONAL
        _cancel(client, explanation.job.id)
    return seconds


def _cancel(client: Client, job_id: str) -> None:
    """Cancel the final answer and its trainings, and wait until the workers are idle."""
    client.cancel(job_id)
    live = [job for state in ("queued", "running") for job in client.jobs(state=state)]
    for job in live:
        client.cancel(job.id)
    for job in live:
        client.wait(job.id, check=False, timeout=_TIMEOUT)


def _graphs(path: Path) -> list[dict[str, Any]]:
    graphs: list[dict[str, Any]] = json.loads(path.read_text())["graphs"]
    return graphs
