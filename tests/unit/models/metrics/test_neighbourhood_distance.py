"""The distance of node neighbourhoods against NetworkX's Weisfeiler-Lehman hashes."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from d4explain.gnn.graphs import Graph
from models.metrics.neighbourhood_distance import (
    HOPS,
    MAX_TYPES,
    count_neighbourhoods,
    distances,
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes = draw(st.integers(1, 7))
    pairs = [(i, j) for i in range(nodes) for j in range(i + 1, nodes)]
    edges = [pair for pair in pairs if draw(st.booleans())]
    types = [draw(st.integers(0, 2)) for _ in range(nodes)]
    return Graph(
        torch.eye(3)[types], torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    )


def hashes(graph: Graph) -> Counter[str]:
    """Counted hashes of 0 to `HOPS` hops; the first have the type alone."""
    described = nx.Graph()
    for node, row in enumerate(graph.features.tolist()):
        described.add_node(node, kind=str(row))
    described.add_edges_from(graph.edges.T.tolist())
    found = nx.weisfeiler_lehman_subgraph_hashes(described, node_attr="kind", iterations=HOPS)
    deeper = (f"{hop} {code}" for codes in found.values() for hop, code in enumerate(codes))
    return Counter([f"type {described.nodes[node]['kind']}" for node in described]) + Counter(
        deeper
    )


def expected(one: Graph, other: Graph) -> float:
    mine, theirs = hashes(one), hashes(other)
    return 1 - (mine & theirs).total() / (mine | theirs).total()


@given(graphs(), st.lists(graphs(), min_size=1, max_size=4))
def test_it_is_the_ruzicka_distance_of_the_hashes(one: Graph, others: list[Graph]) -> None:
    away = distances(count_neighbourhoods([one], True), count_neighbourhoods(others, True))
    assert away == pytest.approx([expected(one, other) for other in others])


@given(graphs(), st.randoms())
def test_the_order_of_nodes_does_not_matter(graph: Graph, random: np.random.Generator) -> None:
    order = list(range(graph.node_count))
    random.shuffle(order)
    place = torch.tensor(order)
    renamed = Graph(graph.features[torch.argsort(place)], place[graph.edges].sort(dim=0).values)
    counted = count_neighbourhoods([graph], True)
    assert distances(counted, count_neighbourhoods([renamed], True))[0] == 0


def test_too_many_different_features_are_not_compared() -> None:
    edge = torch.tensor([[0], [1]])
    many = [Graph(torch.tensor([[float(i)], [i + 0.5]]), edge) for i in range(MAX_TYPES // 2 + 1)]
    counted = count_neighbourhoods(many)
    assert not counted.compares_features
    assert distances(count_neighbourhoods(many[:1], False), counted).max() == 0
    assert count_neighbourhoods(many[:-1]).compares_features


def test_an_explained_node_differs_from_the_others() -> None:
    path = torch.tensor([[0, 1], [1, 2]])
    ones = torch.ones(3, 1)
    end, middle = (count_neighbourhoods([Graph(ones, path, target=node)]) for node in (0, 1))
    assert distances(end, middle)[0] > 0
    assert distances(end, count_neighbourhoods([Graph(ones, path, target=2)]))[0] == 0
