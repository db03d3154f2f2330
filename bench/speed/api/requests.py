"""Measure throughput and overhead of explanations over HTTP on an embedded stack."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from rich.console import Console

from bench.gnns.example_gnn import run as make_gnn
from bench.gnns.training import Training
from bench.progress import OnProgress
from bench.speed.section import Figures, Section, Table
from d4explain.client.client import Client
from d4explain.contracts.requests import (
    CanonicalGraph,
    CounterfactualRequest,
    DenoiserConfig,
    Preset,
)
from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.gnn.device import choose_device
from d4explain.gnn.network import Gnn
from d4explain.stack.embedded import embedded_stack
from models.counterfactual.explain import CounterfactualConfig, CounterfactualOutcome
from models.counterfactual.search.search_config import PRESETS
from models.diffusion.edge_denoiser import EdgeDenoiser
from store.catalogue import denoisers, gnns
from store.settings import Settings
from store.store import Store
from worker.cases.graph_cases import cases_of
from worker.loading.library import Library

GRAPHS = 100  # in the large job; also the number of single-graph jobs
SIZES = (1, 10)  # sizes of sequential jobs
_REFERENCE = 240
_STEPS = 30  # training steps of the denoiser, whose quality does not matter here
_PRESET: Preset = "fast"  # cheap computation makes the overhead visible
_CONNECTIONS = 8  # concurrent posts
_WAIT = {"Prefer": "wait=60"}

Document = dict[str, Any]
Edits = list[tuple[Any, Any, str]]


@dataclass(frozen=True)
class Environment:
    """A running stack with a GNN and a denoiser, and both models loaded in this process."""

    http: httpx.Client
    gnn_id: str
    dataset_id: str
    graphs: list[Document]  # node-link format
    gnn: Gnn
    denoiser: EdgeDenoiser

    def request(self, graphs: Sequence[Document]) -> Document:
        return {
            "kind": "counterfactual",
            "gnn": self.gnn_id,
            "dataset": self.dataset_id,
            "denoiser": {"steps": _STEPS},
            "preset": _PRESET,
            "aim": "minimal",
            "judges": "none",
            "graphs": list(graphs),
        }

    def post(self, graphs: Sequence[Document], *, wait: bool) -> Document:
        headers = _WAIT if wait else {}
        return _json(self.http.post("/v1/explanations", json=self.request(graphs), headers=headers))

    def finished(self, explanation: Document) -> Document:
        """Wait for the explanation's result."""
        while explanation["job"]["finished_at"] is None:
            path = f"/v1/explanations/{explanation['id']}"
            explanation = _json(self.http.get(path, headers=_WAIT))
        if explanation["result"] is None:
            raise RuntimeError(f"The job failed: {explanation['job']['error']}")
        return explanation

    def call_library(self, graph: Document) -> CounterfactualOutcome:
        """Explain the graph with the library, as the worker would."""
        request = CounterfactualRequest(graphs=[_canonical(graph)], preset=_PRESET)
        config = CounterfactualConfig(
            alternatives=request.alternatives, search=PRESETS[request.preset]
        )
        (case,) = cases_of(request, self.gnn.spec)
        device = choose_device("cpu")
        return case.explain(self.gnn, self.denoiser, config, device=device)


@dataclass(frozen=True)
class RunResult:
    """Answers for all graphs in order, and the time until the last answer."""

    seconds: float
    edits: list[Edits]


@dataclass(frozen=True)
class RequestFigures(Figures):
    many_jobs_over_one: float
    warm_overhead_ms: float
    library_call_ms: float
    same_answers: float  # share of graphs with equal answers from one job and many jobs


def measure(short: bool, seed: int, on_progress: OnProgress) -> Section[RequestFigures]:
    on_progress("starting the stack", 0, 1)
    with prepared_environment(seed) as environment:
        return (
            measure_environment(environment, 2, 20, on_progress)
            if short
            else measure_environment(environment, 5, 50, on_progress)
        )


def measure_environment(
    environment: Environment, repetitions: int, requests: int, on_progress: OnProgress
) -> Section[RequestFigures]:
    for graph in environment.graphs[:5]:  # warm-up
        environment.finished(environment.post([graph], wait=True))
        environment.call_library(graph)
    single = time_single_requests(environment, requests, on_progress)
    rate_of_size = {size: sequential_throughput(environment, size, requests) for size in SIZES}
    count = len(environment.graphs)
    pairs = []
    for done in range(repetitions):
        on_progress("many jobs and one job", done, repetitions)
        pairs.append((run_concurrently(environment, count), run_concurrently(environment, 1)))
    same = sum(a == b for one, many in pairs for a, b in zip(one.edits, many.edits, strict=True))
    throughput = [
        *((_sequential_label(size), rate) for size, rate in rate_of_size.items()),
        (f"a job of {count} graphs", count / median(one.seconds for one, _ in pairs)),
        (f"{count} jobs of one graph at once", count / median(many.seconds for _, many in pairs)),
    ]
    return Section(
        figures=RequestFigures(
            many_jobs_over_one=median(many.seconds / one.seconds for one, many in pairs),
            warm_overhead_ms=1000 * median(single.overheads),
            library_call_ms=1000 * median(single.calls),
            same_answers=same / (count * repetitions),
        ),
        tables=(
            Table("Explanations over HTTP", ("jobs", "graphs per second"), tuple(throughput)),
            Table(
                "Single warm request, median",
                ("part", "ms"),
                (
                    ("library call", 1000 * median(single.calls)),
                    ("overhead of HTTP and queue", 1000 * median(single.overheads)),
                ),
            ),
        ),
    )


