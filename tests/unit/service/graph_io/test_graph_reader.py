from __future__ import annotations

import json

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.contracts.features.feature_schema import (
    EmbeddedColumn,
    WeightColumn,
    edge_column_rules,
)
from service.graph_io.features.expected_features import ExpectedEdgeAttributes, ExpectedFeatures
from service.graph_io.graph_reader import read_graph, read_graphs
from service.graph_io.unread_attributes import InputWarnings
from service.http.faults import InvalidRequestError, pointer
from service.http.json_bodies import MalformedJsonError, parse_json, parse_model
from service.schemas import ExplanationIn
from store.artifacts import graph_sets
from store.settings import Settings

LIMITS = Settings()


def read(graph, features=None):
    return read_graph(graph, "/graph", LIMITS, features)


def canonical_edges(graph):
    position = {node: i for i, node in enumerate(graph.nodes)}
    return sorted({tuple(sorted((position[s], position[t]))) for s, t in graph.edges})


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("key", ["edges", "links"])
def test_networkx_node_link_data_is_read(seed, key):
    graph = nx.gnp_random_graph(12, 0.3, seed=seed)
    graph = nx.relabel_nodes(graph, {i: f"n{i}" if i % 2 else i for i in graph})
    nx.set_node_attributes(graph, {node: [float(i), 1.0] for i, node in enumerate(graph)}, "x")
    nx.set_node_attributes(graph, "red", "colour")
    nx.set_edge_attributes(graph, 1.0, "weight")  # from_numpy_array writes it
    nx.set_edge_attributes(graph, "thin", "style")
    document = json.loads(json.dumps(nx.node_link_data(graph, edges=key)))
    warnings = InputWarnings()
    found = read_graph(document, "/graph", LIMITS, ExpectedFeatures(2, "the GNN"), warnings)
    assert warnings.texts == [
        'these attributes of nodes are not read and were left out: "colour"',
        'these attributes of edges are not read and were left out: "style"',
    ]
    assert found.node_ids == list(graph.nodes)
    assert found.edges == canonical_edges(graph)
    assert found.x == [[float(i), 1.0] for i in range(12)]


def test_both_directions_of_a_pair_are_one_edge():
    graph = nx.DiGraph([("a", "b"), ("b", "a"), ("b", "c")])
    document = {**nx.node_link_data(graph, edges="edges"), "directed": False}
    assert read(document).edges == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("graph", "pointer", "message"),
    [
        (nx.node_link_data(nx.DiGraph([("a", "b")]), edges="edges"), "/directed", "directed"),
        (nx.node_link_data(nx.DiGraph([("a", "b")]), edges="links"), "/directed", "directed"),
        ({"edge_index": [[0, 1, 1], [1, 0, 2]], "num_nodes": 3}, "/edge_index", "directed"),
        ({"x_dict": {"a": [[1.0]]}, "edge_index_dict": {}}, "/x_dict", "heterogeneous"),
        ({"edge_index": {"a to b": [[0], [0]]}, "num_nodes": 2}, "/edge_index", "heterogeneous"),
        ({"nodes": {"paper": [], "author": []}, "edges": []}, "/nodes", "heterogeneous"),
    ],
)
def test_directed_and_heterogeneous_graphs_are_rejected_with_what_is_supported(
    graph, pointer, message
):
    with pytest.raises(InvalidRequestError) as rejected:
        read(graph)
    (fault,) = rejected.value.faults
    assert fault.at == f"/graph{pointer}"
    assert f"{message} graphs are not supported" in fault.detail
    assert "undirected graphs with one kind of nodes" in fault.detail


def test_parallel_edges_are_rejected():
    graph = nx.MultiGraph([("a", "b"), ("a", "b")])
    with pytest.raises(InvalidRequestError) as rejected:
        read(nx.node_link_data(graph, edges="edges"))
    assert [fault.at for fault in rejected.value.faults] == ["/graph/edges/1"]


def test_pyg_edges_may_be_listed_once_or_twice():
    once = {"x": [[1.0]] * 3, "edge_index": [[0, 2], [1, 1]]}
    both = {"x": [[1]] * 3, "edge_index": [[0, 1, 2, 1], [1, 0, 1, 2]], "pos": [[0]] * 3}
    assert read(once) == read(both)
    assert read(once).edges == [(0, 1), (1, 2)]


def attributed(*rows, key="edges"):
    ends = [("a", "b"), ("b", "c"), ("c", "b")]
    edges = [
        {"source": s, "target": t, **({} if row is None else {"edge_attr": row})}
        for (s, t), row in zip(ends, rows, strict=False)
    ]
    return {"nodes": [{"id": node} for node in "abc"], key: edges}


TWO_PER_EDGE = ExpectedFeatures(1, "the GNN", edges=ExpectedEdgeAttributes(2, "the GNN takes"))
NONE_PER_EDGE = ExpectedFeatures(1, "the GNN", edges=ExpectedEdgeAttributes(0, "the GNN takes"))


