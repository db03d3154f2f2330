"""Graphs as the service reads them, and graphs of a reference set."""

from __future__ import annotations

import math

import pytest

from store.settings import Settings


def preview(api, graph, gnn=None):
    path = f"/v1/gnns/{gnn or api.gnn()}/graph-previews"
    return api.client.post(path, json={"graph": graph})


def test_a_preview_is_the_posted_graph_with_a_position_for_each_node(api):
    answer = preview(api, {"edge_index": [[0, 1, 2], [1, 2, 0]], "x": [[1.0]] * 3})
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert [node["id"] for node in document["graph"]["nodes"]] == [0, 1, 2]
    ends = {(edge["source"], edge["target"]) for edge in document["graph"]["edges"]}
    assert ends == {(0, 1), (1, 2), (0, 2)}
    first, second, third = document["positions"]
    sides = [math.dist(first, second), math.dist(second, third), math.dist(third, first)]
    assert sides == pytest.approx([1.0] * 3, abs=0.05)  # a triangle with equal sides


def test_a_preview_names_the_types_of_nodes_and_what_was_left_out(api):
    nodes = [{"id": "a", "x": [1, 0]}, {"id": "b", "x": [0, 1], "colour": "red"}]
    document = preview(api, {"nodes": nodes, "edges": []}, api.gnn(features=2)).json()
    assert [entry["count"] for entry in document["types"]] == [1, 1]
    assert document["node_types"] == [0, 1]
    assert "colour" in document["warnings"][0]


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ({"nodes": [{"id": 0, "x": [1, 2]}], "edges": []}, "features"),
        ({"nodes": [{"id": 0}], "edges": [{"source": 0, "target": 9}]}, "9"),
        ({"directed": True, "nodes": [{"id": 0}], "edges": []}, "directed"),
        ([], "object"),
    ],
)
def test_a_bad_graph_is_refused_with_a_pointer(api, graph, said):
    answer = preview(api, graph)
    assert answer.status_code == 422
    places = answer.json()["errors"]
    assert all(place["pointer"].startswith("/graph") for place in places)
    assert said in answer.text


def test_a_preview_needs_a_known_gnn(api):
    assert preview(api, api.graph(), "gnn_" + "0" * 20).status_code == 404


def test_a_graph_above_the_drawn_size_is_refused(deployed):
    api = deployed(exact_nodes=5)
    answer = preview(api, {"edge_index": [[0], [1]], "num_nodes": 6, "x": [[1.0]] * 6})
    assert answer.status_code == 422
    assert "6 nodes; previews have at most 5" in answer.text
    assert Settings().exact_nodes == 512


def graphs_of(api, dataset, **query):
    return api.client.get(f"/v1/datasets/{dataset}/graphs", params=query)


def test_graphs_of_a_set_come_in_order_and_can_be_posted_again(api):
    posted = [
        {
            "nodes": [{"id": f"n{node}", "x": [float(node)]} for node in range(size)],
            "edges": [{"source": "n0", "target": f"n{size - 1}"}],
            "label": size % 2,
        }
        for size in (2, 3, 4)
    ]
    dataset = api.client.post("/v1/datasets", json={"name": "sizes", "graphs": posted}).json()["id"]
    document = graphs_of(api, dataset, offset=1, limit=5).json()
    assert document["graph_count"] == 3
    assert [graph["position"] for graph in document["graphs"]] == [1, 2]
    assert [graph["label"] for graph in document["graphs"]] == [1, 0]
    for sent, read in zip(posted[1:], document["graphs"], strict=True):
        assert read["graph"] == {"nodes": sent["nodes"], "edges": sent["edges"]}
        assert preview(api, read["graph"]).status_code == 200
    assert graphs_of(api, dataset, offset=9).json()["graphs"] == []


@pytest.mark.parametrize("query", [{"offset": -1}, {"limit": 51}, {"limit": 0}, {"page": 2}])
def test_bad_pages_of_graphs_are_refused(api, query):
    assert graphs_of(api, api.dataset(), **query).status_code == 422


def test_graphs_of_an_unknown_set_are_not_found(api):
    assert graphs_of(api, "set_" + "0" * 20).status_code == 404
