"""Induced subgraph matching against NetworkX."""

from __future__ import annotations

import networkx as nx
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.algorithms.isomorphism import GraphMatcher

from d4explain.gnn.graphs import Graph
from models.classes.joining import joined, without_edges
from models.graphs.subgraph_matching import Pattern, TypedGraph, node_set, nodes_in
from tests.unit.models.small_gnns import graph_of, random_graph

torch.set_num_threads(1)


def labelled(graph: Graph) -> nx.Graph:
    network = nx.Graph()
    kinds = graph.features.argmax(dim=1).tolist()
    network.add_nodes_from(
        (node, {"label": (kind, node == graph.target)}) for node, kind in enumerate(kinds)
    )
    network.add_edges_from(graph.edges.T.tolist())
    return network


def occurrence(pattern: Graph, graph: Graph) -> list[int] | None:
    own = [one.features.argmax(dim=1).tolist() for one in (pattern, graph)]
    return Pattern.of(pattern, own[0]).occurrence(TypedGraph.of(graph, own[1]))


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 10_000),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 9)),
    density=st.sampled_from([0.2, 0.4, 0.7]),
    marked=st.booleans(),
)
def test_occurrences_are_those_of_networkx(
    seed: int, sizes: tuple[int, int], density: float, marked: bool
) -> None:
    target = 0 if marked else None
    pattern = random_graph(seed, sizes[0], density, target=target)
    graph = random_graph(seed + 1, sizes[1], density, target=target)
    matcher = GraphMatcher(
        labelled(graph), labelled(pattern), node_match=lambda a, b: a["label"] == b["label"]
    )
    found = occurrence(pattern, graph)
    assert (found is not None) == matcher.subgraph_is_isomorphic()
    if found is not None:
        assert len(set(found)) == len(found)
        inside = labelled(graph).subgraph(found)
        mapped = {frozenset(found[end] for end in edge) for edge in pattern.edges.T.tolist()}
        assert {frozenset(edge) for edge in inside.edges} == mapped
        kinds = graph.features.argmax(dim=1)[found]
        assert torch.equal(kinds, pattern.features.argmax(dim=1))


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000), nodes=st.integers(1, 9))
def test_disjoint_occurrences_of_an_edge_are_a_maximal_matching(seed: int, nodes: int) -> None:
    """A maximal matching has at least half as many edges as the largest one."""
    graph = random_graph(seed, nodes, 0.4)
    edge = Pattern.of(graph_of(2, [(0, 1)]), [0, 0])
    count = edge.disjoint_occurrences(TypedGraph.of(graph, [0] * nodes))
    largest = len(nx.max_weight_matching(labelled(graph), maxcardinality=True))
    assert largest / 2 <= count <= largest


def test_disjoint_occurrences_have_no_node_in_common() -> None:
    """Three triangles, each with an edge to node 0."""
    arms = [(0, 3 * arm + 1) for arm in range(3)]
    sides = [(3 * arm + a, 3 * arm + b) for arm in range(3) for a, b in ((1, 2), (2, 3), (1, 3))]
    host = TypedGraph.of(graph_of(10, [*arms, *sides]), [0] * 10)
    triangle = graph_of(3, [(0, 1), (1, 2), (0, 2)])
    with_hub = graph_of(4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    counts = [
        Pattern.of(one, [0] * one.node_count).disjoint_occurrences(host)
        for one in (triangle, with_hub, graph_of(4, [(0, 1), (1, 2), (2, 3), (0, 3)]))
    ]
    assert counts == [3, 1, 0]  # node 0 is in one occurrence only; there is no square


def test_a_graph_without_an_edge_is_searched_as_such() -> None:
    square = graph_of(4, [(0, 1), (1, 2), (2, 3), (0, 3)], [0, 0, 0, 0])
    types = [0] * 4
    pattern = Pattern.of(square, types)
    graph = TypedGraph.of(square, types)
    assert pattern.occurrence(graph) is not None
    assert pattern.occurrence(graph.without_edge(2, 1)) is None


@given(st.sets(st.integers(0, 200)))
def test_node_sets_hold_their_nodes(nodes: set[int]) -> None:
    assert nodes_in(node_set(sorted(nodes))) == sorted(nodes)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), marked=st.booleans())
def test_joined_graphs_are_a_union_with_one_edge(seed: int, marked: bool) -> None:
    target = 1 if marked else None
    graph, part = (random_graph(seed + n, 4 + n, target=target) for n in range(2))
    both = joined(graph, part, (2, 3))
    expected = nx.disjoint_union(labelled(graph), labelled(part))
    expected.add_edge(2, 4 + 3)
    assert set(labelled(both).edges) == set(expected.edges)
    assert torch.equal(both.features, torch.cat([graph.features, part.features]))
    assert both.target == (4 + 1 if marked else None)


def test_edges_are_removed_in_either_direction() -> None:
    square = graph_of(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    left = without_edges(square, [(3, 2), (0, 1)])
    assert left.edges.T.tolist() == [[0, 3], [1, 2]]
