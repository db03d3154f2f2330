"""Runs every kind of job from its request to its stored result, with tiny models."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from d4explain.contracts.counterfactual_results import CounterfactualAnswer, CounterfactualResult
from d4explain.contracts.gnn_spec import GnnSpecDocument
from d4explain.contracts.job_states import GnnState, TrainingState
from d4explain.contracts.requests import (
    CanonicalGraph,
    ClassRequest,
    Constraints,
    CounterfactualRequest,
    DenoiserConfig,
    PredictionRequest,
    Preset,
)
from d4explain.contracts.results import ClassResult, PredictionResult, ResultGraph
from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.classes.config import CLASS_PRESETS
from models.classes.effects import Effect
from models.classes.evidence import Evidence
from models.classes.explain import ClassPattern
from models.counterfactual.explain import CounterfactualConfig
from models.counterfactual.search.search_config import PRESETS
from models.diffusion.typicality import Typicality, typicalities
from store import jobs
from store.artifacts import graph_sets
from store.catalogue import datasets, denoisers, explanations, gnns
from store.database.tables import Dataset, Denoiser, Job
from store.database.tables import Gnn as GnnRow
from store.jobs import JobKind, JobState, Queue
from store.settings import Settings
from store.store import Store
from worker.cases.graph_cases import seed_for
from worker.execution.control import Control, StopReason
from worker.execution.handler_api import Handler, HandlerContext, HandlerOutput
from worker.execution.runner import Runner
from worker.handlers import HANDLERS
from worker.handlers.class_explanation import _distance
from worker.handlers.train import handle_training
from worker.loading.library import Library
from worker.loading.spec_conversion import spec_from_document

torch.set_num_threads(1)
CPU = torch.device("cpu")
CONFIG = DenoiserConfig(steps=12, hidden=4, blocks=1)

SPEC = GnnSpecDocument.model_validate(
    {
        "features": 1,
        "classes": 2,
        "layers": [
            {"type": "gin", "out": 2, "hidden": 2},
            {"type": "pool", "op": "sum"},
            {"type": "linear", "out": 2},
        ],
    }
)

BLIND_SPEC = SPEC.model_copy(update={"layers": SPEC.layers[1:]})


def edge_counter(threshold: float) -> Gnn:
    """Class 1 if nodes + 2·edges > threshold, so the flipping edits are known."""
    gnn = Gnn(spec_from_document(SPEC)).eval()
    weights = {
        "layers.0.conv.eps": torch.zeros(1),
        "layers.0.conv.nn.0.weight": torch.ones(2, 1),
        "layers.0.conv.nn.0.bias": torch.zeros(2),
        "layers.0.conv.nn.2.weight": torch.eye(2),
        "layers.0.conv.nn.2.bias": torch.zeros(2),
        "layers.2.linear.weight": torch.tensor([[0.0, 0.0], [0.5, 0.5]]),
        "layers.2.linear.bias": torch.tensor([0.0, -threshold]),
    }
    gnn.load_state_dict(weights)
    return gnn


def ring(nodes: int, chords: Sequence[tuple[int, int]] = ()) -> CanonicalGraph:
    edges = [(i, i + 1) for i in range(nodes - 1)] + [(0, nodes - 1), *chords]
    return CanonicalGraph(
        node_ids=[f"atom {i}" for i in range(nodes)], x=[[1.0]] * nodes, edges=sorted(edges)
    )


def reference_graphs(copies: int = 5) -> list[CanonicalGraph]:
    """Rings of 5 and 6 nodes, half with two chords; only 5-rings without chords are class 0."""
    plain = [ring(5), ring(6)] * copies
    return plain + [ring(5, [(0, 2), (1, 3)]), ring(6, [(0, 2), (1, 4)])] * copies


@dataclass(frozen=True)
class World:
    store: Store
    runner: Runner
    gnn: GnnRow
    dataset: Dataset

    def run(self, job_id: str, handler: Handler | None = None) -> Job:
        if handler is not None:
            kinds = dict.fromkeys(JobKind, handler)
            Runner(self.store, Library(self.store.artifacts, CPU), kinds, "other").run(job_id)
        else:
            self.runner.run(job_id)
        return self.job(job_id)

    def job(self, job_id: str) -> Job:
        with self.store.database.reading() as session:
            return jobs.get(session, job_id, tenant=DEFAULT_TENANT)

    def denoiser(self, objective: str, config: DenoiserConfig = CONFIG) -> tuple[Denoiser, Job]:
        """Creates a denoiser and its training job."""
        with self.store.database.transaction() as session:
            denoiser, job = denoisers.get_or_create(
                session, gnn=self.gnn, dataset=self.dataset, objective=objective, config=config
            )
            assert job is not None
            return denoiser, job

    def submit(
        self, request: CounterfactualRequest | ClassRequest, denoiser: Denoiser
    ) -> tuple[str, str]:
        """Submits an explanation; returns its id and that of its job."""
        digest = self.store.artifacts.of("default").put(request.model_dump_json().encode())
        with self.store.database.transaction() as session:
            explanation, job = explanations.create(
                session,
                kind=request.kind,
                gnn=self.gnn,
                dataset=self.dataset,
                denoiser=denoisers.get(session, denoiser.id, tenant=DEFAULT_TENANT),
                train_job=None,
                request_digest=digest,
                seed=request.seed,
            )
            return explanation.id, job.id

    def result(self, explanation_id: str) -> bytes:
        with self.store.database.reading() as session:
            digest = explanations.get(session, explanation_id, tenant=DEFAULT_TENANT).result_digest
        assert digest is not None
        return self.store.artifacts.of("default").get(digest)


def opened(folder: Path, **changes: Any) -> Store:
    return Store.open(Settings(data_dir=folder, lease_seconds=5.0, **changes))


def register(store: Store, gnn: Gnn, spec: GnnSpecDocument = SPEC) -> tuple[GnnRow, Job]:
    digest = store.artifacts.of("default").put(save(gnn.state_dict()))
    with store.database.transaction() as session:
        return gnns.create(
            session, name="edge counter", spec=spec, weights_digest=digest, tenant=DEFAULT_TENANT
        )


def world_in(store: Store, copies: int = 5) -> World:
    graphs = reference_graphs(copies)
    figures = graph_sets.describe(graphs)
    gnn, _ = register(store, edge_counter(16.0))
    with store.database.transaction() as session:
        dataset = datasets.create(
            session,
            name="rings",
            gnn_features=1,
            graphs_digest=store.artifacts.of("default").put(graph_sets.pack(graphs)),
            sha256=graph_sets.canonical_set_hash(graphs),
            graph_count=figures.graph_count,
            label_counts=figures.label_counts,
            max_nodes=figures.max_nodes,
            mean_nodes=figures.mean_nodes,
            mean_edges=figures.mean_edges,
            tenant=DEFAULT_TENANT,
        )
    runner = Runner(store, Library(store.artifacts, CPU), HANDLERS, "test")
    return World(store, runner, gnn, dataset)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with opened(tmp_path_factory.mktemp("world")) as store:
        yield world_in(store)


@pytest.fixture(scope="module")
def trained(world: World) -> Denoiser:
    denoiser, job = world.denoiser("counterfactual")
    assert world.run(job.id).state is JobState.SUCCEEDED
    return denoiser


def test_a_sound_gnn_becomes_ready(world: World) -> None:
    gnn, job = register(world.store, edge_counter(12.0))
    assert world.run(job.id).state is JobState.SUCCEEDED
    with world.store.database.reading() as session:
        probed = gnns.get(session, gnn.id, tenant=DEFAULT_TENANT)
    assert probed.state is GnnState.READY
    assert probed.report is not None
    assert {check["name"] for check in probed.report["checks"]} >= {
        "shapes",
        "finite",
        "deterministic",
        "batch_invariant",
        "node_order_invariant",
        "dense_equals_sparse",
        "sees_edges",
        "not_constant",
    }


def constant() -> Gnn:
    gnn = edge_counter(16.0)
    with torch.no_grad():
        gnn.state_dict()["layers.2.linear.weight"].zero_()
    return gnn


def blind() -> Gnn:
    """Reads only node features, so no edit can change its output."""
    torch.manual_seed(0)
    return Gnn(spec_from_document(BLIND_SPEC)).eval()


def overflowing() -> Gnn:
    gnn = edge_counter(16.0)
    with torch.no_grad():
        gnn.state_dict()["layers.0.conv.nn.2.weight"].fill_(3e38)
    return gnn


@pytest.mark.parametrize(
    ("gnn", "failed"),
    [
        (constant, {"sees_edges", "not_constant"}),
        (blind, {"sees_edges"}),
        (overflowing, {"finite"}),
    ],
)
def test_a_faulty_gnn_is_rejected_with_a_report(
    world: World, gnn: Callable[[], Gnn], failed: set[str]
) -> None:
    row, job = register(world.store, gnn(), BLIND_SPEC if gnn is blind else SPEC)
    # The job succeeds because the probe itself ran; the verdict is about the GNN.
    assert world.run(job.id).state is JobState.SUCCEEDED
    with world.store.database.reading() as session:
        probed = gnns.get(session, row.id, tenant=DEFAULT_TENANT)
    assert probed.state is GnnState.REJECTED
    assert probed.report is not None
    names = {check["name"] for check in probed.report["checks"] if not check["passed"]}
    assert names == failed


def test_predictions_come_from_the_sparse_form(world: World) -> None:
    request = PredictionRequest(graphs=[ring(5), ring(5, [(0, 2)])])
    digest = world.store.artifacts.of("default").put(request.model_dump_json().encode())
    with world.store.database.transaction() as session:
        job = jobs.submit(
            session,
            kind=JobKind.PREDICT,
            gnn_id=world.gnn.id,
            request_digest=digest,
            tenant=DEFAULT_TENANT,
        )
    done = world.run(job.id)
    assert done.state is JobState.SUCCEEDED
    result = PredictionResult.model_validate(done.result)
    assert [prediction.predicted_class for prediction in result.predictions] == [0, 1]
    expected = torch.tensor([0.0, 5 + 2 * 6 - 16.0]).softmax(0).tolist()
    assert result.predictions[1].probabilities == pytest.approx(expected, rel=1e-5)


def test_training_makes_the_denoiser_ready_and_releases_waiting_jobs(world: World) -> None:
    config = DenoiserConfig(steps=5, hidden=4, blocks=1, seed=3)
    request = CounterfactualRequest(graphs=[ring(5)])
    digest = world.store.artifacts.of("default").put(request.model_dump_json().encode())
    with world.store.database.transaction() as session:
        denoiser, training = denoisers.get_or_create(
            session,
            gnn=world.gnn,
            dataset=world.dataset,
            objective="counterfactual",
            config=config,
        )
        _, waiting = explanations.create(
            session,
            kind="counterfactual",
            gnn=world.gnn,
            dataset=world.dataset,
            denoiser=denoiser,
            train_job=training,
            request_digest=digest,
        )
    assert training is not None
    assert world.run(waiting.id).state is JobState.QUEUED  # nothing to claim yet
    done = world.run(training.id)
    assert done.state is JobState.SUCCEEDED
    assert done.progress is not None
    assert (done.progress["step"], done.progress["total"]) == (5, 5)
    assert done.progress["metrics"]["loss"] > 0
    with world.store.database.reading() as session:
        ready = denoisers.get(session, denoiser.id, tenant=DEFAULT_TENANT)
    assert ready.state is TrainingState.READY
    assert ready.metrics is not None
    assert ready.metrics["steps"] == 5
    assert world.run(waiting.id).state is JobState.SUCCEEDED


def test_an_interrupted_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    digests = []
    for interrupted in (False, True):
        with opened(tmp_path / str(interrupted)) as store:
            world = world_in(store)
            denoiser, job = world.denoiser("counterfactual")
            if interrupted:
                released = world.run(job.id, shut_down_at(5))
                assert released.state is JobState.QUEUED
                assert released.attempts_used == 0
                assert released.checkpoint is not None
                assert released.checkpoint["step"] == 5
            assert world.run(job.id).state is JobState.SUCCEEDED
            with store.database.reading() as session:
                digests.append(
                    denoisers.get(session, denoiser.id, tenant=DEFAULT_TENANT).weights_digest
                )
    assert digests[0] == digests[1]


def test_alternating_trainings_end_with_the_same_weights(tmp_path: Path) -> None:
    digests = []
    for alternates in (False, True):
        with opened(tmp_path / str(alternates)) as store:
            world = world_in(store)
            trainings = [
                world.denoiser("counterfactual", CONFIG.model_copy(update={"seed": seed}))
                for seed in (0, 1)
            ]
            runner = Runner(
                store,
                Library(store.artifacts, CPU),
                {JobKind.TRAIN: slowly(handle_training)},
                "test",
                queues=[Queue.TRAIN],
                training_seconds=0.0 if alternates else 60.0,
            )
            releases = []
            while unfinished := [job for _, job in trainings if not world.job(job.id).finished_at]:
                runner.run(unfinished[0].id)
            for denoiser, job in trainings:
                ended = world.job(job.id)
                releases.append(ended.releases)
                assert (ended.state, ended.attempts_used) == (JobState.SUCCEEDED, 1)
                with store.database.reading() as session:
                    digests.append(
                        denoisers.get(session, denoiser.id, tenant=DEFAULT_TENANT).weights_digest
                    )
            assert all(releases) if alternates else not any(releases)
    assert digests[:2] == digests[2:]


class SlowControl(Control):
    """Slows a training down so that the watchdog notices waiting jobs."""

    def __init__(self, real: Control) -> None:
        super().__init__(real.checkpoint)
        self._real = real

    def should_yield(self) -> bool:
        if not self._real.should_yield():
            time.sleep(0.3)
        return self._real.should_yield()


def slowly(handler: Handler) -> Handler:
    return lambda context: handler(replace(context, control=SlowControl(context.control)))


def test_the_time_limit_of_a_training_covers_all_attempts(tmp_path: Path) -> None:
    with opened(tmp_path, job_time_limit_seconds=2.0) as store:
        world = world_in(store)
        denoiser, job = world.denoiser("class", DenoiserConfig(steps=100_000, hidden=4, blocks=1))
        attempts = 0
        while not world.run(job.id, shut_down_after(0.4)).finished_at:
            attempts += 1
            assert attempts < 20
        ended = world.job(job.id)
        assert attempts >= 2  # each shorter than the limit
        assert ended.error is not None
        assert (ended.state, ended.error["type"]) == (JobState.EXPIRED, "time_limit")
        with store.database.reading() as session:
            assert (
                denoisers.get(session, denoiser.id, tenant=DEFAULT_TENANT).state
                is TrainingState.FAILED
            )


def shut_down_after(seconds: float) -> Handler:
    def handler(context: HandlerContext) -> HandlerOutput:
        timer = threading.Timer(seconds, lambda: context.control.stop(StopReason.SHUTDOWN))
        timer.start()
        try:
            return handle_training(context)
        finally:
            timer.cancel()

    return handler


class StoppingControl(Control):
    """Requests a shutdown when the job reaches a certain step."""

    def __init__(self, real: Control, at_step: int) -> None:
        super().__init__(real.checkpoint)
        self._at_step = at_step

    def progress(
        self, phase: str, step: int, total: int, metrics: Mapping[str, float] | None = None
    ) -> None:
        super().progress(phase, step, total, metrics)
        if step == self._at_step:
            self.stop(StopReason.SHUTDOWN)


def shut_down_at(step: int) -> Handler:
    def handler(context: HandlerContext) -> HandlerOutput:
        return handle_training(replace(context, control=StoppingControl(context.control, step)))

    return handler


def test_an_unreadable_checkpoint_restarts_the_training(world: World) -> None:
    _, job = world.denoiser("counterfactual", DenoiserConfig(steps=4, hidden=4, blocks=1, seed=9))

    def fail_after_checkpoint(context: HandlerContext) -> HandlerOutput:
        context.control.checkpoint(b"not tensors at all", 2)
        raise OSError("power cut")

    assert world.run(job.id, fail_after_checkpoint).state is JobState.QUEUED
    assert world.run(job.id).state is JobState.SUCCEEDED


def test_a_diverged_training_fails_without_a_retry(world: World) -> None:
    gnn = edge_counter(16.0)
    with torch.no_grad():
        for parameter in gnn.parameters():
            parameter.fill_(1e30)
    overflowing, _ = register(world.store, gnn)
    odd = World(world.store, world.runner, overflowing, world.dataset)
    _, job = odd.denoiser("counterfactual")
    failed = odd.run(job.id)
    assert (failed.state, failed.attempt) == (JobState.FAILED, 1)
    assert failed.error is not None
    assert failed.error["type"] == "invalid"
    assert "Training diverged" in failed.error["message"]


def test_counterfactuals_flip_with_the_callers_node_ids(world: World, trained: Denoiser) -> None:
    posted = ring(5)  # 5 + 2·5 = 15: one more edge makes 17 > 16
    request = CounterfactualRequest(graphs=[posted, ring(6)], seed=7)
    explanation_id, job_id = world.submit(request, trained)
    assert world.run(job_id).state is JobState.SUCCEEDED
    result = CounterfactualResult.model_validate_json(world.result(explanation_id))

    first, second = result.answers
    assert first.found
    assert first.prediction.predicted_class == 0
    best = first.counterfactuals[0]
    assert [edit.action for edit in best.edits] == ["add"]
    assert {best.edits[0].source, best.edits[0].target} <= set(posted.node_ids)
    assert len(best.graph.edges) == 6
    assert best.prediction.predicted_class == 1
    assert best.confidence == pytest.approx(torch.tensor(1.0).sigmoid().item(), rel=1e-5)
    assert best.modification_ratio == pytest.approx(1 / 5)
    assert best.fidelity > 0
    # 6 + 2·6 = 18 is class 1; one edge less gives 16, a tie; two edges less flip.
    assert not second.found
    assert second.reason is not None
    assert second.closest_miss is not None
    assert len(second.closest_miss.edits) == 1

    assert result.summary.graph_count == 2
    assert result.summary.found_count == 1
    assert result.summary.edits_by_denoiser + result.summary.edits_by_search == 1
    assert result.mmd is not None
    assert result.mmd.graph_count == 1
    assert result.mmd.reference_count == 20
    assert 0 <= result.mmd.p_value <= 1
    assert result.receipt.gnn == world.gnn.id
    assert result.receipt.gnn_sha256 == world.gnn.sha256
    assert result.receipt.dataset_sha256 == world.dataset.sha256
    assert set(result.receipt.versions) >= {"d4explain", "torch", "torch_geometric", "python"}
    assert result.receipt.work["gnn_evaluations"] > 0
    gradients = [answer.gnn_gradients for answer in result.answers]
    assert None not in gradients
    assert result.receipt.work["gnn_gradients"] == sum(gradients) > 0  # type: ignore[arg-type]
    assert result.receipt.seed == 7
    assert result.receipt.config["explainer"] == "d4"
    assert result.receipt.config["preset"] == "balanced"
    # 20 reference graphs cannot spare any to calibrate typicality
    assert first.typicality is None
    assert best.typicality is None
    assert any("no typicality for 2 of 2 answers" in warning for warning in result.warnings)


def test_graphs_have_a_typicality_if_the_reference_set_is_large_enough(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        world = world_in(store, copies=150)
        denoiser, training = world.denoiser("counterfactual")
        assert world.run(training.id).state is JobState.SUCCEEDED
        request = CounterfactualRequest(graphs=[ring(5), ring(14)])
        explanation_id, job_id = world.submit(request, denoiser)
        assert world.run(job_id).state is JobState.SUCCEEDED
        result = CounterfactualResult.model_validate_json(world.result(explanation_id))
        with store.database.reading() as session:
            loaded = Library(store.artifacts, CPU).denoiser(
                denoisers.get(session, denoiser.id, tenant=DEFAULT_TENANT)
            )
    known, unknown = result.answers
    assert known.counterfactuals
    assert loaded.shape.calibration_graphs == 100
    answers = [known.graph, *(found.graph for found in known.counterfactuals)]
    figures = [known.typicality, *(found.typicality for found in known.counterfactuals)]
    expected = typicalities(loaded, [graph_of_result(graph) for graph in answers], CPU)
    for figure, own in zip(figures, expected, strict=True):
        assert figure is not None
        assert isinstance(own, Typicality)
        assert figure.value == pytest.approx(own.value, abs=1e-6)
        assert (figure.low, figure.calibration_graphs) == (own.low, own.calibration_graphs)
    # the reference set has rings of 5 and 6 nodes
    assert unknown.typicality is None
    assert all(found.typicality is None for found in unknown.counterfactuals)
    (warning,) = [warning for warning in result.warnings if "typicality" in warning]
    assert warning.startswith("no typicality for 1 of 2 answers")
    assert "5 to 6 nodes, the graph has 14" in warning


def graph_of_result(graph: ResultGraph) -> Graph:
    place = {node.id: position for position, node in enumerate(graph.nodes)}
    edges = [sorted((place[edge.source], place[edge.target])) for edge in graph.edges]
    return Graph(torch.tensor([node.x for node in graph.nodes]), torch.tensor(edges).T)


@pytest.mark.parametrize("preset", get_args(Preset))
def test_the_receipt_contains_the_preset_and_its_values(
    world: World, trained: Denoiser, preset: Preset
) -> None:
    request = CounterfactualRequest(graphs=[ring(5)], preset=preset)
    explanation_id, job_id = world.submit(request, trained)
    assert world.run(job_id).state is JobState.SUCCEEDED
    result = CounterfactualResult.model_validate_json(world.result(explanation_id))
    assert result.answers[0].found
    assert result.receipt.config["preset"] == preset
    assert result.receipt.config["search"] == asdict(PRESETS[preset])


def test_a_wider_preset_evaluates_the_gnn_on_more_graphs(world: World, trained: Denoiser) -> None:
    evaluations = {}
    for preset in get_args(Preset):
        request = CounterfactualRequest(graphs=[ring(14)], preset=preset)  # 91 pairs
        explanation_id, job_id = world.submit(request, trained)
        assert world.run(job_id).state is JobState.SUCCEEDED
        result = CounterfactualResult.model_validate_json(world.result(explanation_id))
        evaluations[preset] = result.receipt.work["gnn_evaluations"]
    assert evaluations["fast"] < evaluations["balanced"] < evaluations["thorough"]


def test_presets_have_the_same_names_everywhere() -> None:
    assert get_args(Preset) == tuple(PRESETS) == tuple(CLASS_PRESETS)
    assert CounterfactualRequest(graphs=[]).preset == ClassRequest(target_class=0).preset
    assert PRESETS["balanced"] == CounterfactualConfig().search


def test_an_answer_does_not_depend_on_other_graphs_of_the_request(
    world: World, trained: Denoiser
) -> None:
    graph = ring(6, [(0, 3)])
    answers = []
    for graphs in ([graph], [ring(5), graph, ring(6)]):
        request = CounterfactualRequest(
            graphs=graphs, constraints=Constraints(max_ratio=0.5), explainer="d4-paper"
        )
        explanation_id, job_id = world.submit(request, trained)
        world.run(job_id)
        result = json.loads(world.result(explanation_id))
        answer = result["answers"][graphs.index(graph)]
        answer.pop("seconds")
        answers.append(answer)
    assert answers[0] == answers[1]
    assert seed_for(0, graph) != seed_for(1, graph)
    assert seed_for(0, graph) != seed_for(0, ring(6))


GRAPHS = [ring(5), ring(6), ring(5, [(0, 2)]), ring(7, [(0, 2), (1, 4)]), ring(9, [(2, 6)])]


@settings(max_examples=6, deadline=None)
@given(
    st.lists(
        st.lists(st.integers(0, len(GRAPHS) - 1), min_size=1, max_size=3), min_size=2, max_size=4
    )
)
def test_an_answer_does_not_depend_on_other_jobs_of_the_time_slice(
    world: World, trained: Denoiser, alone: list[CounterfactualAnswer], jobs_of: list[list[int]]
) -> None:
    """Compares bit by bit, with graphs of other sizes in any order."""
    ids = [
        world.submit(CounterfactualRequest(graphs=[GRAPHS[graph] for graph in graphs]), trained)
        for graphs in jobs_of
    ]
    library = Library(world.store.artifacts, CPU)
    Runner(world.store, library, HANDLERS, "together", slice_seconds=60.0).run(ids[0][1])
    for (explanation, job_id), graphs in zip(ids, jobs_of, strict=True):
        with world.store.database.reading() as session:
            assert (
                jobs.get(session, job_id, tenant=DEFAULT_TENANT).state is JobState.SUCCEEDED
            )  # one message ran all jobs
        assert untimed(world.result(explanation)) == [alone[graph] for graph in graphs]


def untimed(result: bytes) -> list[CounterfactualAnswer]:
    answers = CounterfactualResult.model_validate_json(result).answers
    return [answer.model_copy(update={"seconds": 0.0}) for answer in answers]


@pytest.fixture(scope="module")
def alone(world: World, trained: Denoiser) -> list[CounterfactualAnswer]:
    """The answers for each graph, computed in a separate job with a separate runner."""
    answers = []
    for graph in GRAPHS:
        explanation, job_id = world.submit(CounterfactualRequest(graphs=[graph]), trained)
        Runner(world.store, Library(world.store.artifacts, CPU), HANDLERS, "alone").run(job_id)
        answers += untimed(world.result(explanation))
    assert {answer.found for answer in answers} == {True, False}
    return answers


def test_constraints_that_allow_no_edit_give_an_answer_with_a_reason(
    world: World, trained: Denoiser
) -> None:
    request = CounterfactualRequest(
        graphs=[ring(5)], constraints=Constraints(frozen_nodes=[[0, 1, 2, 3, 4]])
    )
    explanation_id, job_id = world.submit(request, trained)
    assert world.run(job_id).state is JobState.SUCCEEDED
    result = CounterfactualResult.model_validate_json(world.result(explanation_id))
    assert not result.answers[0].found
    assert result.answers[0].reason
    assert result.mmd is None
    assert result.summary.mean_edits is None


def test_a_time_budget_ends_the_search_and_is_reported(world: World, trained: Denoiser) -> None:
    request = CounterfactualRequest(graphs=[ring(6), ring(6)], time_budget=1e-9)
    explanation_id, job_id = world.submit(request, trained)
    assert world.run(job_id).state is JobState.SUCCEEDED
    result = CounterfactualResult.model_validate_json(world.result(explanation_id))
    assert [answer.found for answer in result.answers] == [False, False]
    assert "time budget ended the search on 2 of 2 graphs" in result.warnings[0]


@pytest.fixture(scope="module")
def trained_for_classes(world: World) -> Denoiser:
    denoiser, job = world.denoiser("class")
    assert world.run(job.id).state is JobState.SUCCEEDED
    return denoiser


def test_a_class_is_explained_by_ranked_examples(
    world: World, trained_for_classes: Denoiser
) -> None:
    request = ClassRequest(
        target_class=1, node_count=4, example_count=3, candidates=6, steps=4, seed=1
    )
    explanation_id, job_id = world.submit(request, trained_for_classes)
    done = world.run(job_id)
    assert done.state is JobState.SUCCEEDED
    assert done.progress is not None
    assert done.progress["step"] == done.progress["total"]
    result = ClassResult.model_validate_json(world.result(explanation_id))
    assert 1 <= len(result.examples) <= 3
    assert result.reason is None
    assert result.tells_small_graphs_apart
    assert result.receipt.work["class_reference_graphs"] == 15
    assert result.mmd is not None
    assert any("too few graphs to measure patterns on others" in one for one in result.warnings)
    for example in result.examples:
        assert len(example.graph.nodes) == 4
        support = example.support
        assert support.elsewhere is not None
        assert example.contrast == pytest.approx(support.in_class - support.elsewhere, abs=1e-5)
        assert example.contrast > 0
        assert example.effect.mean > 0
        assert round(support.class_count * support.in_class, 4).is_integer()
        assert len(example.occurrences) == round(support.class_count * support.in_class)
        assert all(len(set(one.nodes)) == 4 for one in example.occurrences)
        shown = example.occurrences[0].shown
        assert shown is not None  # and marks the pattern's edges
        place = example.occurrences[0].nodes
        inside = {frozenset((edge.source, edge.target)) for edge in shown.edges}
        inside = {edge for edge in inside if edge <= set(place)}
        edges = {frozenset((place[e.source], place[e.target])) for e in example.graph.edges}  # type: ignore[index]
        assert inside == edges
        assert bool(example.chain) == ("denoiser" in example.found_by)


def test_mmd_subgraphs_have_the_sizes_of_the_patterns() -> None:
    def pattern(nodes: int) -> ClassPattern:
        return ClassPattern(
            graph=path(nodes),
            probabilities=torch.tensor([1.0]),
            likelihood=None,
            connected=True,
            sources=("data",),
            evidence=Evidence(frozenset(), frozenset(), 1, 1, [], Effect(None, None), None),
            chain=(),
        )

    def path(nodes: int) -> Graph:
        ends = torch.arange(nodes - 1)
        return Graph(torch.ones(nodes, 1), torch.stack([ends, ends + 1]))

    distance = _distance([pattern(12), *[pattern(6)] * 7], [path(40)], seed=0).mmd
    assert distance is not None
    assert distance.sum < 0.02
    assert distance.p_value > 0.05


@pytest.mark.parametrize(
    ("asked", "candidates", "steps"),
    [
        ({}, 20, 30),
        ({"preset": "fast"}, 10, 10),
        ({"preset": "thorough"}, 30, 50),
        ({"preset": "thorough", "candidates": 3}, 3, 50),
        ({"preset": "fast", "steps": 2}, 10, 2),
        ({"candidates": 4, "steps": 3}, 4, 3),
    ],
)
def test_a_class_preset_fills_in_missing_options(
    world: World,
    trained_for_classes: Denoiser,
    asked: dict[str, Any],
    candidates: int,
    steps: int,
) -> None:
    request = ClassRequest(target_class=1, node_count=5, example_count=1, **asked)
    explanation_id, job_id = world.submit(request, trained_for_classes)
    done = world.run(job_id)
    assert done.state is JobState.SUCCEEDED
    result = ClassResult.model_validate_json(world.result(explanation_id))
    config, work = result.receipt.config, result.receipt.work
    assert config["preset"] == asked.get("preset", "balanced")
    assert (config["candidates"], config["steps"]) == (candidates, steps)
    assert (work["candidates"], work["steps"]) == (candidates, steps)


def test_a_class_that_the_gnn_gives_no_graph_has_a_reason(
    world: World, trained_for_classes: Denoiser
) -> None:
    gnn, _ = register(world.store, edge_counter(1000.0))
    odd = World(world.store, world.runner, gnn, world.dataset)
    request = ClassRequest(target_class=1, node_count=4, example_count=1, candidates=2, steps=2)
    explanation_id, job_id = odd.submit(request, trained_for_classes)
    assert odd.run(job_id).state is JobState.SUCCEEDED
    result = ClassResult.model_validate_json(odd.result(explanation_id))
    assert result.examples == []
    assert result.reason == "the GNN gives no reference graph class 1"
    assert result.mmd is None


def test_an_unknown_class_fails_with_the_reason(world: World, trained: Denoiser) -> None:
    request = CounterfactualRequest(graphs=[ring(5)], target_class=9)
    _, job_id = world.submit(request, trained)
    failed = world.run(job_id)
    assert (failed.state, failed.attempt) == (JobState.FAILED, 1)
    assert failed.error is not None
    assert "class 9" in failed.error["message"]