def _sequential_label(size: int) -> str:
    return f"jobs of {size} {'graph' if size == 1 else 'graphs'}, sequential"


@dataclass(frozen=True)
class SingleRequests:
    """Seconds of requests without concurrent work."""

    overheads: list[float]  # on top of the library call of the same graph
    calls: list[float]


def time_single_requests(
    environment: Environment, count: int, on_progress: OnProgress
) -> SingleRequests:
    """Alternate library calls and requests."""
    overheads, calls = [], []
    for done in range(count):
        on_progress("single requests", done, count)
        graph = environment.graphs[done % len(environment.graphs)]
        call_started = time.perf_counter()
        outcome = environment.call_library(graph)
        request_started = time.perf_counter()
        document = environment.post([graph], wait=True)
        request_ended = time.perf_counter()
        assert edits_of(environment.finished(document))[0] == _library_edits(outcome, graph)
        call_seconds = request_started - call_started
        calls.append(call_seconds)
        overheads.append((request_ended - request_started) - call_seconds)
    return SingleRequests(overheads, calls)


def sequential_throughput(environment: Environment, size: int, count: int) -> float:
    """Graphs per second of sequential jobs of this size."""
    started = time.perf_counter()
    done = 0
    while done < count:
        graphs = [
            environment.graphs[index % len(environment.graphs)]
            for index in range(done, done + size)
        ]
        done += len(edits_of(environment.finished(environment.post(graphs, wait=True))))
    return done / (time.perf_counter() - started)


def run_concurrently(environment: Environment, size: int) -> RunResult:
    """Post all graphs in jobs of this size, then wait for all answers."""
    starts = range(0, len(environment.graphs), size)
    batches = [environment.graphs[start : start + size] for start in starts]
    started = time.perf_counter()
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        posted = list(pool.map(lambda batch: environment.post(batch, wait=False), batches))
    # Wait for the last job first; the others are then finished or nearly so.
    finished = [environment.finished(explanation) for explanation in reversed(posted)][::-1]
    seconds = time.perf_counter() - started
    edits = [edits for explanation in finished for edits in edits_of(explanation)]
    return RunResult(seconds, edits)


def edits_of(explanation: Document) -> list[Edits]:
    """Edits of every graph's best answer, with the caller's node ids."""
    return [
        [
            (edit["source"], edit["target"], edit["action"])
            for counterfactual in answer["counterfactuals"][:1]
            for edit in counterfactual["edits"]
        ]
        for answer in explanation["result"]["answers"]
    ]


@contextmanager
def prepared_environment(seed: int) -> Iterator[Environment]:
    with TemporaryDirectory(prefix="d4-bench-") as temporary, ExitStack() as opened:
        folder = Path(temporary)
        make_gnn(
            folder / "gnn",
            graphs=_REFERENCE,
            test=GRAPHS,
            seed=seed,
            training=Training(),
            console=Console(quiet=True),
        )
        data = folder / "data"
        address = opened.enter_context(embedded_stack(data, folder / "stack.log"))
        with Client(address) as client:
            spec, weights = folder / "gnn" / "spec.json", folder / "gnn" / "weights.safetensors"
            gnn = client.register_gnn("motifs", spec, weights)
            reference = json.loads((folder / "gnn" / "reference.json").read_text())
            dataset = client.create_dataset(reference["name"], reference["graphs"])
            trained = client.train_denoiser(gnn.id, dataset.id, config=DenoiserConfig(steps=_STEPS))
            client.wait(trained.job.id)
        store = opened.enter_context(Store.open(Settings(data_dir=data), migrate=False))
        library = Library(store.artifacts, choose_device("cpu"))
        with store.database.reading() as session:
            gnn_row = gnns.get(session, gnn.id, DEFAULT_TENANT)
            denoiser_row = denoisers.get(session, trained.id, DEFAULT_TENANT)
        http = opened.enter_context(httpx.Client(base_url=address, timeout=90, trust_env=False))
        yield Environment(
            http=http,
            gnn_id=gnn.id,
            dataset_id=dataset.id,
            graphs=json.loads((folder / "gnn" / "heldout.json").read_text())["graphs"],
            gnn=library.gnn(gnn_row),
            denoiser=library.denoiser(denoiser_row),
        )


def _canonical(graph: Document) -> CanonicalGraph:
    pairs = {tuple(sorted((edge["source"], edge["target"]))) for edge in graph["edges"]}
    return CanonicalGraph(
        node_ids=[node["id"] for node in graph["nodes"]],
        x=[node["x"] for node in graph["nodes"]],
        edges=sorted(pairs),
    )


def _library_edits(outcome: CounterfactualOutcome, graph: Document) -> Edits:
    ids = [node["id"] for node in graph["nodes"]]
    return [
        (ids[edit.source], ids[edit.target], "add" if edit.added else "remove")
        for counterfactual in outcome.found[:1]
        for edit in counterfactual.edits
    ]


def _json(response: httpx.Response) -> Document:
    response.raise_for_status()
    document: Document = response.json()
    return document
