"""Node classifiers over HTTP, from registration to explanation; the worker runs in this process."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from d4explain.contracts.gnn_spec import parse_spec
from d4explain.contracts.requests import CanonicalGraph, Constraints
from models.graphs.neighbourhoods import instance
from service.http.faults import InvalidRequestError
from service.schemas import CounterfactualIn, PredictionsIn
from service.submission.explanation_requests import counterfactual_request, prediction_request
from store import jobs
from store.database.tables import Gnn as GnnRow
from store.jobs import JobState
from store.settings import Settings
from worker.cases.graph_cases import part_of, rules_for, rules_within
from worker.execution.runner import Runner
from worker.handlers import HANDLERS
from worker.loading.graph_conversion import graph_of
from worker.loading.library import Library
from worker.loading.reference_sampling import REFERENCE_NODES, sample_neighbourhoods
from worker.loading.spec_conversion import spec_from_document

torch.set_num_threads(1)
CPU = torch.device("cpu")
CONFIG = {"steps": 12, "hidden": 4, "blocks": 1}
GIN = {"type": "gin", "out": 2, "hidden": 2}
SPEC = {
    "task": "node",
    "features": 1,
    "classes": 2,
    "layers": [GIN, GIN, {"type": "linear", "out": 2}],
}
THRESHOLD = 10.0


def walk_counter() -> bytes:
    """Class 1 if more than THRESHOLD walks of two steps start at the node; a step may stay."""
    tensors = {
        "layers.0.conv.nn.0.weight": torch.ones(2, 1),
        "layers.1.conv.nn.0.weight": torch.eye(2),
        "layers.2.linear.weight": torch.tensor([[0.0, 0.0], [0.5, 0.5]]),
        "layers.2.linear.bias": torch.tensor([0.0, -THRESHOLD]),
    }
    for layer in (0, 1):
        tensors[f"layers.{layer}.conv.eps"] = torch.zeros(1)
        tensors[f"layers.{layer}.conv.nn.0.bias"] = torch.zeros(2)
        tensors[f"layers.{layer}.conv.nn.2.weight"] = torch.eye(2)
        tensors[f"layers.{layer}.conv.nn.2.bias"] = torch.zeros(2)
    return save(tensors)


def walks(graph: dict[str, Any]) -> dict[Any, float]:
    """The truth about every node, by powers of the adjacency."""
    read = nx.node_link_graph(
        {"directed": False, "multigraph": False, "graph": {}, **graph}, edges="edges"
    )
    nodes = list(read)
    steps = nx.to_numpy_array(read, nodes) + np.eye(len(nodes))
    return dict(zip(nodes, (steps @ steps).sum(axis=1).tolist(), strict=True))


def node_link(ids: Sequence[Any], edges: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    return {
        "nodes": [{"id": name, "x": [1.0]} for name in ids],
        "edges": [{"source": source, "target": target} for source, target in edges],
    }


def ring(size: int, chords: Sequence[tuple[int, int]] = ()) -> dict[str, Any]:
    """Nodes 0, 1, … but with names of two kinds: odd ones are texts."""
    ids = [f"n{i}" if i % 2 else i for i in range(size)]
    pairs = [*pairwise(range(size)), (size - 1, 0), *chords]
    return node_link(ids, [(ids[a], ids[b]) for a, b in pairs])


REFERENCE = [ring(8), ring(9, [(0, 3)]), ring(7, [(0, 2), (1, 4)])]


@dataclass
class Road:
    """An API with a worker that runs what is queued, a registered GNN and a reference set."""

    api: Any
    runner: Runner
    gnn: str = ""
    dataset: str = ""

    def work(self) -> None:
        while True:
            with self.api.store.database.reading() as session:
                queued = jobs.page(session, state=JobState.QUEUED).items
            ready = [job.id for job in queued if job.waiting_for is None]
            if not ready:
                return
            self.runner.run(ready[-1])

    def posted(self, spec: dict[str, Any], weights: bytes, samples: Any = None) -> Any:
        files = {"weights": ("w", weights)}
        if samples is not None:
            files["samples"] = ("s", json.dumps(samples).encode())
        return self.api.client.post(
            "/v1/gnns",
            data={"name": "walks", "spec": json.dumps(spec)},
            files=files,
            headers={"Prefer": "respond-async"},
        )

    def register(self, spec: dict[str, Any], weights: bytes, samples: Any = None) -> dict[str, Any]:
        answer = self.posted(spec, weights, samples)
        assert answer.status_code == 202, answer.text
        self.work()
        found: dict[str, Any] = self.api.client.get(answer.headers["location"]).json()
        return found

    def post(self, **body: Any) -> Any:
        known = {"gnn": self.gnn, "dataset": self.dataset}
        if body.get("explainer") != "search":
            known["denoiser"] = CONFIG
        return self.api.client.post("/v1/explanations", json={**known, **body})

    def explained(self, **body: Any) -> dict[str, Any]:
        """The finished explanation."""
        answer = self.post(**body)
        assert answer.status_code == 202, answer.text
        self.work()
        found: dict[str, Any] = self.api.client.get(answer.headers["location"]).json()
        assert found["state"] == "succeeded", found["job"]["error"]
        return found

    def answers(self, **body: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.explained(kind="counterfactual", **body)["result"][
            "answers"
        ]
        return found

    def predicted(self, **body: Any) -> list[dict[str, Any]]:
        answer = self.api.client.post(
            f"/v1/gnns/{self.gnn}/predictions", json=body, headers={"Prefer": "respond-async"}
        )
        assert answer.status_code == 202, answer.text
        self.work()
        job = self.api.client.get(answer.headers["location"]).json()
        found: list[dict[str, Any]] = job["result"]["predictions"]
        return found


@pytest.fixture(scope="module")
def road(shared_api: Any) -> Road:
    library = Library(shared_api.store.artifacts, CPU)
    road = Road(shared_api, Runner(shared_api.store, library, HANDLERS, "test"))
    road.gnn = road.register(SPEC, walk_counter())["id"]
    answer = shared_api.client.post("/v1/datasets", json={"name": "rings", "graphs": REFERENCE})
    road.dataset = answer.json()["id"]
    return road


def edited(graph: dict[str, Any], edits: Sequence[dict[str, Any]]) -> dict[str, Any]:
    pairs = {frozenset((edge["source"], edge["target"])) for edge in graph["edges"]}
    for edit in edits:
        pair = frozenset((edit["source"], edit["target"]))
        assert (pair in pairs) == (edit["action"] == "remove")
        pairs ^= {pair}
    return {**graph, "edges": [dict(zip(("source", "target"), p, strict=True)) for p in pairs]}


def test_a_node_classifier_is_probed_and_ready(road: Road) -> None:
    gnn = road.api.client.get(f"/v1/gnns/{road.gnn}").json()
    assert gnn["state"] == "ready"
    assert gnn["spec"]["task"] == "node"
    shapes = next(check for check in gnn["report"]["checks"] if check["name"] == "shapes")
    assert "nodes give logits" in shapes["detail"]


def test_a_node_classifier_that_sees_no_edges_is_rejected(road: Road) -> None:
    blind = {**SPEC, "layers": [{"type": "linear", "out": 2}]}
    weights = {
        "layers.0.linear.weight": torch.tensor([[1.0], [0.0]]),
        "layers.0.linear.bias": torch.ones(2),
    }
    gnn = road.register(blind, save(weights))
    assert gnn["state"] == "rejected"
    failed = [check["name"] for check in gnn["report"]["checks"] if not check["passed"]]
    assert failed == ["sees_edges"]


def labelled(graph: dict[str, Any], wrong: Sequence[Any] = ()) -> dict[str, Any]:
    """With the true class at every node but the `wrong` ones, and none at the last node."""
    truth = walks(graph)
    nodes = [
        {**node, "label": int(truth[node["id"]] > THRESHOLD) ^ (node["id"] in wrong)}
        for node in graph["nodes"]
    ]
    del nodes[-1]["label"]
    return {**graph, "nodes": nodes}


SAMPLED = ring(8, [(0, 3), (0, 4)])


def test_labelled_nodes_are_counted_in_the_probe(road: Road) -> None:
    """Once as node-link JSON with two wrong labels, once as a PyG dict with all of them right."""
    right = labelled(SAMPLED)
    classes = [node.get("label") for node in right["nodes"]]
    position = {node["id"]: place for place, node in enumerate(SAMPLED["nodes"])}
    ends = [[position[edge[end]] for edge in SAMPLED["edges"]] for end in ("source", "target")]
    as_pyg = {"x": [[1.0]] * 8, "edge_index": ends, "y": classes}
    wrong = labelled(SAMPLED, wrong=[0, "n1"])
    gnn = road.register(SPEC, walk_counter(), {"graphs": [wrong, as_pyg]})
    assert gnn["state"] == "ready", gnn["report"]
    figures = gnn["report"]["samples"]
    assert (figures["graph_count"], figures["node_count"]) == (2, 14)
    assert figures["accuracy"] == pytest.approx(12 / 14)
    told = [*classes[:-1], *classes[:-1]]
    for number, found in enumerate(figures["classes"]):
        flipped = sum(classes[place] == number for place in (0, 1))
        assert found["predicted"] == told.count(number) > 0
        assert found["correct"] == told.count(number) - flipped
    assert sum(found["labelled"] for found in figures["classes"]) == 14


def test_wrongly_labelled_nodes_are_named(road: Road) -> None:
    wrong = labelled(SAMPLED, wrong=["n3"])
    gnn = road.register(SPEC, walk_counter(), {"graphs": [wrong], "min_accuracy": 1.0})
    assert gnn["state"] == "rejected"
    (failed,) = [check for check in gnn["report"]["checks"] if not check["passed"]]
    assert failed["name"] == "samples_accuracy"
    assert failed["detail"].startswith("6 of 7 samples are predicted as labelled")
    truth = int(walks(SAMPLED)["n3"] > THRESHOLD)
    example = failed["example"]
    assert example["graph"] == "graph 0 of the samples, 8 nodes and 10 edges, node 'n3'"
    assert (example["sample"], example["expected"]) == (0, f"class {1 - truth}")
    assert example["came_out"].startswith(f"class {truth}, ")


@pytest.mark.parametrize(
    ("graph", "pointer", "words"),
    [
        (ring(5), "", "no node with a label"),
        ({**ring(5), "label": 1}, "", "no node with a label"),
        ({"nodes": [{"id": 0, "label": 2}], "edges": []}, "/nodes/0/label", "classes are 0 to 1"),
        ({"nodes": [{"id": 0, "label": "x"}], "edges": []}, "/nodes/0/label", "integer"),
        ({"edge_index": [[0], [1]], "y": [0]}, "/y", "one label for 2 nodes"),
        ({"edge_index": [[0], [1]], "y": 1}, "/y", "one label for 2 nodes"),
        ({"edge_index": [[0], [1]], "y": [None, 5]}, "/y/1", "is 5; the classes are 0 to 1"),
        ({"edge_index": [[0], [1]], "y": [None, None]}, "", "no node with a label"),
        ({"edge_index": [[0], [1]], "y": [0, 1, 1]}, "/y", "has 3 entries"),
    ],
)
def test_samples_without_labels_of_nodes_are_refused(
    road: Road, graph: dict[str, Any], pointer: str, words: str
) -> None:
    before = road.api.written()
    answer = road.posted(SPEC, walk_counter(), {"graphs": [labelled(ring(4)), graph]})
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["pointer"] == f"/samples/graphs/1{pointer}"
    assert words in error["detail"]
    assert road.api.written() == before


def test_all_nodes_are_predicted_by_the_callers_ids(road: Road) -> None:
    graphs = [ring(8, [(0, 3)]), ring(5)]
    for graph, found in zip(graphs, road.predicted(graphs=graphs), strict=True):
        truth = walks(graph)
        assert [one["node"] for one in found["nodes"]] == [node["id"] for node in graph["nodes"]]
        for one in found["nodes"]:
            logit = truth[one["node"]] - THRESHOLD
            expected = 1 / (1 + np.exp(-logit))
            assert one["probabilities"][1] == pytest.approx(expected, rel=1e-4)
            assert one["predicted_class"] == int(logit > 0)


def test_some_nodes_are_predicted_in_the_order_asked_for(road: Road) -> None:
    graph = ring(8, [(0, 3)])
    everything = {one["node"]: one for one in road.predicted(graph=graph)[0]["nodes"]}
    (found,) = road.predicted(graph=graph, nodes=["n3", 0])
    assert found["nodes"] == [everything["n3"], everything[0]]


@pytest.mark.parametrize("explainer", ["d4", "search"])
def test_a_node_is_explained_by_edits_that_hold_in_the_whole_graph(
    road: Road, explainer: str
) -> None:
    """Nine walks start at each node of a ring; one more edge beside the node makes eleven."""
    graph = ring(8)
    explanation = road.explained(kind="counterfactual", graph=graph, node=0, explainer=explainer)
    (answer,) = explanation["result"]["answers"]
    assert answer["prediction"]["predicted_class"] == 0
    # 6, n7, 0, n1, 2; 0 and those two hops away, and the two among themselves, are left alone
    assert answer["node"] == {
        "id": 0,
        "hops": 2,
        "node_count": 5,
        "edge_count": 4,
        "frozen_pair_count": 3,
    } | {
        "complete": True,
        "exact": True,
    }
    assert {node["id"] for node in answer["graph"]["nodes"]} == {0, "n1", 2, 6, "n7"}
    assert len(answer["graph"]["edges"]) == 4
    (found,) = answer["counterfactuals"]
    (edit,) = found["edits"]
    assert (edit["action"], {edit["source"], edit["target"]}) == ("add", {"n1", "n7"})
    assert found["modification_ratio"] == pytest.approx(1 / 4)

    whole = edited(graph, found["edits"])
    assert walks(whole)[0] == 11
    (again,) = road.predicted(graph=whole, nodes=[0])[0]["nodes"]
    assert again["predicted_class"] == found["prediction"]["predicted_class"] == 1
    assert again["probabilities"] == pytest.approx(found["prediction"]["probabilities"], rel=1e-5)


def test_distances_are_to_the_neighbourhoods_of_the_reference_nodes(road: Road) -> None:
    result = road.explained(kind="counterfactual", graph=ring(8), node=0)["result"]
    assert result["mmd"]["reference_count"] == sum(len(graph["nodes"]) for graph in REFERENCE)
    assert result["mmd"]["graph_count"] == 1


def test_each_of_several_nodes_is_explained_as_if_alone(road: Road) -> None:
    graph = ring(8, [(0, 3)])
    together = road.answers(graph=graph, nodes=["n5", 0, 6])
    assert [answer["node"]["id"] for answer in together] == ["n5", 0, 6]
    for answer in together:
        (alone,) = road.answers(graph=graph, node=answer["node"]["id"])
        for one in (answer, alone):
            one.pop("seconds")
        assert answer == alone
        before = walks(graph)[answer["node"]["id"]] > THRESHOLD
        assert answer["found"]
        for found in answer["counterfactuals"]:
            after = walks(edited(graph, found["edits"]))[answer["node"]["id"]] > THRESHOLD
            assert after != before


def test_constraints_are_in_the_callers_ids(road: Road) -> None:
    graph = ring(8)
    for frozen in (
        {"frozen_edges": [["n7", "n1"]]},
        {"frozen_nodes": ["n1"]},
        {"actions": "remove"},
    ):
        (answer,) = road.answers(graph=graph, node=0, constraints=frozen)
        assert not answer["found"]
        assert answer["closest_miss"] is not None
        assert walks(edited(graph, answer["closest_miss"]["edits"]))[0] <= THRESHOLD
    elsewhere = {"frozen_nodes": [4, "n3"], "frozen_edges": [["n5", 4]]}
    (answer,) = road.answers(graph=graph, node=0, constraints=elsewhere)
    assert answer["found"]


def test_the_budget_is_a_share_of_the_instances_edges(road: Road) -> None:
    """A fifth of the ring's eight edges would be one edit, of the node's four it is none."""
    (answer,) = road.answers(graph=ring(8), node=0, constraints={"max_ratio": 0.2})
    assert not answer["found"]
    assert "of 4 edges is less than one edit" in answer["reason"]


def test_a_node_without_neighbours_is_an_answer_that_says_why(road: Road) -> None:
    graph = ring(6)
    graph["nodes"].append({"id": "alone", "x": [1.0]})
    alone, other = road.answers(graph=graph, nodes=["alone", 0])
    assert not alone["found"]
    assert alone["reason"] == "the rules leave no node pair that may be edited"
    assert alone["node"]["node_count"] == 1
    assert other["found"]


def test_a_class_is_explained_by_marked_nodes(road: Road) -> None:
    result = road.explained(
        kind="class", target_class=1, node_count=5, example_count=3, candidates=6, steps=4, seed=1
    )["result"]
    assert result["examples"]
    for example in result["examples"]:
        truth = walks(example["graph"])[example["node"]] - THRESHOLD
        assert example["confidence"] == pytest.approx(1 / (1 + np.exp(-truth)), rel=1e-4)
    assert result["examples"][0]["confidence"] > 0.5
    # of 24 reference nodes, those of the bare ring have too few walks
    of_class = sum(count > THRESHOLD for graph in REFERENCE for count in walks(graph).values())
    assert result["receipt"]["work"]["class_reference_graphs"] == of_class < 24


def test_the_explained_node_is_marked_in_every_form(road: Road) -> None:
    counterfactual = road.explained(kind="counterfactual", graph=ring(8), nodes=[2, 0])
    at = f"/v1/explanations/{counterfactual['id']}"
    get = road.api.client.get

    svg = ET.fromstring(get(f"{at}?format=svg&graph=1").text)
    shapes = {"svg": "http://www.w3.org/2000/svg"}
    circles = svg.findall("svg:circle", shapes)
    rings = [circle for circle in circles if circle.get("class") == "ring"]
    node = next(c for c in circles if c.findtext("svg:title", namespaces=shapes) == "node 0")
    assert (rings[0].get("cx"), rings[0].get("cy")) == (node.get("cx"), node.get("cy"))
    assert "Explained node: 0." in (svg.findtext("svg:desc", namespaces=shapes) or "")
    assert "explained: 0" in "".join(svg.itertext())

    graphml = nx.parse_graphml(get(f"{at}?format=graphml&graph=1").text)
    assert [name for name, data in graphml.nodes(data=True) if data["explained"]] == ["0"]
    assert graphml.graph["node"] == 0

    cytoscape = get(f"{at}?format=cytoscape&graph=1").json()
    marks = {item["data"]["value"]: item["data"]["explained"] for item in
             cytoscape["elements"]["nodes"]}  # fmt: skip
    assert [node_id for node_id, marked in marks.items() if marked] == [0]
    assert get(f"{at}?format=pyg&graph=1").json()["node"] == 0
    assert get(f"{at}?format=pyg").json()["node"] == 2


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no node": ({}, "/node", "is required, or `nodes`"),
    "unknown node": ({"node": "n0"}, "/node", 'no node with the id "n0"'),
    "unknown nodes": ({"nodes": [0, "x"]}, "/nodes/1", 'no node with the id "x"'),
    "a text for a number": ({"node": "0"}, "/node", 'no node with the id "0"'),
    "twice": ({"nodes": [0, "n1", 0]}, "/nodes/2", "already listed, at /nodes/0"),
    "none at all": ({"nodes": []}, "/nodes", "at least 1 item"),
    "both": ({"node": 0, "nodes": [0]}, "/nodes", "either `node` or `nodes`"),
    "no id": ({"node": 1.5}, "/node", "an integer or a string"),
    "many graphs": ({"graph": None, "graphs": [ring(8)], "nodes": [0]}, "/graphs", "one `graph`"),
    "too many": ({"nodes": [0, "n1", 2, "n3", 4]}, "/nodes", "has 5 nodes"),
    "frozen node": (
        {"node": 0, "constraints": {"frozen_nodes": ["q"]}}, "/constraints/frozen_nodes/0", '"q"',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "pointer", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_questions_about_nodes_that_make_no_sense(
    road: Road, body: dict[str, Any], pointer: str, said: str
) -> None:
    before = road.api.written()
    answer = road.post(kind="counterfactual", **{"graph": ring(8), **body})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert said in error["detail"]
    assert road.api.written() == before


@pytest.mark.parametrize("field", [{"node": "a"}, {"nodes": ["a"]}])
def test_a_graph_classifier_is_not_asked_about_nodes(road: Road, field: dict[str, Any]) -> None:
    gnn = road.api.gnn()
    answer = road.post(kind="counterfactual", gnn=gnn, graph=road.api.graph(), **field)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == f"/{next(iter(field))}"
    assert "classifies graphs" in error["detail"]
    if "nodes" in field:
        body = {"graph": road.api.graph(), **field}
        answer = road.api.client.post(f"/v1/gnns/{gnn}/predictions", json=body)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/nodes"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"graph": ring(5), "nodes": ["n0"]}, "/nodes/0"),
        ({"graphs": [ring(5)], "nodes": [0]}, "/nodes"),
    ],
)
def test_predictions_of_nodes_that_make_no_sense(
    road: Road, body: dict[str, Any], pointer: str
) -> None:
    answer = road.api.client.post(f"/v1/gnns/{road.gnn}/predictions", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_answers_stay_as_large_as_bodies() -> None:
    """An answer repeats a part of the graph for every node."""
    gnn = GnnRow(id="gnn_1", spec=SPEC)
    deployment = Settings(max_body_bytes=40)  # ten values, at four bytes each
    asked = {"kind": "counterfactual", "gnn": "gnn_1", "dataset": "set_1", "graph": ring(5)}
    two = CounterfactualIn.model_validate({**asked, "nodes": [0, "n1"]})
    assert counterfactual_request(two, gnn, deployment).nodes == [0, 1]
    three = CounterfactualIn.model_validate({**asked, "nodes": [0, "n1", 2]})
    with pytest.raises(InvalidRequestError, match=r"has 3 nodes; .* at most 2 at once"):
        counterfactual_request(three, gnn, deployment)


def test_predictions_stay_within_what_a_job_holds() -> None:
    gnn = GnnRow(id="gnn_1", spec={**SPEC, "classes": 256})
    graphs = [ring(500)] * 8
    with pytest.raises(
        InvalidRequestError, match=r"about 4,000 nodes; at most 3,906 .* 256 classes"
    ):
        prediction_request(PredictionsIn(graphs=graphs), gnn, Settings())
    assert len(prediction_request(PredictionsIn(graphs=graphs[1:]), gnn, Settings()).graphs) == 7


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), node=st.integers(0, 11), hops=st.integers(1, 3))
def test_a_nodes_part_is_what_networkx_cuts_out(seed: int, node: int, hops: int) -> None:
    drawn = nx.gnp_random_graph(12, 0.2, seed=seed)
    ids = [f"node {i}" for i in range(12)]
    document = CanonicalGraph(
        node_ids=ids, x=[[float(i)] for i in range(12)], edges=sorted(drawn.edges)
    )
    part = instance(graph_of(document), node, hops, receptive_field=hops)
    found = part_of(document, part)
    ego = nx.ego_graph(nx.relabel_nodes(drawn, dict(enumerate(ids))), ids[node], radius=hops)
    assert found.node_ids[0] == ids[node]
    assert set(found.node_ids) == set(ego)
    assert found.x == [[float(ids.index(name))] for name in found.node_ids]
    named = {frozenset((found.node_ids[a], found.node_ids[b])) for a, b in found.edges}
    assert named == {frozenset(edge) for edge in ego.edges}


def test_rules_are_carried_into_the_part() -> None:
    document = CanonicalGraph(
        node_ids=list("abcdef"), x=[[1.0]] * 6, edges=[(i, i + 1) for i in range(5)]
    )
    part = instance(graph_of(document), 3, 1, receptive_field=1)  # d, c, e
    constraints = Constraints(
        max_edits=3,
        max_ratio=0.4,
        keep_connected=True,
        frozen_nodes=[[0, 4]],
        frozen_edges=[[(2, 3), (0, 5), (1, 2)]],
    )
    rules = rules_within(rules_for(constraints, 0), part)
    assert rules.frozen_nodes == {2}
    assert rules.frozen_pairs == {(1, 0)}
    assert (rules.max_edits, rules.max_ratio, rules.keep_connected) == (3, 0.4, True)


def test_a_large_reference_is_sampled_the_same_way_every_time() -> None:
    spec = spec_from_document(parse_spec(SPEC))
    size = 60
    document = CanonicalGraph(
        node_ids=list(range(size)),
        x=[[float(i)] for i in range(size)],
        edges=[(i, i + 1) for i in range(size - 1)],
    )
    path = graph_of(document)
    found = sample_neighbourhoods([path, path], spec, 50)
    assert len(found) == 50
    for part in found:
        node = int(part.features[0, 0])
        seen = {other for other in range(node - 2, node + 3) if 0 <= other < size}
        assert part.target == 0
        assert set(part.features[:, 0].tolist()) == seen
    again = sample_neighbourhoods([path, path], spec, 50)
    assert all(torch.equal(a.features, b.features) for a, b in zip(found, again, strict=True))
    marked = [int(part.features[0, 0]) for part in sample_neighbourhoods([path], spec)]
    assert marked == list(range(size))
    assert size < REFERENCE_NODES
