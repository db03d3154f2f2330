from __future__ import annotations

import torch

from d4explain.gnn.graphs import Graph
from models.metrics.mmd import statistics
from worker.reporting.reference_distances import distance_to_reference

torch.set_num_threads(1)


def random_graph(nodes: int, density: float, seed: int) -> Graph:
    drawn = torch.rand(nodes, nodes, generator=torch.Generator().manual_seed(seed)) < density
    edges = torch.triu(drawn, diagonal=1).nonzero().T.contiguous()
    return Graph(torch.ones(nodes, 1), edges)


REFERENCE = statistics([random_graph(10, 0.3, seed) for seed in range(60)])


def test_graphs_of_the_same_kind_lie_within_the_null() -> None:
    alike = [random_graph(10, 0.3, seed) for seed in range(1000, 1010)]
    distance = distance_to_reference(alike, REFERENCE, seed=0)
    assert distance.mmd is not None
    assert distance.mmd.p_value > 0.05
    assert (distance.mmd.graph_count, distance.mmd.reference_count) == (10, 60)
    quantiles = list(distance.mmd.null_quantiles.values())
    assert quantiles == sorted(quantiles)


def test_other_graphs_lie_outside_the_null() -> None:
    denser = [random_graph(10, 0.8, seed) for seed in range(10)]
    distance = distance_to_reference(denser, REFERENCE, seed=0)
    assert distance.mmd is not None
    assert distance.mmd.p_value == 0
    assert distance.mmd.sum > distance.mmd.null_quantiles["0.95"]


def test_the_null_depends_only_on_the_seed() -> None:
    graphs = [random_graph(10, 0.3, 99)]
    first = distance_to_reference(graphs, REFERENCE, seed=5)
    assert first == distance_to_reference(graphs, REFERENCE, seed=5)
    assert first != distance_to_reference(graphs, REFERENCE, seed=6)


def test_graphs_beyond_half_the_reference_are_sampled() -> None:
    graphs = [random_graph(10, 0.3, seed) for seed in range(50)]
    distance = distance_to_reference(graphs, REFERENCE, seed=0)
    assert distance.mmd is not None
    assert distance.mmd.graph_count == 30
    assert "30 of the 50" in distance.warnings[0]


def test_a_reference_of_one_graph_gives_no_distance() -> None:
    lonely = statistics([random_graph(10, 0.3, 0)])
    distance = distance_to_reference([random_graph(10, 0.3, 1)], lonely, seed=0)
    assert distance.mmd is None
    assert distance.warnings


def test_few_graphs_and_unusual_sets_carry_a_warning() -> None:
    alike = [random_graph(10, 0.3, seed) for seed in range(1000, 1010)]
    assert distance_to_reference(alike, REFERENCE, seed=0).warnings == ()
    (few,) = distance_to_reference(alike[:9], REFERENCE, seed=0).warnings
    assert few.startswith("MMD compares 9 graphs; below 10")
    denser = [random_graph(10, 0.8, seed) for seed in range(10)]
    (unusual,) = distance_to_reference(denser, REFERENCE, seed=0).warnings
    assert "differ from the reference set (p < 0.005)" in unusual
