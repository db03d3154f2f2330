"""Explanations of every kind, to be replayed by another worker of the same machine."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np
import torch
from sqlalchemy import select

from d4explain.contracts.job_states import JobKind
from d4explain.contracts.requests import PLAIN_EXPLAINERS
from store.database.tables import Job
from store.settings import Settings
from store.store import Store
from tests.unit.flows import reading_gnns, walk_counter
from tests.unit.flows.test_transfer import QUICK, SPEC, edge_counter, registered, ring
from worker.execution.runner import Runner
from worker.handlers import HANDLERS
from worker.handlers.witnesses import handle_witnesses
from worker.loading.library import Library

if TYPE_CHECKING:
    from tests.conftest import Deployment

Document = dict[str, Any]
EXACT_NODES, NEIGHBOURHOOD_NODES = 16, 12
_DENOISER = {"steps": 8, "hidden": 4, "blocks": 1}
_HANDLERS: Mapping[JobKind, Any] = {JobKind.WITNESSES: partial(handle_witnesses, plans=QUICK)}
_ANSWERS = {JobKind.COUNTERFACTUAL, JobKind.CLASS, JobKind.PROVISIONAL}
_SEARCH = {"explainer": "search", "aim": "minimal", "judges": "none"}
_MINIMAL = {"aim": "minimal", "judges": "none"}
_GLOBAL = {"kind": "global", "source_class": 0, "preset": "fast", "count": 2, "theta": 0.2}


class Scenario(NamedTuple):
    name: str
    body: Document
    stages: tuple[str, ...] = ("final",)


class ReplayWorld:
    """A deployment with small limits, so that graphs of 20 nodes count as large."""

    def __init__(self, api: Deployment) -> None:
        self.api = api
        self._first = self._library()
        self.gnn = registered(api, "edges", SPEC, edge_counter(20.5))
        self.judge = registered(api, "judge", SPEC, edge_counter(19.5))
        self.nodes_gnn = registered(
            api, "walks", walk_counter.SPEC, walk_counter.walk_counter_weights()
        )
        graphs = [ring(nodes, chords) for nodes in (5, 6, 7, 8) for chords in (0, 1, 2, 3)] * 8
        self.dataset = self._created("/v1/datasets", json={"name": "rings", "graphs": graphs})
        self.paths = self._created(
            "/v1/datasets",
            json={
                "name": "paths",
                "graphs": [unlabelled(ring(n, c)) for n in (7, 8, 9) for c in (0, 2)],
            },
        )
        self.web = self._created(
            "/v1/datasets/large?name=web",
            content=_npz(_star_with_path()),
            headers={"Content-Type": "application/x-npz"},
        )

    def scenarios(self, seed: int = 0) -> Iterator[Scenario]:
        graph, quick = ring(6, 1), {"denoiser": {**_DENOISER, "seed": seed}}
        both = ("provisional", "final")
        yield Scenario("search", {"graph": graph, **_SEARCH})
        yield Scenario("d4", {"graph": graph, **_MINIMAL, **quick}, both)
        own = {"denoiser": {**_DENOISER, "seed": 1000 + seed}}  # so that it waits for a training
        yield Scenario("believable, judged by witnesses", {"graph": graph, **own}, both)
        yield Scenario("both aims", {"graph": ring(7), "aim": "both", "explainer": "search"})
        paper = {"explainer": "d4-paper", "denoiser": {**quick["denoiser"], "recipe": "paper"}}
        yield Scenario("d4-paper", {"graph": graph, **_MINIMAL, **paper})
        yield Scenario(
            "a named judge", {"graph": graph, **_SEARCH, "judges": [self.judge], "alternatives": 5}
        )
        yield Scenario(
            "several graphs cut by the time budget",
            {
                "graphs": [ring(12), ring(13), ring(14)],
                **_SEARCH,
                "preset": "thorough",
                "time_budget": 0.05,
            },
        )
        constraints = {"max_edits": 3, "actions": "add", "frozen_nodes": ["n0"]}
        yield Scenario(
            "constraints",
            {"graph": ring(5), "constraints": constraints, "target_class": 1, **_SEARCH},
        )
        yield Scenario("a large graph", {"graph": ring(20), **_SEARCH})
        of_nodes = {"gnn": self.nodes_gnn, "dataset": self.paths}
        several = {"graph": unlabelled(ring(8, 2)), "nodes": ["n0", "n3"], **_MINIMAL}
        yield Scenario("nodes", {**of_nodes, **several, **quick})
        large = {"gnn": self.nodes_gnn, "dataset": self.web, "nodes": [46, 20], **_MINIMAL}
        yield Scenario("nodes of a large graph", {**large, "explainer": "search"})
        of_class = {"kind": "class", "target_class": 1, "preset": "fast", **quick}
        yield Scenario("a class", of_class, both)
        yield Scenario("a class in little time", {**of_class, "time_budget": 0.02, "steps": 50})
        yield Scenario("a class as in the paper", {**of_class, **paper})
        yield Scenario("global counterfactuals", _GLOBAL)
        yield Scenario("global counterfactuals in little time", {**_GLOBAL, "time_budget": 0.02})

    def of_readers(self) -> Iterator[Scenario]:
        """Molecules, and graphs whose edges have attributes."""
        client = self.api.client
        atoms = registered(
            self.api, "bonds", reading_gnns.MOLECULE_SPEC, reading_gnns.bond_counter(17.5)
        )
        molecules = {
            "gnn": atoms,
            "dataset": self._created(
                "/v1/datasets",
                json={"name": "drugs", "gnn": atoms, "graphs": reading_gnns.MOLECULES},
            ),
        }
        yield Scenario("global counterfactuals of molecules", {**molecules, **_GLOBAL})
        fluorinated = {"graph": {"smiles": "FC(F)(F)C(F)F"}, **_SEARCH}
        yield Scenario("a molecule", {**molecules, **fluorinated})
        yield Scenario(
            "a valid molecule",
            {**molecules, **fluorinated, "constraints": {"valid_molecule": True}},
        )
        strong = registered(
            self.api, "strong", reading_gnns.STRENGTH_SPEC, reading_gnns.strength_counter(17.5)
        )
        graphs = [reading_gnns.strong_ring(nodes, one) for nodes in (4, 5, 6) for one in (0, 1, 3)]
        edges = {
            "gnn": strong,
            "dataset": self._created("/v1/datasets", json={"name": "strong", "graphs": graphs}),
        }
        yield Scenario("global counterfactuals, edge attributes", {**edges, **_GLOBAL})
        edges["graph"] = reading_gnns.strong_ring(5, 2)
        yield Scenario("edge attributes", {**edges, **_SEARCH})
        yield Scenario(
            "edge attributes, with a denoiser", {**edges, **_MINIMAL, "denoiser": _DENOISER}
        )
        assert client.get(f"/v1/gnns/{strong}").json()["state"] == "ready"

    def of_the_literature(self) -> Iterator[Scenario]:
        for name in PLAIN_EXPLAINERS:
            yield Scenario(name, {"graph": ring(6, 1), "explainer": name})
        for name in ("mined", "xgnn", "hill-climbing"):
            asked = {"kind": "class", "target_class": 1, "node_count": 6, "explainer": name}
            yield Scenario(f"a class by {name}", asked)

    def explain(self, scenario: Scenario, seed: int = 0) -> str:
        """The id of the finished explanation."""
        return self.timed_explain(scenario, seed)[0]

    def timed_explain(self, scenario: Scenario, seed: int = 0) -> tuple[str, float]:
        """The id of the finished explanation, and the CPU seconds of its answers."""
        body = {
            "kind": "counterfactual",
            "gnn": self.gnn,
            "dataset": self.dataset,
            "seed": seed,
            **scenario.body,
        }
        answer = self.api.client.post("/v1/explanations", json=body)
        assert answer.status_code == 202, answer.text
        self.api.work(self._first, _HANDLERS, set(JobKind) - _ANSWERS)  # what it waits for
        before = time.process_time()
        self.api.work(self._first, _HANDLERS)
        seconds = time.process_time() - before
        explanation = self.api.client.get(answer.headers["location"]).json()
        assert explanation["state"] == "succeeded", explanation["job"]["error"]
        return str(explanation["id"]), seconds

    def post_replay(self, explanation: str, stage: str = "final", **headers: str) -> Any:
        path = f"/v1/explanations/{explanation}/replay?stage={stage}"
        return self.api.client.post(path, headers=headers)

    def replay(self, explanation: str, stage: str = "final") -> Document:
        """The finished replay by a worker that has nothing in memory."""
        answer = self.post_replay(explanation, stage)
        assert answer.status_code == 202, answer.text
        self.api.work(self._library(), _HANDLERS)
        replay: Document = self.api.client.get(answer.headers["location"]).json()
        return replay

    def answer(self, explanation: str, stage: str = "final") -> Document:
        answer: Document = self.api.client.get(
            f"/v1/explanations/{explanation}/answers/{stage}"
        ).json()
        return answer

    def _library(self) -> Library:
        return _library_of(self.api.store)

    def _created(self, path: str, **request: Any) -> str:
        answer = self.api.client.post(path, **request)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


def run_replays(settings: Settings) -> float:
    """Runs the queued replays as the worker of another process; returns its CPU seconds."""
    torch.set_num_threads(1)
    with Store.open(settings, migrate=False) as store:
        library = _library_of(store)
        runner = Runner(store, library, HANDLERS, "another process")
        with store.database.reading() as session:
            replays = list(session.scalars(select(Job.id).where(Job.kind == JobKind.REPLAY)))
        before = time.process_time()
        for job in replays:
            runner.run(job)
        return time.process_time() - before


def _library_of(store: Store) -> Library:
    return Library(
        store.artifacts,
        torch.device("cpu"),
        exact_nodes=EXACT_NODES,
        neighbourhood_nodes=NEIGHBOURHOOD_NODES,
    )


def unlabelled(graph: Document) -> Document:
    return {name: value for name, value in graph.items() if name != "y"}


def _star_with_path() -> nx.Graph:
    graph = nx.star_graph(40)
    graph.add_edges_from(pairwise([40, *range(41, 51)]))
    return graph


def _npz(graph: nx.Graph) -> bytes:
    file = io.BytesIO()
    index = np.array(graph.edges).T
    np.savez_compressed(file, edge_index=index, x=np.ones((len(graph), 1)))
    return file.getvalue()
