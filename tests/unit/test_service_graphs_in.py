from __future__ import annotations

import json

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.faults import InvalidRequestError, pointer
from service.graphs_in import FeatureSize, read_graph
from service.json_bodies import MalformedJsonError, parse_json, parse_model
from service.schemas import ExplanationIn
from store.settings import Settings

LIMITS = Settings()


def read(graph, features=None):
    return read_graph(graph, "/graph", LIMITS, features)


def canonical_edges(graph):
    position = {node: i for i, node in enumerate(graph.nodes)}
    return sorted({tuple(sorted((position[s], position[t]))) for s, t in graph.edges})


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("key", ["edges", "links"])
def test_what_networkx_writes_is_read(seed, key):
    graph = nx.gnp_random_graph(12, 0.3, seed=seed)
    graph = nx.relabel_nodes(graph, {i: f"n{i}" if i % 2 else i for i in graph})
    nx.set_node_attributes(graph, {node: [float(i), 1.0] for i, node in enumerate(graph)}, "x")
    nx.set_node_attributes(graph, "red", "colour")
    nx.set_edge_attributes(graph, 2.5, "weight")
    document = json.loads(json.dumps(nx.node_link_data(graph, edges=key)))
    found = read(document, FeatureSize(2, "the GNN"))
    assert found.node_ids == list(graph.nodes)
    assert found.edges == canonical_edges(graph)
    assert found.x == [[float(i), 1.0] for i in range(12)]


def test_directed_pairs_become_one_edge():
    graph = nx.DiGraph([("a", "b"), ("b", "a"), ("b", "c")])
    assert read(nx.node_link_data(graph, edges="edges")).edges == [(0, 1), (1, 2)]


def test_parallel_edges_are_refused():
    graph = nx.MultiGraph([("a", "b"), ("a", "b")])
    with pytest.raises(InvalidRequestError) as refused:
        read(nx.node_link_data(graph, edges="edges"))
    assert [fault.at for fault in refused.value.faults] == ["/graph/edges/1"]


def test_pyg_edges_may_be_listed_once_or_twice():
    once = {"x": [[1.0]] * 3, "edge_index": [[0, 2], [1, 1]]}
    both = {"x": [[1]] * 3, "edge_index": [[0, 1, 2, 1], [1, 0, 1, 2]], "edge_attr": [[0]] * 4}
    assert read(once) == read(both)
    assert read(once).edges == [(0, 1), (1, 2)]


def test_pyg_counts_nodes_as_pyg_does():
    assert read({"edge_index": [[0], [3]]}).node_ids == [0, 1, 2, 3]
    assert read({"edge_index": [[0], [3]], "num_nodes": 6}).x == [[1.0]] * 6
    assert read({"edge_index": [[], []], "num_nodes": 2}).edges == []


def test_labels_of_both_forms():
    assert read({"nodes": [{"id": 0}], "edges": [], "label": 3}).label == 3
    assert read({"edge_index": [[0], [1]], "y": 2}).label == 2
    assert read({"edge_index": [[0], [1]], "y": [2]}).label == 2
    assert read({"edge_index": [[0], [1]], "label": 1, "y": 2}).label == 1
    # the classes of nodes are no label of the graph
    assert read({"edge_index": [[0], [1]], "y": [2, 3]}).label is None


def test_ids_are_kept_as_they_are():
    names = [0, -5, "0x", "ñandú", "日本", "a b", "🦁", 2**53 - 1]
    graph = {"nodes": [{"id": name} for name in names], "edges": []}
    assert read(graph).node_ids == names


def test_pointers_escape_what_pointers_use():
    assert pointer("a/b", "~", 3) == "/a~1b/~0/3"
    assert pointer("\n" + "x" * 100) == "/\N{REPLACEMENT CHARACTER}" + "x" * 62 + "…"


def outcome(call):
    """What came of it, and the faults if it was refused; any other exception is a failure."""
    try:
        return call(), ()
    except InvalidRequestError as refused:
        return None, refused.faults


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["nodes", "edges", "links", "id", "x", "source", "target", "edge_index",
                 "num_nodes", "node_ids", "label", "y", "directed", "graph"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)  # fmt: skip


@given(JSON)
@settings(max_examples=300, deadline=None)
def test_any_document_is_a_graph_or_refused(document):
    found, faults = outcome(lambda: read(document))
    assert (found is None) == bool(faults)
    assert all(fault.at.startswith("/graph") for fault in faults)
    if found is not None:
        assert found.node_ids
        assert all(s < t < len(found.node_ids) for s, t in found.edges)


@given(
    st.binary(max_size=60) | st.text(alphabet='{}[]",:0123456789eE+-.\\udNaInfity ').map(str.encode)
)
@settings(max_examples=400, deadline=None)
def test_any_bytes_are_read_as_json_would_or_refused(body):
    try:
        found = parse_json(body)
    except (MalformedJsonError, InvalidRequestError):
        return
    assert found == json.loads(body)
    json.dumps(found, allow_nan=False).encode()


@given(JSON)
@settings(max_examples=150, deadline=None)
def test_any_document_is_a_question_or_refused(document):
    body = json.dumps(
        {"kind": "counterfactual", "gnn": "g", "dataset": "d", "constraints": document}
    )
    _, faults = outcome(lambda: parse_model(body.encode(), ExplanationIn))
    assert all(fault.at.startswith("/constraints") for fault in faults)
