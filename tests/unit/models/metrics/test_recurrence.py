"""Patterns in graphs: as NetworkX finds them."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from networkx.algorithms.isomorphism import GraphMatcher, categorical_node_match

from d4explain.gnn.graphs import Graph
from models.metrics.recurrence import SubgraphIndex


def random_graph(seed: int, nodes: int, density: float, target: int | None = None) -> Graph:
    rng = torch.Generator().manual_seed(seed)
    edges = torch.triu(torch.rand(nodes, nodes, generator=rng) < density, diagonal=1).nonzero().T
    kinds = torch.randint(2, (nodes,), generator=rng)
    return Graph(torch.eye(2)[kinds], edges.contiguous(), target)


def network(graph: Graph, *, features: bool = True) -> nx.Graph:
    result = nx.Graph()
    for node, row in enumerate(graph.features.tolist()):
        result.add_node(node, kind=(tuple(row) if features else None, node == graph.target))
    result.add_edges_from(graph.edges.T.tolist())
    return result


def found_by_networkx(hosts: list[Graph], pattern: Graph, *, features: bool = True) -> int:
    match = categorical_node_match("kind", None)
    small = network(pattern, features=features)
    return sum(
        GraphMatcher(network(host, features=features), small, match).subgraph_is_monomorphic()
        for host in hosts
    )


@pytest.mark.parametrize("target", [None, 0])
def test_counts_are_those_of_networkx(target: int | None) -> None:
    hosts = [random_graph(seed, 9, 0.3, target) for seed in range(12)]
    counted = []
    for seed in range(30):
        pattern = random_graph(100 + seed, 3 + seed % 4, 0.5, target)  # some are disconnected
        counted.append(found_by_networkx(hosts, pattern))
        assert SubgraphIndex(hosts).containing(pattern) == counted[-1]
        assert SubgraphIndex(hosts).contain(pattern) == (counted[-1] > 0)
    assert 0 < sum(counted) < 12 * 30


def test_unique_feature_rows_are_ignored() -> None:
    rng = torch.Generator().manual_seed(0)
    hosts = [
        Graph(torch.rand(9, 2, generator=rng), random_graph(i, 9, 0.3).edges) for i in range(6)
    ]
    pattern = Graph(torch.rand(4, 2, generator=rng), random_graph(50, 4, 0.6).edges)
    expected = found_by_networkx(hosts, pattern, features=False)
    assert expected > 0
    assert SubgraphIndex(hosts).containing(pattern) == expected


def test_a_kind_of_node_that_no_graph_has_occurs_nowhere() -> None:
    hosts = SubgraphIndex([random_graph(seed, 9, 0.3) for seed in range(3)])
    strange = Graph(torch.full((1, 2), 5.0), torch.empty(2, 0, dtype=torch.int64))
    assert (hosts.containing(strange), hosts.contain(strange)) == (0, False)


def test_a_search_that_exceeds_its_effort_returns_none() -> None:
    hosts = SubgraphIndex([random_graph(seed, 9, 0.5) for seed in range(3)])
    assert hosts.containing(random_graph(9, 4, 0.5), effort=2) is None
