"""Enumeration of connected graphs, and the bounds derived from it."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.classes.enumeration import EnumeratedGraphs, connected_graphs, labelled_connected_graphs
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.metrics.scores import is_connected
from tests.unit.models.classes.test_selection import TREES

torch.set_num_threads(1)
CPU = torch.device("cpu")


@pytest.mark.parametrize(("nodes", "plain", "rooted"), [(3, 2, 3), (4, 6, 11), (5, 21, 58)])
def test_number_of_connected_graphs(nodes: int, plain: int, rooted: int) -> None:
    """OEIS A001349 and A126100: connected graphs, and those with a root."""
    graphs = connected_graphs(torch.ones(1), nodes, marked=False)
    assert len(graphs) == plain
    assert all(map(is_connected, graphs))
    assert len(connected_graphs(torch.ones(1), nodes, marked=True)) == rooted


def test_no_graph_exceeds_the_best_confidence() -> None:
    layers = (GinLayer(4, 4), GinLayer(4, 4), PoolLayer("sum"), LinearLayer(2))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        gnn = Gnn(GnnSpec(1, 2, layers)).eval()
    possible = EnumeratedGraphs.of(gnn, TREES, 1, 6)
    assert possible is not None
    best_tree = float(predict(gnn, TREES, CPU)[:, 1].max())
    assert possible.best >= best_tree - 1e-6
    assert possible.best_with(5) == pytest.approx(best_tree)
    assert possible.best_with(4.9) == 0.0  # no connected graph has so few edges
    assert possible.best_with(15) == pytest.approx(possible.best)
    assert EnumeratedGraphs.of(gnn, TREES, 1, 8) is None


@pytest.mark.parametrize(("nodes", "count"), [(2, 1), (3, 4), (4, 38), (5, 728), (6, 26704)])
def test_number_of_labelled_connected_graphs(nodes: int, count: int) -> None:
    """OEIS A001187: connected labelled graphs."""
    adjacency = labelled_connected_graphs(nodes)
    assert len(adjacency) == count
    assert len(torch.unique(adjacency.flatten(1), dim=0)) == count
    assert bool((adjacency == adjacency.mT).all())


def test_no_graph_with_features_exceeds_the_best_confidence() -> None:
    layers = (GinLayer(4, 4), PoolLayer("sum"), LinearLayer(2))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        gnn = Gnn(GnnSpec(1, 2, layers)).eval()
    path = torch.tensor([[0, 1, 2], [1, 2, 3]])
    reference = [Graph(torch.arange(4.0).view(4, 1), path)]
    possible = EnumeratedGraphs.of(gnn, reference, 1, 4)
    assert possible is not None
    assert possible.parts is not None
    graphs = [
        Graph(reference[0].features, torch.tensor(edges).view(-1, 2).T.contiguous())
        for size in range(3, 7)
        for edges in combinations(combinations(range(4), 2), size)
    ]
    connected = [graph for graph in graphs if is_connected(graph)]
    assert possible.best == pytest.approx(float(predict(gnn, connected, CPU)[:, 1].max()))
    trees = [graph for graph in connected if graph.edge_count == 3]
    assert possible.best_with(3) == pytest.approx(float(predict(gnn, trees, CPU)[:, 1].max()))
    large = [Graph(torch.arange(8.0).view(8, 1), path)]
    assert EnumeratedGraphs.of(gnn, large, 1, 8) is None


CASES = st.lists(st.tuples(st.floats(0, 1), st.integers(3, 8)), min_size=1, max_size=7)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(cases=CASES, allowed=st.floats(3, 9), wanted=st.floats(0.1, 1))
def test_bounds_hold_for_every_multiset(
    cases: list[tuple[float, int]], allowed: float, wanted: float
) -> None:
    confidence, edges = (torch.tensor(values) for values in zip(*cases, strict=True))
    possible = EnumeratedGraphs(confidence.double(), edges)
    subsets = [
        torch.tensor(positions)
        for size in range(1, len(cases) + 1)
        for positions in combinations(range(len(cases)), size)
    ]

    def mean_confidence(subset: torch.Tensor) -> float:
        return float(possible.confidence[subset].mean())

    def largest(threshold: float) -> int:
        return max((len(s) for s in subsets if mean_confidence(s) >= threshold), default=0)

    sparse = [subset for subset in subsets if float(edges[subset].double().mean()) <= allowed]
    best = max(map(mean_confidence, sparse), default=0.0)
    assert possible.best_with(allowed) >= best - 1e-9
    assert possible.count_with(wanted) >= largest(wanted + 1e-9)
    assert possible.count_with(wanted + 1e-9) <= largest(wanted)
