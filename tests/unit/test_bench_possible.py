"""Every connected graph of a size: how many there are, and what sets of them can reach."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.possible import Possible, connected_graphs
from models.gnn.network import Gnn, predict
from models.gnn.spec import GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.graphs import Graph
from models.scores import is_connected
from tests.unit.test_class_choice import TREES

torch.set_num_threads(1)
CPU = torch.device("cpu")


@pytest.mark.parametrize(("nodes", "plain", "rooted"), [(3, 2, 3), (4, 6, 11), (5, 21, 58)])
def test_there_are_as_many_as_are_known(nodes: int, plain: int, rooted: int) -> None:
    """OEIS A001349 and A126100: connected graphs, and those with a root."""
    every = connected_graphs(torch.ones(1), nodes, marked=False)
    assert len(every) == plain
    assert all(map(is_connected, every))
    assert len(connected_graphs(torch.ones(1), nodes, marked=True)) == rooted


def test_no_graph_is_surer_than_the_best() -> None:
    layers = (GinLayer(4, 4), GinLayer(4, 4), PoolLayer("sum"), LinearLayer(2))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        gnn = Gnn(GnnSpec(1, 2, layers)).eval()
    possible = Possible.of(gnn, TREES, 1, 6)
    assert possible is not None
    best_tree = float(predict(gnn, TREES, CPU)[:, 1].max())
    assert possible.best >= best_tree - 1e-6
    assert possible.best_with(5) == pytest.approx(best_tree)
    assert possible.best_with(4.9) == 0.0  # nothing connected has so few edges
    assert possible.best_with(15) == pytest.approx(possible.best)
    assert Possible.of(gnn, TREES, 1, 8) is None
    coloured = [Graph(torch.arange(6.0).view(6, 1), TREES[0].edges)]
    assert Possible.of(gnn, coloured, 1, 6) is None


CASES = st.lists(st.tuples(st.floats(0, 1), st.integers(3, 8)), min_size=1, max_size=7)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(cases=CASES, allowed=st.floats(3, 9), wanted=st.floats(0.1, 1))
def test_bounds_hold_for_every_set(
    cases: list[tuple[float, int]], allowed: float, wanted: float
) -> None:
    confidence, edges = (torch.tensor(values) for values in zip(*cases, strict=True))
    possible = Possible(confidence.double(), edges)
    sets = [
        torch.tensor(places)
        for size in range(1, len(cases) + 1)
        for places in combinations(range(len(cases)), size)
    ]
    sparse = [some for some in sets if float(edges[some].double().mean()) <= allowed]
    best = max((float(possible.confidence[some].mean()) for some in sparse), default=0.0)
    assert possible.best_with(allowed) >= best - 1e-9
    sure = [len(some) for some in sets if float(possible.confidence[some].mean()) >= wanted + 1e-9]
    assert possible.count_with(wanted) >= max(sure, default=0)
    assert possible.count_with(wanted + 1e-9) <= max(
        (len(some) for some in sets if float(possible.confidence[some].mean()) >= wanted), default=0
    )
