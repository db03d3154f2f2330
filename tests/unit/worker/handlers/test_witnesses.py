"""The training of witnesses as a job: stops, refusals and labels."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from d4explain.contracts.job_states import JobKind, JobState
from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.gnn.graphs import Graph
from models.witnesses import witness_set
from models.witnesses.architectures import Architecture
from models.witnesses.witness_set import PLANS, Role, WitnessPlan
from store import jobs
from store.catalogue import datasets, gnns, witness_sets
from store.database.tables import Job, WitnessSet
from worker.execution.control import StopReason
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.execution.runner import Runner
from worker.handlers.witnesses import handle_witnesses, true_labels
from worker.loading.graph_conversion import LabelledGraphs
from worker.loading.library import Library

torch.set_num_threads(1)
CPU = torch.device("cpu")
ONE = (WitnessPlan(Role.JUDGE, Architecture.GIN, 1),)


def path(nodes: int, label: int | None = None) -> dict[str, Any]:
    ends = [{"source": one, "target": other} for one, other in pairwise(range(nodes))]
    graph = {"nodes": [{"id": node, "x": [1.0]} for node in range(nodes)], "edges": ends}
    return graph if label is None else {**graph, "label": label}


@pytest.fixture
def api(deployed: Callable[..., Any]) -> Any:
    return deployed()


def submitted(api: Any, graphs: list[dict[str, Any]]) -> tuple[WitnessSet, Job]:
    dataset_id = api.client.post("/v1/datasets", json={"name": "s", "graphs": graphs}).json()["id"]
    gnn_id = api.gnn()
    with api.store.database.transaction() as session:
        row, job = witness_sets.get_or_create(
            session,
            gnn=gnns.get(session, gnn_id, tenant=DEFAULT_TENANT),
            dataset=datasets.get(session, dataset_id, tenant=DEFAULT_TENANT),
        )
    assert job is not None
    return row, job


def run(api: Any, job: Job, handler: Callable[[HandlerContext], HandlerOutput]) -> Job:
    library = Library(api.store.artifacts, CPU)
    Runner(api.store, library, {JobKind.WITNESSES: handler}, "test").run(job.id)
    with api.store.database.reading() as session:
        return jobs.get(session, job.id, tenant=DEFAULT_TENANT)


def test_trained_witnesses_are_loaded_as_they_were(api: Any) -> None:
    graphs = [path(2 + number % 6, number % 2) for number in range(100)]
    row, job = submitted(api, graphs)
    done = run(api, job, partial(handle_witnesses, plans=ONE))
    assert (done.state, done.progress) == (
        JobState.SUCCEEDED,
        {"phase": "training witnesses", "step": 1, "total": 1, "metrics": {}},
    )
    with api.store.database.reading() as session:
        ready = witness_sets.get(session, row.id, tenant=DEFAULT_TENANT)
        gnn = gnns.get(session, row.gnn_id, tenant=DEFAULT_TENANT)
    assert ready.state == "ready"
    assert ready.metrics is not None
    assert ready.metrics["graphs"] == 100
    library = Library(api.store.artifacts, CPU)
    (witness,) = library.witnesses(gnn, ready).witnesses
    assert (witness.plan, witness.labels) == (ONE[0], "true")
    assert not any(parameter.requires_grad for parameter in witness.gnn.parameters())
    assert library.witnesses(gnn, ready) is library.witnesses(gnn, ready)


def test_a_stopped_training_is_queued_again_and_starts_over(api: Any) -> None:
    _, job = submitted(api, [path(3, number % 2) for number in range(100)])

    def shut_down(context: HandlerContext) -> HandlerOutput:
        context.control.stop(StopReason.SHUTDOWN)
        return handle_witnesses(context, plans=ONE)

    released = run(api, job, shut_down)
    assert (released.state, released.attempts_used) == (JobState.QUEUED, 0)
    assert released.checkpoint is None
    again = run(api, job, partial(handle_witnesses, plans=ONE))
    assert again.state is JobState.SUCCEEDED


def test_a_canceled_training_fails_the_set(api: Any) -> None:
    row, job = submitted(api, [path(3, number % 2) for number in range(100)])

    def cancel(context: HandlerContext) -> HandlerOutput:
        with api.store.database.transaction() as session:
            jobs.cancel(session, job.id, tenant=DEFAULT_TENANT)
        context.control.stop(StopReason.CANCELED)
        return handle_witnesses(context, plans=ONE)

    assert run(api, job, cancel).state is JobState.CANCELED
    with api.store.database.reading() as session:
        assert witness_sets.get(session, row.id, tenant=DEFAULT_TENANT).state == "failed"


def test_too_few_graphs_and_too_long_trainings_are_refused_once(api: Any) -> None:
    _, few = submitted(api, [path(3)] * 99)
    failed = run(api, few, handle_witnesses)
    assert (failed.state, failed.attempts_used) == (JobState.FAILED, 1)
    assert "need 100 reference graphs" in (failed.error or {})["message"]

    _, long = submitted(api, [path(4)] * 100)

    def impatient(context: HandlerContext) -> HandlerOutput:
        settings = context.store.settings.model_copy(update={"max_training_seconds": 1.0})
        return handle_witnesses(replace(context, store=replace(context.store, settings=settings)))

    refused = run(api, long, impatient)
    assert refused.state is JobState.FAILED
    assert "D4_MAX_TRAINING_SECONDS" in (refused.error or {})["message"]


def test_more_and_larger_graphs_take_longer() -> None:
    seconds = [
        witness_sets.training_seconds(count, size)
        for count, size in ((100, 40.0), (300, 40.0), (2000, 40.0), (2000, 1000.0))
    ]
    assert seconds == sorted(seconds)
    assert seconds[0] > 10


def training_code() -> str:
    """The code of the training without comments and docstrings."""
    folder = Path(witness_set.__file__).parent
    trees = [
        ast.parse((folder / name).read_text())
        for name in ("architectures.py", "classifier_training.py", "witness_set.py")
    ]
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                node.body = [one for one in node.body if not _is_text(one)] or [ast.Pass()]
    return "\n".join(map(ast.unparse, trees))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def test_the_version_of_stored_witnesses_belongs_to_the_code_of_their_training() -> None:
    """If this fails, raise the version unless witnesses stay the same, then record both here."""
    digest = hashlib.sha256(training_code().encode()).hexdigest()[:16]
    assert (witness_sets.VERSION, digest) == (4, "c16ae75409cc42a7")


def test_the_estimate_counts_the_witnesses_and_graphs_of_the_training() -> None:
    assert len(PLANS) == witness_sets.WITNESSES
    assert witness_sets.MAX_GRAPHS == witness_set.MAX_GRAPHS


def test_judges_learn_true_labels_only_if_every_graph_has_one() -> None:
    graphs = [Graph(torch.ones(1, 1), torch.empty(2, 0, dtype=torch.long))] * 3

    def labels(*given: int | None) -> list[int] | None:
        found = true_labels(LabelledGraphs(graphs, list(given)), classes=2)
        return None if found is None else found.tolist()

    assert labels(0, 1, 1) == [0, 1, 1]
    assert labels(0, None, 1) is None
    assert labels(0, 2, 1) is None  # not a class of the GNN