def test_edge_attributes_are_read_in_both_forms():
    graph = attributed([1, 2], [3.5, 4], [3.5, 4])
    found = read(graph, TWO_PER_EDGE)
    assert found.edges == [(0, 1), (1, 2)]
    assert found.edge_attr == [[1.0, 2.0], [3.5, 4.0]]
    assert read(graph) == found
    pyg = {
        "edge_index": [[1, 0, 2, 1], [2, 1, 1, 0]],
        "edge_attr": [[3.5, 4], [1, 2], [3.5, 4], [1, 2]],
    }
    assert read(pyg, TWO_PER_EDGE).edge_attr == found.edge_attr
    assert read(attributed(None), NONE_PER_EDGE).edge_attr is None
    assert read({"edge_index": [[], []], "num_nodes": 1}, TWO_PER_EDGE).edge_attr == []


def test_edge_attributes_that_the_gnn_does_not_read_are_left_out_with_a_warning():
    pyg = {"edge_index": [[0, 1], [1, 0]], "edge_attr": [[1, 0], [1, 0]]}
    for graph in (attributed([1, 2], [3, 4], [3, 4]), pyg):
        warnings = InputWarnings()
        found = read_graph(graph, "/graph", LIMITS, NONE_PER_EDGE, warnings=warnings)
        assert found.edge_attr is None
        assert any("edge_attr" in text and "left out" in text for text in warnings.texts)


@pytest.mark.parametrize(
    ("graph", "features", "at", "detail"),
    [
        (attributed(None, None), TWO_PER_EDGE, "/edges/0/edge_attr", "takes 2 attributes per edge"),
        (attributed([1, 2], None), None, "/edges/1/edge_attr", "is missing, while other"),
        (attributed([1, 2], [1]), None, "/edges/1/edge_attr", "has 1 attributes; the first edge"),
        (attributed([1], key="links"), TWO_PER_EDGE, "/links/0/edge_attr", "the GNN takes 2"),
        (attributed([]), None, "/edges/0/edge_attr", "has 0 attributes; expected 1 to 64"),
        (attributed([0] * 65), None, "/edges/0/edge_attr", "has 65 attributes"),
        (
            attributed([1], [2], [3]),
            None,
            "/edges/2/edge_attr",
            "differs from edge 1, the same edge",
        ),
        (attributed([1e39]), None, "/edges/0/edge_attr/0", "less than or equal"),
        ({"edge_index": [[0], [1]], "edge_attr": [[1], [1]]}, None, "/edge_attr", "has 2 rows"),
        ({"edge_index": [[0], [1]], "edge_attr": [[1]]}, TWO_PER_EDGE, "/edge_attr/0", "takes 2"),
    ],
)
def test_edge_attributes_that_do_not_fit_are_rejected(graph, features, at, detail):
    with pytest.raises(InvalidRequestError) as rejected:
        read(graph, features)
    assert rejected.value.faults[0].at == f"/graph{at}"
    assert detail in rejected.value.faults[0].detail


def test_graphs_of_a_set_have_equally_many_edge_attributes():
    lone = {"nodes": [{"id": 0}], "edges": []}
    found = read_graphs([lone, attributed([1]), lone], "/graphs", LIMITS, None)
    assert [graph.edge_attr for graph in found] == [[], [[1.0]], []]
    assert graph_sets.unpack(graph_sets.pack(found)) == found
    assert graph_sets.describe(found).edge_features == 1
    for first, second, detail in (
        (attributed([1]), attributed([1, 2]), "has 2 attributes; the graph at /graphs/1 has 1"),
        (attributed(None), attributed([1]), "the graph at /graphs/1 has none"),
        (attributed([1]), attributed(None), "the graph at /graphs/1 has 1 attributes per edge"),
    ):
        with pytest.raises(InvalidRequestError) as rejected:
            read_graphs([lone, first, second], "/graphs", LIMITS, None)
        assert rejected.value.faults[0].at == "/graphs/2/edges/0/edge_attr"
        assert detail in rejected.value.faults[0].detail


def test_edge_attributes_are_part_of_the_hash():
    plain, one, other = (read(attributed(row)) for row in (None, [1], [2]))
    hashes = {graph_sets.canonical_graph_hash(graph) for graph in (plain, one, other)}
    assert len(hashes) == 3


def test_nodes_are_counted_as_in_pyg():
    assert read({"edge_index": [[0], [3]]}).node_ids == [0, 1, 2, 3]
    assert read({"edge_index": [[0], [3]], "num_nodes": 6}).x == [[1.0]] * 6
    assert read({"edge_index": [[], []], "num_nodes": 2}).edges == []


def test_labels_of_both_forms():
    assert read({"nodes": [{"id": 0}], "edges": [], "label": 3}).label == 3
    assert read({"edge_index": [[0], [1]], "y": 2}).label == 2
    assert read({"edge_index": [[0], [1]], "y": [2]}).label == 2
    assert read({"edge_index": [[0], [1]], "label": 1, "y": 2}).label == 1
    # labels of nodes are not a label of the graph
    assert read({"edge_index": [[0], [1]], "y": [2, 3]}).label is None


