"""Node classifiers are registered, probed, predicted and explained over HTTP."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
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
from store.database.tables import Dataset as DatasetRow
from store.database.tables import Gnn as GnnRow
from store.settings import Settings
from tests.unit.flows.api_flow import ApiFlow, assert_refused
from tests.unit.flows.walk_counter import SPEC, THRESHOLD, count_walks, walk_counter_weights
from worker.cases.graph_cases import part_of, rules_for, rules_within
from worker.loading.graph_conversion import graph_of
from worker.loading.reference_sampling import REFERENCE_NODES, sample_neighbourhoods
from worker.loading.spec_conversion import spec_from_document

torch.set_num_threads(1)
WEIGHTS = walk_counter_weights()


def walks(graph: dict[str, Any]) -> dict[Any, float]:
    """The number of walks that start at each node, by the caller's ids."""
    header = {"directed": False, "multigraph": False, "graph": {}}
    return count_walks(nx.node_link_graph({**header, **graph}, edges="edges"))


def node_link(ids: Sequence[Any], edges: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    return {
        "nodes": [{"id": name, "x": [1.0]} for name in ids],
        "edges": [{"source": source, "target": target} for source, target in edges],
    }


def ring(size: int, chords: Sequence[tuple[int, int]] = ()) -> dict[str, Any]:
    """A ring; even nodes have integers as ids (0, 2, …), odd ones strings (n1, n3, …)."""
    ids = [f"n{i}" if i % 2 else i for i in range(size)]
    pairs = [*pairwise(range(size)), (size - 1, 0), *chords]
    return node_link(ids, [(ids[a], ids[b]) for a, b in pairs])


REFERENCE = [ring(8), ring(9, [(0, 3)]), ring(7, [(0, 2), (1, 4)])]


@pytest.fixture(scope="module")
def flow(shared_api: Any) -> ApiFlow:
    flow = ApiFlow(shared_api, denoiser={"steps": 12, "hidden": 4, "blocks": 1})
    flow.gnn = flow.register("walks", SPEC, WEIGHTS)["id"]
    flow.dataset = flow.create_dataset(REFERENCE)["id"]
    return flow


def edited(graph: dict[str, Any], edits: Sequence[dict[str, Any]]) -> dict[str, Any]:
    pairs = {frozenset((edge["source"], edge["target"])) for edge in graph["edges"]}
    for edit in edits:
        pair = frozenset((edit["source"], edit["target"]))
        assert (pair in pairs) == (edit["action"] == "remove")
        pairs ^= {pair}
    return {**graph, "edges": [dict(zip(("source", "target"), p, strict=True)) for p in pairs]}


def test_a_node_classifier_passes_the_probe(flow: ApiFlow) -> None:
    gnn = flow.client.get(f"/v1/gnns/{flow.gnn}").json()
    assert gnn["state"] == "ready"
    assert gnn["spec"]["task"] == "node"
    shapes = next(check for check in gnn["report"]["checks"] if check["name"] == "shapes")
    assert "nodes give logits" in shapes["detail"]


def test_a_node_classifier_that_ignores_edges_is_rejected(flow: ApiFlow) -> None:
    blind = {**SPEC, "layers": [{"type": "linear", "out": 2}]}
    weights = {
        "layers.0.linear.weight": torch.tensor([[1.0], [0.0]]),
        "layers.0.linear.bias": torch.ones(2),
    }
    gnn = flow.register("blind", blind, save(weights))
    assert gnn["state"] == "rejected"
    failed = [check["name"] for check in gnn["report"]["checks"] if not check["passed"]]
    assert failed == ["sees_edges"]


def labelled(graph: dict[str, Any], wrong: Sequence[Any] = ()) -> dict[str, Any]:
    """Labels all nodes but the last one; the nodes in `wrong` get the wrong class."""
    counts = walks(graph)
    nodes = [
        {**node, "label": int(counts[node["id"]] > THRESHOLD) ^ (node["id"] in wrong)}
        for node in graph["nodes"]
    ]
    del nodes[-1]["label"]
    return {**graph, "nodes": nodes}


SAMPLE = ring(8, [(0, 3), (0, 4)])


def test_the_probe_reports_the_accuracy_on_labelled_nodes(flow: ApiFlow) -> None:
    """Samples: node-link JSON with two wrong labels, and a PyG dict with correct labels."""
    right = labelled(SAMPLE)
    classes = [node.get("label") for node in right["nodes"]]
    position = {node["id"]: index for index, node in enumerate(SAMPLE["nodes"])}
    ends = [[position[edge[end]] for edge in SAMPLE["edges"]] for end in ("source", "target")]
    as_pyg = {"x": [[1.0]] * 8, "edge_index": ends, "y": classes}
    wrong = labelled(SAMPLE, wrong=[0, "n1"])
    gnn = flow.register("walks", SPEC, WEIGHTS, {"graphs": [wrong, as_pyg]})
    assert gnn["state"] == "ready", gnn["report"]
    figures = gnn["report"]["samples"]
    assert (figures["graph_count"], figures["node_count"]) == (2, 14)
    assert figures["accuracy"] == pytest.approx(12 / 14)
    predicted = [*classes[:-1], *classes[:-1]]
    for number, found in enumerate(figures["classes"]):
        flipped = sum(classes[index] == number for index in (0, 1))
        assert found["predicted"] == predicted.count(number) > 0
        assert found["correct"] == predicted.count(number) - flipped
    assert sum(found["labelled"] for found in figures["classes"]) == 14


def test_the_probe_names_a_node_that_is_not_predicted_as_labelled(flow: ApiFlow) -> None:
    wrong = labelled(SAMPLE, wrong=["n3"])
    gnn = flow.register("walks", SPEC, WEIGHTS, {"graphs": [wrong], "min_accuracy": 1.0})
    assert gnn["state"] == "rejected"
    (failed,) = [check for check in gnn["report"]["checks"] if not check["passed"]]
    assert failed["name"] == "samples_accuracy"
    assert failed["detail"].startswith("6 of 7 samples are predicted as labelled")
    predicted = int(walks(SAMPLE)["n3"] > THRESHOLD)
    example = failed["example"]
    assert example["graph"] == "graph 0 of the samples, 8 nodes and 10 edges, node 'n3'"
    assert (example["sample"], example["expected"]) == (0, f"class {1 - predicted}")
    assert example["came_out"].startswith(f"class {predicted}, ")


@pytest.mark.parametrize(
    ("graph", "pointer", "message"),
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
def test_samples_without_valid_node_labels_are_refused(
    flow: ApiFlow, graph: dict[str, Any], pointer: str, message: str
) -> None:
    before = flow.api.written()
    answer = flow.post_gnn("walks", SPEC, WEIGHTS, {"graphs": [labelled(ring(4)), graph]})
    assert_refused(answer, f"/samples/graphs/1{pointer}", message)
    assert flow.api.written() == before


def test_predictions_of_all_nodes_have_the_ids_of_the_caller(flow: ApiFlow) -> None:
    graphs = [ring(8, [(0, 3)]), ring(5)]
    for graph, found in zip(graphs, flow.predict(graphs=graphs), strict=True):
        counts = walks(graph)
        assert [one["node"] for one in found["nodes"]] == [node["id"] for node in graph["nodes"]]
        for one in found["nodes"]:
            logit = counts[one["node"]] - THRESHOLD
            expected = 1 / (1 + np.exp(-logit))
            assert one["probabilities"][1] == pytest.approx(expected, rel=1e-4)
            assert one["predicted_class"] == int(logit > 0)


def test_predictions_of_some_nodes_have_the_requested_order(flow: ApiFlow) -> None:
    graph = ring(8, [(0, 3)])
    all_nodes = {one["node"]: one for one in flow.predict(graph=graph)[0]["nodes"]}
    (found,) = flow.predict(graph=graph, nodes=["n3", 0])
    assert found["nodes"] == [all_nodes["n3"], all_nodes[0]]


@pytest.mark.parametrize("explainer", ["d4", "search"])
def test_the_edits_for_a_node_flip_it_in_the_whole_graph(flow: ApiFlow, explainer: str) -> None:
    """Nine walks start at each node of a ring; an edge between its neighbours makes eleven."""
    graph = ring(8)
    explanation = flow.explain(graph=graph, node=0, explainer=explainer)
    flow.assert_what_if_agrees(explanation)
    (answer,) = explanation["result"]["answers"]
    assert answer["prediction"]["predicted_class"] == 0
    # Nodes 6, n7, 0, n1, 2. The pairs of 0, 2 and 6 are frozen: 2 and 6 are two hops away.
    assert answer["node"] == {
        "id": 0,
        "hops": 2,
        "node_count": 5,
        "edge_count": 4,
        "frozen_pair_count": 3,
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
    (again,) = flow.predict(graph=whole, nodes=[0])[0]["nodes"]
    assert again["predicted_class"] == found["prediction"]["predicted_class"] == 1
    assert again["probabilities"] == pytest.approx(found["prediction"]["probabilities"], rel=1e-5)


def test_the_nearest_real_node_is_shown_in_its_neighbourhood(flow: ApiFlow) -> None:
    explanation = flow.explain(graph=ring(8), node=0, explainer="search")
    path = f"/v1/explanations/{explanation['id']}/nearest"
    found = flow.client.get(f"{path}?target_class=1").json()
    near = found["nearest"]
    assert near["position"] is None
    assert near["prediction"]["predicted_class"] == 1
    assert near["node"] in [node["id"] for node in near["graph"]["nodes"]]
    assert 0 < found["distance"] <= 1
    # Nodes of the rings of the reference look like the node itself.
    own = flow.client.get(f"{path}?target_class=0").json()
    assert own["distance"] < found["distance"]


def test_mmd_compares_with_the_neighbourhoods_of_reference_nodes(flow: ApiFlow) -> None:
    result = flow.explain(graph=ring(8), node=0)["result"]
    assert result["mmd"]["reference_count"] == sum(len(graph["nodes"]) for graph in REFERENCE)
    assert result["mmd"]["graph_count"] == 1


def test_the_answer_for_a_node_does_not_depend_on_other_nodes(flow: ApiFlow) -> None:
    graph = ring(8, [(0, 3)])
    together = flow.answers(graph=graph, nodes=["n5", 0, 6])
    assert [answer["node"]["id"] for answer in together] == ["n5", 0, 6]
    for answer in together:
        (alone,) = flow.answers(graph=graph, node=answer["node"]["id"])
        for one in (answer, alone):
            one.pop("seconds")
        assert answer == alone
        before = walks(graph)[answer["node"]["id"]] > THRESHOLD
        assert answer["found"]
        for found in answer["counterfactuals"]:
            after = walks(edited(graph, found["edits"]))[answer["node"]["id"]] > THRESHOLD
            assert after != before


def test_constraints_use_the_ids_of_the_caller(flow: ApiFlow) -> None:
    graph = ring(8)
    for frozen in (
        {"frozen_edges": [["n7", "n1"]]},
        {"frozen_nodes": ["n1"]},
        {"actions": "remove"},
    ):
        (answer,) = flow.answers(graph=graph, node=0, constraints=frozen)
        assert not answer["found"]
        assert answer["closest_miss"] is not None
        assert walks(edited(graph, answer["closest_miss"]["edits"]))[0] <= THRESHOLD
    elsewhere = {"frozen_nodes": [4, "n3"], "frozen_edges": [["n5", 4]]}
    (answer,) = flow.answers(graph=graph, node=0, constraints=elsewhere)
    assert answer["found"]


def test_max_ratio_refers_to_the_edges_of_the_neighbourhood(flow: ApiFlow) -> None:
    """A fifth of the ring (8 edges) is one edit; a fifth of the neighbourhood (4 edges) is none."""
    (answer,) = flow.answers(graph=ring(8), node=0, constraints={"max_ratio": 0.2})
    assert not answer["found"]
    assert "of 4 edges is less than one edit" in answer["reason"]


def test_a_node_without_neighbours_gets_an_answer_with_a_reason(flow: ApiFlow) -> None:
    graph = ring(6)
    graph["nodes"].append({"id": "alone", "x": [1.0]})
    alone, other = flow.answers(graph=graph, nodes=["alone", 0])
    assert not alone["found"]
    assert alone["reason"] == "the rules leave no node pair that may be edited"
    assert alone["node"]["node_count"] == 1
    assert other["found"]


def test_class_examples_name_their_node(flow: ApiFlow) -> None:
    result = flow.explain(
        kind="class", target_class=1, node_count=5, example_count=3, candidates=6, steps=4, seed=1
    )["result"]
    assert result["examples"]
    for example in result["examples"]:
        logit = walks(example["graph"])[example["node"]] - THRESHOLD
        assert example["confidence_alone"] == pytest.approx(1 / (1 + np.exp(-logit)), rel=1e-4)
        assert example["effect"]["mean"] > 0
        assert example["contrast"] > 0
    # The nodes of the ring without chords have too few walks.
    class_1_count = sum(count > THRESHOLD for graph in REFERENCE for count in walks(graph).values())
    assert result["receipt"]["work"]["class_reference_graphs"] == class_1_count < 24


def test_the_explained_node_is_marked_in_every_format(flow: ApiFlow) -> None:
    counterfactual = flow.explain(graph=ring(8), nodes=[2, 0])
    at = f"/v1/explanations/{counterfactual['id']}"
    get = flow.client.get

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


@pytest.mark.parametrize(("body", "pointer", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_invalid_explanation_requests_are_refused(
    flow: ApiFlow, body: dict[str, Any], pointer: str, message: str
) -> None:
    before = flow.api.written()
    answer = flow.post_explanation(**{"graph": ring(8), **body})
    assert_refused(answer, pointer, message)
    assert flow.api.written() == before


@pytest.mark.parametrize("field", [{"node": "a"}, {"nodes": ["a"]}])
def test_nodes_are_refused_for_a_graph_classifier(flow: ApiFlow, field: dict[str, Any]) -> None:
    gnn = flow.api.gnn()
    answer = flow.post_explanation(gnn=gnn, graph=flow.api.graph(), **field)
    assert_refused(answer, f"/{next(iter(field))}", "classifies graphs")
    if "nodes" in field:
        body = {"graph": flow.api.graph(), **field}
        answer = flow.client.post(f"/v1/gnns/{gnn}/predictions", json=body)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/nodes"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"graph": ring(5), "nodes": ["n0"]}, "/nodes/0"),
        ({"graphs": [ring(5)], "nodes": [0]}, "/nodes"),
    ],
)
def test_invalid_nodes_of_predictions_are_refused(
    flow: ApiFlow, body: dict[str, Any], pointer: str
) -> None:
    answer = flow.client.post(f"/v1/gnns/{flow.gnn}/predictions", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_the_number_of_nodes_is_limited_by_the_size_of_the_answer() -> None:
    """An answer contains a part of the graph for every node."""
    gnn = GnnRow(id="gnn_1", spec=SPEC)
    dataset = DatasetRow(id="set_1", graph_count=1, mean_nodes=5.0)
    limits = Settings(max_body_bytes=40)  # ten values, at four bytes each
    body = {"kind": "counterfactual", "gnn": "gnn_1", "dataset": "set_1", "graph": ring(5)}
    two = CounterfactualIn.model_validate({**body, "nodes": [0, "n1"]})
    assert counterfactual_request(two, gnn, limits, dataset, []).nodes == [0, 1]
    three = CounterfactualIn.model_validate({**body, "nodes": [0, "n1", 2]})
    with pytest.raises(InvalidRequestError, match=r"has 3 nodes; .* at most 2 at once"):
        counterfactual_request(three, gnn, limits, dataset, [])


def test_the_number_of_predicted_nodes_is_limited() -> None:
    gnn = GnnRow(id="gnn_1", spec={**SPEC, "classes": 256})
    graphs = [ring(500)] * 8
    with pytest.raises(
        InvalidRequestError, match=r"about 4,000 nodes; at most 3,906 .* 256 classes"
    ):
        prediction_request(PredictionsIn(graphs=graphs), gnn, Settings())
    assert len(prediction_request(PredictionsIn(graphs=graphs[1:]), gnn, Settings()).graphs) == 7


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), node=st.integers(0, 11), hops=st.integers(1, 3))
def test_the_part_around_a_node_equals_the_ego_graph_of_networkx(
    seed: int, node: int, hops: int
) -> None:
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


def test_rules_are_converted_to_the_part_around_a_node() -> None:
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


def test_the_sample_of_a_large_reference_set_is_deterministic() -> None:
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
        neighbourhood = {near for near in range(node - 2, node + 3) if 0 <= near < size}
        assert part.target == 0
        assert set(part.features[:, 0].tolist()) == neighbourhood
    again = sample_neighbourhoods([path, path], spec, 50)
    assert all(torch.equal(a.features, b.features) for a, b in zip(found, again, strict=True))
    marked = [int(part.features[0, 0]) for part in sample_neighbourhoods([path], spec)]
    assert marked == list(range(size))
    assert size < REFERENCE_NODES
