"""Global counterfactuals over HTTP: every statement of the answer is checked again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import networkx as nx
import pytest
import torch
from safetensors.torch import save

torch.set_num_threads(1)
TYPES = ("C", "N", "O")
SPEC = {
    "features": 3,
    "classes": 2,
    "class_names": ["harmless", "harmful"],
    "feature_schema": {"features": [{"name": name, "group": "element"} for name in TYPES]},
    "layers": [
        {"type": "gin", "out": 2, "hidden": 2},
        {"type": "pool", "op": "sum"},
        {"type": "linear", "out": 2},
    ],
}
Document = dict[str, Any]


def oxygen_counter() -> bytes:
    """Weights of a GNN whose class is 1 if 1 + degree, summed over nodes of type O, exceeds 3.5."""
    return save(
        {
            "layers.0.conv.eps": torch.zeros(1),
            "layers.0.conv.nn.0.weight": torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]),
            "layers.0.conv.nn.0.bias": torch.zeros(2),
            "layers.0.conv.nn.2.weight": torch.eye(2),
            "layers.0.conv.nn.2.bias": torch.zeros(2),
            "layers.2.linear.weight": torch.tensor([[0.0, 0.0], [0.5, 0.5]]),
            "layers.2.linear.bias": torch.tensor([0.0, -3.5]),
        }
    )


def posted(shape: nx.Graph, types: Iterable[int]) -> Document:
    return {
        "nodes": [
            {"id": node, "x": [float(kind == column) for column in range(3)]}
            for node, kind in enumerate(types)
        ],
        "edges": [{"source": one, "target": other} for one, other in shape.edges],
    }


def reference() -> list[Document]:
    """Paths and stars with one, two or three atoms of O or N."""
    graphs = []
    for number in range(40):
        shape = nx.star_graph(6) if number % 3 == 0 else nx.path_graph(7 + number % 2)
        types = [0] * len(shape)
        for place in range(1 + number % 4):
            types[(place * 2 + number) % len(shape)] = 2 if number % 5 < 3 else 1
        graphs.append(posted(shape, types))
    return graphs


@pytest.fixture(scope="module")
def api(deployed: Callable[..., Any]) -> Any:
    return deployed()


@pytest.fixture(scope="module")
def inputs(api: Any) -> Document:
    gnn = api.client.post(
        "/v1/gnns",
        data={"name": "oxygen", "spec": json.dumps(SPEC)},
        files={"weights": ("w", oxygen_counter())},
        headers={"Prefer": "respond-async"},
    )
    assert gnn.status_code == 202, gnn.text
    api.work()
    dataset = api.client.post("/v1/datasets", json={"name": "oxygen", "graphs": reference()})
    assert dataset.status_code == 201, dataset.text
    return {"gnn": gnn.json()["id"], "dataset": dataset.json()["id"]}


@pytest.fixture(scope="module")
def ask(api: Any, inputs: Document) -> Callable[..., Any]:
    def send(query: str = "", headers: Document | None = None, **body: Any) -> Any:
        asked = {"kind": "global", **inputs, "source_class": "harmless", "count": 2, "theta": 0.15}
        asked = {name: value for name, value in {**asked, **body}.items() if value is not None}
        return api.client.post(f"/v1/explanations{query}", json=asked, headers=headers)

    return send


@pytest.fixture(scope="module")
def explanation(api: Any, ask: Callable[..., Any]) -> Document:
    answer = ask(metadata={"team": "audit"}, seed=3)
    assert answer.status_code == 202, answer.text
    posted_job = answer.json()["job"]
    assert (posted_job["kind"], posted_job["waiting_for"]) == ("global", None)  # no training
    api.work()
    found: Document = api.client.get(answer.headers["location"]).json()
    assert found["state"] == "succeeded", found["job"]["error"]
    return found


@pytest.fixture(scope="module")
def result(explanation: Document) -> Document:
    found: Document = explanation["result"]
    return found


def network(document: Document) -> nx.Graph:
    graph = nx.Graph()
    for node in document["nodes"]:
        graph.add_node(node["id"], kind=node["x"].index(1.0))
    graph.add_edges_from((edge["source"], edge["target"]) for edge in document["edges"])
    return graph


def size(graph: nx.Graph) -> int:
    return len(graph) + graph.number_of_edges()


def oxygen_class(graph: nx.Graph) -> int:
    """What the GNN answers, counted without it."""
    oxygens = [node for node, kind in graph.nodes(data="kind") if kind == 2]
    return int(sum(1 + graph.degree(node) for node in oxygens) > 3.5)


def edited(graph: nx.Graph, path: Document) -> tuple[nx.Graph, int]:
    """The graph after the edits one by one, and their number."""
    graph, cost = graph.copy(), 0
    for change in path["changed_types"]:
        assert graph.nodes[change["node"]]["kind"] == change["before"] != change["after"]
        graph.nodes[change["node"]]["kind"] = change["after"]
        cost += 1
    for added in path["added_nodes"]:
        assert added["node"] not in graph
        graph.add_node(added["node"], kind=added["type"])
        cost += 1
    for edge in path["removed_edges"]:
        graph.remove_edge(*edge)  # raises if it is not there
        cost += 1
    for edge in path["added_edges"]:
        assert not graph.has_edge(*edge)
        graph.add_edge(*edge)
        cost += 1
    for node in path["removed_nodes"]:
        assert graph.degree(node) == 0
        graph.remove_node(node)
        cost += 1
    return graph, cost


def same_kind(one: Document, other: Document) -> bool:
    return bool(one["kind"] == other["kind"])


def test_the_counterfactuals_have_the_class_that_the_gnn_really_gives(result: Document) -> None:
    assert 1 <= len(result["counterfactuals"]) <= 2
    for one in result["counterfactuals"]:
        assert one["prediction"]["predicted_class"] == 1 == oxygen_class(network(one["graph"]))
        assert one["prediction"]["class_name"] == "harmful"


def test_each_path_edit_by_edit_leads_to_the_counterfactual(result: Document) -> None:
    graphs = [network(graph) for graph in reference()]
    replayed = 0
    for one in result["counterfactuals"]:
        goal = network(one["graph"])
        for covered in one["covered"]:
            start = graphs[covered["graph"]]
            assert oxygen_class(start) == 0  # only graphs that the GNN gives the class
            assert covered["distance"] == pytest.approx(
                covered["cost"] / (size(start) + size(goal)), rel=1e-6
            )
            assert covered["distance"] <= result["theta"]
            assert (covered["path"] is not None) == covered["nearest"]
            if covered["path"] is None:
                continue
            reached, cost = edited(start, covered["path"])
            assert cost == covered["cost"]
            names = {node: place for place, node in enumerate(covered["path"]["nodes"])}
            reached = nx.relabel_nodes(reached, names)
            assert set(map(frozenset, reached.edges)) == set(map(frozenset, goal.edges))
            assert dict(reached.nodes(data="kind")) == dict(goal.nodes(data="kind"))
            replayed += 1
    assert replayed == result["covered_count"] > 0


def test_no_path_is_shorter_than_the_edit_distance(result: Document) -> None:
    graphs = [network(graph) for graph in reference()]
    one = result["counterfactuals"][0]
    for covered in one["covered"][:4]:
        exact = nx.graph_edit_distance(
            graphs[covered["graph"]], network(one["graph"]), node_match=same_kind, timeout=10
        )
        assert exact <= covered["cost"]


def test_coverage_is_a_count_over_the_graphs_of_the_class(result: Document) -> None:
    of_class = [
        number for number, graph in enumerate(reference()) if oxygen_class(network(graph)) == 0
    ]
    assert (result["reference_count"], result["source_count"]) == (40, len(of_class))
    covered = {graph["graph"] for one in result["counterfactuals"] for graph in one["covered"]}
    assert covered <= set(of_class)
    assert result["covered_count"] == len(covered)
    assert result["coverage"] == pytest.approx(len(covered) / len(of_class), rel=1e-6)
    added = sum(one["added_share"] for one in result["counterfactuals"])
    assert added == pytest.approx(result["coverage"], rel=1e-5)
    seen: set[int] = set()
    for number, one in enumerate(result["counterfactuals"]):
        own = {graph["graph"] for graph in one["covered"]}
        assert one["covered_share"] == pytest.approx(len(own) / len(of_class), rel=1e-6)
        assert one["added_share"] == pytest.approx(len(own - seen) / len(of_class), rel=1e-6)
        seen |= own
        (curve,) = [one for one in result["curves"] if one["theta"] == 0.15]
        assert curve["coverage"][number] == pytest.approx(len(seen) / len(of_class), rel=1e-6)
    nearest = [
        graph["cost"]
        for one in result["counterfactuals"]
        for graph in one["covered"]
        if graph["nearest"]
    ]
    assert result["mean_cost"] == pytest.approx(sum(nearest) / len(nearest), rel=1e-6)
    assert curve["mean_cost"][-1] == pytest.approx(result["mean_cost"], rel=1e-6)


def test_rules_count_the_paths_that_contain_them(result: Document) -> None:
    paths = [
        graph["path"]
        for one in result["counterfactuals"]
        for graph in one["covered"]
        if graph["nearest"]
    ]
    retyped = [rule for rule in result["rules"] if rule["kind"] == "retype"]
    assert retyped
    for rule in retyped:
        before, after = rule["types"]
        having = [
            path
            for path in paths
            if any((c["before"], c["after"]) == (before, after) for c in path["changed_types"])
        ]
        assert rule["path_count"] == len(having)
    assert [row["name"] for row in result["node_types"]] == ["C", "N", "O"]


def test_the_resource_says_what_was_asked_and_nothing_was_trained(
    api: Any, explanation: Document, result: Document
) -> None:
    assert explanation["kind"] == "global"
    assert explanation["denoiser"] is None
    assert explanation["metadata"] == {"team": "audit"}
    assert explanation["summary"]["covered_count"] == result["covered_count"]
    assert result["receipt"]["config"]["theta"] == 0.15
    assert result["receipt"]["config"]["seeds"] == 6
    listed = api.client.get("/v1/explanations?kind=global").json()["items"]
    assert explanation["id"] in [item["id"] for item in listed]
    assert api.client.get("/v1/denoisers").json()["items"] == []
    receipt = api.client.get(f"/v1/explanations/{explanation['id']}/receipt")
    assert receipt.status_code == 200


def test_a_replay_finds_the_same(api: Any, explanation: Document) -> None:
    asked = api.client.post(f"/v1/explanations/{explanation['id']}/replay")
    assert asked.status_code == 202, asked.text
    api.work()
    report = api.client.get(f"/v1/replays/{asked.json()['id']}").json()["report"]
    assert (report["outcome"], report["differences"]) == ("match", [])
    assert report["compared_values"] > 100


def test_a_time_budget_cuts_the_search_and_replays_repeat_the_cut(
    api: Any, ask: Callable[..., Any]
) -> None:
    answer = ask(time_budget=0.001, count=5)
    api.work()
    found = api.client.get(answer.headers["location"]).json()
    assert found["result"]["receipt"]["cuts"] == [{"case": 0, "checks": 1}]
    assert found["result"]["counterfactuals"] == []
    assert found["result"]["coverage"] == 0
    assert (
        "the time budget ended the search after 0 of 5 counterfactuals"
        in (found["result"]["warnings"])
    )
    assert found["result"]["reason"] == "the search ended before it found a counterfactual"
    asked = api.client.post(f"/v1/explanations/{found['id']}/replay")
    api.work()
    replay = api.client.get(f"/v1/replays/{asked.json()['id']}").json()
    assert replay["report"]["outcome"] == "match"
    drawn = api.client.get(f"{answer.headers['location']}?format=svg")
    assert drawn.status_code == 409
    assert "There is no counterfactual" in drawn.json()["detail"]


def test_a_class_without_graphs_is_named_as_the_reason(
    api: Any, inputs: Document, ask: Callable[..., Any]
) -> None:
    harmful = [graph for graph in reference() if oxygen_class(network(graph)) == 1]
    made = api.client.post("/v1/datasets", json={"name": "harmful", "graphs": harmful})
    answer = ask(dataset=made.json()["id"])
    api.work()
    found = api.client.get(answer.headers["location"]).json()["result"]
    assert (found["source_count"], found["coverage"]) == (0, None)
    assert found["reason"] == "the GNN gives no graph class 0"
    assert (found["counterfactuals"], found["curves"]) == ([], [])


def test_formats_give_one_graph_and_the_picture_all(
    api: Any, explanation: Document, result: Document
) -> None:
    at = f"/v1/explanations/{explanation['id']}"
    together = api.client.get(f"{at}?format=svg")
    assert together.headers["content-type"].startswith("image/svg+xml")
    count = len(result["counterfactuals"])
    assert f"{result['coverage']:.1%} of the {result['source_count']} graphs" in together.text
    assert together.text.count("harmful (") == count
    assert all(f"{number + 1}. harmful" in together.text for number in range(count))
    first = api.client.get(f"{at}?format=svg&graph=0")
    assert "Global counterfactual" in first.text
    assert f"counterfactual 1 of {count}" in first.text
    cytoscape = api.client.get(f"{at}?format=cytoscape&graph={count - 1}").json()
    nodes = cytoscape["elements"]["nodes"]
    assert len(nodes) == len(result["counterfactuals"][-1]["graph"]["nodes"])
    pyg = api.client.get(f"{at}?format=pyg").json()
    assert len(pyg["x"]) == len(result["counterfactuals"][0]["graph"]["nodes"])
    assert api.client.get(f"{at}?format=graphml").status_code == 200
    assert api.client.get(f"{at}?format=grafana").status_code == 200
    beyond = api.client.get(f"{at}?format=svg&graph=9")
    assert beyond.status_code == 422
    assert "is 9, but the result has" in beyond.text
    factual = api.client.get(f"{at}?format=factual")
    assert "only counterfactual explanations have importances" in factual.text


def test_reports_say_the_same_figures_and_there_is_no_letter(
    api: Any, explanation: Document, result: Document
) -> None:
    at = f"/v1/explanations/{explanation['id']}"
    report = api.client.get(f"{at}/report")
    assert report.status_code == 200
    counts = f"{result['covered_count']} of the {result['source_count']} reference graphs"
    assert counts in report.text
    assert "<svg" in report.text
    assert api.client.get(f"/embed/explanations/{explanation['id']}").status_code == 200
    assert api.client.get(f"{at}/letter").status_code == 409


def test_what_needs_a_posted_graph_is_refused(api: Any, explanation: Document) -> None:
    at = f"/v1/explanations/{explanation['id']}"
    for answer in (
        api.client.post(f"{at}/what-if", json={"graph": 0, "toggles": []}),
        api.client.get(f"{at}/nearest"),
        api.client.get(f"{at}/trustyai"),
    ):
        assert 400 <= answer.status_code < 500, answer.text


@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        ({"source_class": None}, "/source_class", "is required"),
        ({"source_class": "mild"}, "/source_class", "the classes of"),
        ({"target_class": 2}, "/target_class", 'are 0 to 1 ("harmless", "harmful")'),
        ({"target_class": 0}, "/target_class", "counterfactuals have another class"),
        ({"count": 33}, "/count", "less than or equal to 32"),
        ({"count": 0}, "/count", "greater than or equal to 1"),
        ({"theta": 0.21}, "/theta", "less than or equal to 0.2"),
        ({"theta": 0.0}, "/theta", "greater than 0"),
        ({"preset": "slow"}, "/preset", "'fast', 'balanced' or 'thorough'"),
        ({"denoiser": {"steps": 5}}, "/denoiser", "is not a known field of the kind 'global'"),
        ({"graph": {}}, "/graph", "is not a known field of the kind 'global'"),
    ],
)
def test_invalid_requests_are_refused_and_write_nothing(
    api: Any, ask: Callable[..., Any], body: Document, pointer: str, message: str
) -> None:
    before = api.written()
    for query in ("", "?dry_run=true"):
        answer = ask(query, **body)
        assert answer.status_code == 422
        (fault,) = answer.json()["errors"]
        assert fault["pointer"] == pointer
        assert message in fault["detail"]
    assert api.written() == before


def test_measured_features_are_refused(api: Any, ask: Callable[..., Any]) -> None:
    graphs = [
        {
            "nodes": [{"id": n, "x": [n + 0.1 * g, 0.3, n / 7]} for n in range(4)],
            "edges": [{"source": n, "target": n + 1} for n in range(3)],
        }
        for g in range(5)
    ]
    spec = {name: value for name, value in SPEC.items() if name != "feature_schema"}
    gnn = api.client.post(
        "/v1/gnns",
        data={"name": "measured", "spec": json.dumps(spec)},
        files={"weights": ("w", oxygen_counter())},
        headers={"Prefer": "respond-async"},
    )
    api.work()
    made = api.client.post("/v1/datasets", json={"name": "measured", "graphs": graphs})
    answer = ask(gnn=gnn.json()["id"], dataset=made.json()["id"])
    assert answer.status_code == 422
    assert "are measurements; global counterfactuals change node types" in answer.text


def test_node_classifiers_and_black_boxes_are_refused(api: Any, ask: Callable[..., Any]) -> None:
    spec = {"features": 1, "classes": 2, "task": "node", "layers": [{"type": "gin", "out": 2}]}
    # A GIN of one hidden layer: its weights are those of the edge counter's first layer.
    weights = save(
        {
            "layers.0.conv.eps": torch.zeros(1),
            "layers.0.conv.nn.0.weight": torch.ones(2, 1),
            "layers.0.conv.nn.0.bias": torch.zeros(2),
            "layers.0.conv.nn.2.weight": torch.tensor([[1.0, 0.0], [0.0, 0.0]]),
            "layers.0.conv.nn.2.bias": torch.tensor([0.0, 3.5]),
        }
    )
    spec["layers"][0]["hidden"] = 2
    gnn = api.client.post(
        "/v1/gnns",
        data={"name": "nodes", "spec": json.dumps(spec)},
        files={"weights": ("w", weights)},
        headers={"Prefer": "respond-async"},
    )
    assert gnn.status_code == 202, gnn.text
    api.work()
    path = {"edge_index": [[0, 1, 2], [1, 2, 3]], "num_nodes": 4}
    made = api.client.post("/v1/datasets", json={"name": "paths", "graphs": [path, path]})
    answer = ask(gnn=gnn.json()["id"], dataset=made.json()["id"], source_class=0)
    assert answer.status_code == 422
    assert "classifies nodes; global counterfactuals need a GNN that classifies graphs" in (
        answer.text
    )


def test_a_dry_run_estimates_without_any_training(api: Any, ask: Callable[..., Any]) -> None:
    before = api.written()
    fast, thorough = (
        ask("?dry_run=true", preset=preset, count=10).json() for preset in ("fast", "thorough")
    )
    assert api.written() == before
    for estimate in (fast, thorough):
        assert estimate["cases"] == []
        assert not estimate["trains_denoiser"]
        assert not estimate["trains_witnesses"]
        assert not estimate["provisional"]
        assert estimate["total_seconds"] == estimate["seconds"] > 0
    assert fast["seconds"] < thorough["seconds"]
    assert ask("?dry_run=true", time_budget=0.5).json()["seconds"] == 0.5


def test_a_repeated_key_gives_the_same_explanation(ask: Callable[..., Any], api: Any) -> None:
    headers = {"Idempotency-Key": "global-once"}
    first = ask(headers=headers, preset="fast", count=1)
    second = ask(headers=headers, preset="fast", count=1)
    assert first.json()["id"] == second.json()["id"]
    api.work()
    assert api.client.delete(f"/v1/explanations/{first.json()['id']}").status_code == 204
    assert api.client.get(f"/v1/explanations/{first.json()['id']}").status_code == 404


def test_a_canceled_search_ends_without_an_answer(api: Any, ask: Callable[..., Any]) -> None:
    answer = ask(count=3)
    job = answer.json()["job"]["id"]
    assert api.client.post(f"/v1/jobs/{job}/cancel").status_code in (200, 202)
    api.work()
    found = api.client.get(answer.headers["location"]).json()
    assert (found["state"], found["result"]) == ("canceled", None)
    again = api.client.post(f"/v1/jobs/{job}/retry")
    assert again.status_code in (201, 202), again.text
    api.work()
    assert api.client.get(answer.headers["location"]).json()["state"] == "succeeded"