def test_ids_are_unchanged():
    names = [0, -5, "0x", "ñandú", "日本", "a b", "🦁", 2**53 - 1]
    graph = {"nodes": [{"id": name} for name in names], "edges": []}
    assert read(graph).node_ids == names


def test_pointers_are_escaped():
    assert pointer("a/b", "~", 3) == "/a~1b/~0/3"
    assert pointer("\n" + "x" * 100) == "/\N{REPLACEMENT CHARACTER}" + "x" * 62 + "…"


def outcome(call):
    """The result, or None and the faults if it was rejected."""
    try:
        return call(), ()
    except InvalidRequestError as rejected:
        return None, rejected.faults


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["nodes", "edges", "links", "id", "x", "source", "target", "edge_index",
                 "num_nodes", "node_ids", "label", "y", "directed", "graph", "edge_attr"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)  # fmt: skip


@given(JSON)
@settings(max_examples=300, deadline=None)
def test_any_document_is_read_or_rejected(document):
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
def test_any_bytes_are_parsed_as_json_does_or_rejected(body):
    try:
        found = parse_json(body)
    except (MalformedJsonError, InvalidRequestError):
        return
    assert found == json.loads(body)
    json.dumps(found, allow_nan=False).encode()


@given(JSON)
@settings(max_examples=150, deadline=None)
def test_any_constraints_are_read_or_rejected(document):
    body = json.dumps(
        {"kind": "counterfactual", "gnn": "g", "dataset": "d", "constraints": document}
    )
    _, faults = outcome(lambda: parse_model(body.encode(), ExplanationIn))
    assert all(fault.at.startswith("/constraints") for fault in faults)


PATH = {"x": [[1.0]] * 3, "edge_index": [[0, 1], [1, 2]]}


@pytest.mark.parametrize(
    ("changes", "pointer", "message"),
    [
        (
            {"edge_weight": [1, 2]},
            "/edge_weight",
            "has the weight 2, which is not read; a GNN with",
        ),
        ({"weights": [[0.5], [1]]}, "/weights", "which is not read"),
        ({"x": None, "feat": [[1.0]] * 3}, "/feat", "called `x`"),
        ({"x": None, "node_features": [[1.0]] * 3}, "/node_features", "called `x`"),
        ({"edge_features": [[1.0]] * 2}, "/edge_features", "called `edge_attr`"),
    ],
)
def test_what_must_have_been_meant_otherwise_is_refused(changes, pointer, message):
    graph = {name: value for name, value in {**PATH, **changes}.items() if value is not None}
    with pytest.raises(InvalidRequestError) as refused:
        read(graph)
    assert refused.value.faults[0].at == f"/graph{pointer}"
    assert message in refused.value.faults[0].detail


def test_what_changes_nothing_is_left_out_and_named():
    warnings = InputWarnings()
    graph = {**PATH, "edge_weight": [1, 1.0], "pos": [[0, 0]] * 3, "train_mask": [True] * 3}
    graph |= {"features": [[1.0]] * 3}  # beside `x`
    read_graph(graph, "/graph", LIMITS, None, warnings)
    assert warnings.texts == [
        'these attributes of graphs are not read and were left out: "pos", "train_mask", "features"'
    ]


def test_edge_attributes_hold_what_the_layers_of_the_gnn_read():
    layers = [
        {"type": "columns", "start": 1, "stop": 2, "inputs": ["edge_attr"], "name": "w"},
        {"type": "embedding", "count": 4, "out": 3, "inputs": ["edge_attr"]},
        {"type": "gcn", "out": 4, "inputs": ["x", "w"]},
    ]
    rules = edge_column_rules({"edge_features": 2, "layers": layers})
    assert rules == (EmbeddedColumn(0, 4), WeightColumn(1))
    features = ExpectedFeatures(1, "the GNN", edges=ExpectedEdgeAttributes(2, "it takes", rules))
    for row, message in ([4, 1], "whole numbers from 0 to 3"), ([3, -1], "must not be negative"):
        with pytest.raises(InvalidRequestError, match=message):
            read({**PATH, "edge_attr": [[3, 0.5], row]}, features)
    assert read({**PATH, "edge_attr": [[3, 0.5], [0, 0]]}, features).edge_attr


@pytest.mark.parametrize(
    ("graph", "at"),
    [
        ({"x": None, "features": [[2.0]], "edge_index": [[], []], "num_nodes": 1}, "/features"),
        ({"nodes": [{"id": 0, "x": None, "features": [2.0]}], "edges": []}, "/nodes/0/features"),
    ],
)
def test_empty_features_do_not_hide_features_of_another_name(graph, at):
    with pytest.raises(InvalidRequestError) as rejected:
        read(graph, ExpectedFeatures(1, "the GNN"))
    assert rejected.value.faults[0].at == f"/graph{at}"
    assert "called `x`" in rejected.value.faults[0].detail
