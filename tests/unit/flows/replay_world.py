"""Explanations of every kind, to be replayed by another worker of the same machine."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np
import torch

from d4explain.contracts.job_states import JobKind
from tests.unit.flows import walk_counter
from tests.unit.flows.test_transfer import QUICK, SPEC, edge_counter, registered, ring
from worker.handlers.witnesses import handle_witnesses
from worker.loading.library import Library

if TYPE_CHECKING:
    from tests.conftest import Deployment

Document = dict[str, Any]
EXACT_NODES, NEIGHBOURHOOD_NODES = 16, 12
_DENOISER = {"steps": 8, "hidden": 4, "blocks": 1}
_HANDLERS: Mapping[JobKind, Any] = {JobKind.WITNESSES: partial(handle_witnesses, plans=QUICK)}
_SEARCH = {"explainer": "search", "aim": "minimal", "judges": "none"}
_MINIMAL = {"aim": "minimal", "judges": "none"}


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

    def explain(self, scenario: Scenario, seed: int = 0) -> str:
        """The id of the finished explanation."""
        body = {
            "kind": "counterfactual",
            "gnn": self.gnn,
            "dataset": self.dataset,
            "seed": seed,
            **scenario.body,
        }
        answer = self.api.client.post("/v1/explanations", json=body)
        assert answer.status_code == 202, answer.text
        self.api.work(self._first, _HANDLERS)
        explanation = self.api.client.get(answer.headers["location"]).json()
        assert explanation["state"] == "succeeded", explanation["job"]["error"]
        return str(explanation["id"])

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
        return Library(
            self.api.store.artifacts,
            torch.device("cpu"),
            exact_nodes=EXACT_NODES,
            neighbourhood_nodes=NEIGHBOURHOOD_NODES,
        )

    def _created(self, path: str, **request: Any) -> str:
        answer = self.api.client.post(path, **request)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


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
