from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.contracts.requests import CanonicalGraph
from store.artifacts.graph_sets import (
    arrays,
    canonical_graph_hash,
    canonical_set_hash,
    describe,
    pack,
    unpack,
)

FEATURES = 2
node_id = st.integers(-(2**40), 2**40) | st.text(min_size=1, max_size=8)
number = st.floats(-1e6, 1e6, width=32)


@st.composite
def graph(draw: st.DrawFn) -> CanonicalGraph:
    # Distinct also as text: 1 and "1" are both fine, but not in one graph.
    node_ids = draw(st.lists(node_id, min_size=1, max_size=6, unique_by=str))
    size = len(node_ids)
    pairs = [(i, j) for i in range(size) for j in range(i + 1, size)]
    edges = sorted(draw(st.sets(st.sampled_from(pairs)))) if pairs else []
    x = draw(
        st.lists(
            st.lists(number, min_size=FEATURES, max_size=FEATURES), min_size=size, max_size=size
        )
    )
    label = draw(st.none() | st.integers(0, 5))
    return CanonicalGraph(node_ids=node_ids, x=x, edges=edges, label=label)


graph_set = st.lists(graph(), min_size=1, max_size=5)


@settings(max_examples=30, deadline=None)
@given(graph_set)
def test_unpacked_graphs_equal_the_packed_ones(graphs: list[CanonicalGraph]) -> None:
    back = unpack(pack(graphs))
    assert back == graphs
    kinds = [[type(id_) for id_ in each.node_ids] for each in back]
    assert kinds == [[type(id_) for id_ in each.node_ids] for each in graphs]
    assert pack(back) == pack(graphs)


@settings(max_examples=30, deadline=None)
@given(graph_set)
def test_arrays_contain_each_graph_at_its_offsets(graphs: list[CanonicalGraph]) -> None:
    packed = arrays(pack(graphs))
    assert packed.count == len(graphs)
    for i, each in enumerate(graphs):
        x = packed.x[packed.node_ptr[i] : packed.node_ptr[i + 1]]
        edges = packed.edges[packed.edge_ptr[i] : packed.edge_ptr[i + 1]]
        assert x.dtype == np.float32
        assert x.tolist() == each.x
        assert [tuple(edge) for edge in edges.tolist()] == each.edges
        assert packed.labels[i] == (-1 if each.label is None else each.label)


@settings(max_examples=30, deadline=None)
@given(graph_set)
def test_the_hash_does_not_depend_on_node_ids(graphs: list[CanonicalGraph]) -> None:
    renamed = [
        each.model_copy(update={"node_ids": [f"n{i}" for i in range(len(each.node_ids))]})
        for each in graphs
    ]
    assert canonical_set_hash(renamed) == canonical_set_hash(graphs)
    assert [*map(canonical_graph_hash, renamed)] == [*map(canonical_graph_hash, graphs)]


def small(**changes: object) -> CanonicalGraph:
    graph = CanonicalGraph(node_ids=[0, 1, 2], x=[[0.0], [1.0], [2.0]], edges=[(0, 1)], label=1)
    return graph.model_copy(update=changes)


def test_the_hash_depends_on_features_edges_labels_and_order() -> None:
    different = [
        small(),
        small(edges=[(0, 2)]),
        small(edges=[(0, 1), (0, 2)]),
        small(x=[[0.0], [1.0], [2.5]]),
        small(node_ids=[0, 1], x=[[0.0], [1.0]]),
        small(node_ids=[0], x=[[0.0, 1.0, 2.0]], edges=[]),
    ]
    assert len(set(map(canonical_graph_hash, different))) == len(different)
    sets = [[small()], [small(label=2)], [small(label=None)], [small(), small()], []]
    assert len(set(map(canonical_set_hash, sets))) == len(sets)
    ab, ba = [small(), small(edges=[])], [small(edges=[]), small()]
    assert canonical_set_hash(ab) != canonical_set_hash(ba)


def test_minus_zero_hashes_like_zero() -> None:
    assert canonical_graph_hash(small(x=[[-0.0], [1.0], [2.0]])) == canonical_graph_hash(small())


def test_a_set_is_described_by_its_counts_and_means() -> None:
    one = CanonicalGraph(node_ids=["a"], x=[[1.0]], edges=[], label=None)
    figures = describe([small(), small(label=0), one])
    assert figures.graph_count == 3
    assert figures.features == 1
    assert figures.label_counts == {"0": 1, "1": 1}
    assert figures.max_nodes == 3
    assert figures.mean_nodes == 7 / 3
    assert figures.mean_edges == 2 / 3
