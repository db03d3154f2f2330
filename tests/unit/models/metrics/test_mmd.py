"""MMD and its pieces against NetworkX, NumPy and SciPy."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from d4explain.gnn.graphs import Graph
from models.metrics.mmd import mmd, null_distribution, statistics

torch.set_num_threads(1)


def graph_of(network: nx.Graph) -> Graph:
    edges = sorted((min(a, b), max(a, b)) for a, b in network.edges)
    return Graph(
        torch.ones(network.number_of_nodes(), 1),
        torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T,
    )


def random_networks(seed: int, count: int) -> list[nx.Graph]:
    """From single nodes and empty graphs to nearly complete ones."""
    rng = np.random.default_rng(seed)
    return [
        nx.gnp_random_graph(int(rng.integers(1, 14)), float(rng.uniform()) ** 2, seed=seed + i)
        for i in range(count)
    ]


SPECIAL = [
    nx.empty_graph(1),
    nx.empty_graph(4),
    nx.complete_graph(6),
    nx.star_graph(5),  # bipartite: its largest eigenvalue is 2, the end of the last bin
    nx.disjoint_union(nx.cycle_graph(4), nx.empty_graph(2)),
    nx.wheel_graph(11),  # a hub with clustering 2/9, a rim with 2/3
    nx.lollipop_graph(5, 3),
]


def network_histograms(network: nx.Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By the published definitions: degree, clustering in 100 bins, spectrum in 200."""
    clustering, _ = np.histogram(
        list(nx.clustering(network).values()), bins=100, range=(0.0, 1.0), density=False
    )
    laplacian = nx.normalized_laplacian_matrix(network).toarray()
    # An eigenvalue of 2 that rounding puts outside the range must not get lost.
    eigenvalues = np.minimum(np.linalg.eigvalsh(laplacian), 2.0)
    spectrum, _ = np.histogram(eigenvalues, bins=200, range=(-1e-5, 2), density=False)
    parts = np.array(nx.degree_histogram(network)), clustering, spectrum
    return tuple(part / part.sum() for part in parts)  # type: ignore[return-value]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_histograms_equal_networkx(seed: int) -> None:
    networks = [*SPECIAL, *random_networks(seed, 12)]
    found = statistics([graph_of(network) for network in networks])
    for row, network in enumerate(networks):
        degree, clustering, spectrum = network_histograms(network)
        padded = np.pad(degree, (0, found.degree.shape[1] - len(degree)))
        np.testing.assert_allclose(found.degree[row].numpy(), padded, atol=1e-12)
        np.testing.assert_allclose(found.clustering[row].numpy(), clustering, atol=1e-12)
        np.testing.assert_allclose(found.spectrum[row].numpy(), spectrum, atol=1e-12)


def mmd_by_loops(a: list[nx.Graph], b: list[nx.Graph]) -> tuple[float, ...]:
    """Every pair by SciPy's Wasserstein distance, one after the other."""

    def kernel(x: np.ndarray, y: np.ndarray, bin_width: float, sigma: float) -> float:
        distance = bin_width * wasserstein_distance(range(len(x)), range(len(y)), x, y)
        return math.exp(-(distance**2) / (2 * sigma**2))

    def mean(first: list[np.ndarray], second: list[np.ndarray], *setting: float) -> float:
        return float(np.mean([kernel(x, y, *setting) for x in first for y in second]))

    parts_a = list(zip(*map(network_histograms, a), strict=True))
    parts_b = list(zip(*map(network_histograms, b), strict=True))
    settings_of = [(1.0, 1.0), (0.01, 0.1), (1.0, 1.0)]
    return tuple(
        mean(x, x, *setting) + mean(y, y, *setting) - 2 * mean(x, y, *setting)
        for x, y, setting in zip(parts_a, parts_b, settings_of, strict=True)
    )


def test_mmd_equals_pairwise_scipy() -> None:
    a = [*SPECIAL, *random_networks(1, 4)]
    b = random_networks(99, 9)
    score = mmd(statistics([graph_of(n) for n in a]), statistics([graph_of(n) for n in b]))
    degree, clustering, spectrum = mmd_by_loops(a, b)
    assert score.degree == pytest.approx(degree, abs=1e-12)
    assert score.clustering == pytest.approx(clustering, abs=1e-12)
    assert score.spectrum == pytest.approx(spectrum, abs=1e-12)
    assert score.sum == pytest.approx(degree + clustering + spectrum, abs=1e-12)
    assert score.sum > 0.05


def test_a_set_is_at_distance_zero_from_itself_and_distance_is_symmetric() -> None:
    a = statistics([graph_of(n) for n in random_networks(3, 10)])
    b = statistics([graph_of(n) for n in random_networks(500, 7)])
    same = mmd(a, a)
    assert [same.degree, same.clustering, same.spectrum] == pytest.approx([0, 0, 0], abs=1e-12)
    assert mmd(a, b).sum == pytest.approx(mmd(b, a).sum, abs=1e-12)


def test_mmd_ignores_the_order_of_graphs_and_nodes() -> None:
    networks = random_networks(7, 12)
    rng = np.random.default_rng(0)
    relabelled = [
        nx.relabel_nodes(n, dict(enumerate(rng.permutation(n.number_of_nodes()).tolist())))
        for n in reversed(networks)
    ]
    other = statistics([graph_of(n) for n in random_networks(900, 5)])
    first = mmd(statistics([graph_of(n) for n in networks]), other)
    second = mmd(statistics([graph_of(n) for n in relabelled]), other)
    assert first.sum == pytest.approx(second.sum, abs=1e-10)


def test_null_draws_are_the_distances_of_drawn_subsets_to_the_rest() -> None:
    shapes = [nx.path_graph(3), nx.cycle_graph(5), nx.complete_graph(4), nx.star_graph(5)]
    reference = statistics([graph_of(n) for n in [*shapes, nx.wheel_graph(7)]])
    possible = {
        drawn: mmd(
            reference.select(torch.tensor(drawn)),
            reference.select(torch.tensor([i for i in range(5) if i not in drawn])),
        ).sum
        for drawn in itertools.combinations(range(5), 2)
    }
    draws = null_distribution(reference, 2, 400, torch.Generator().manual_seed(0))
    values = torch.tensor(list(possible.values()), dtype=torch.float64)
    gaps = (draws[:, None] - values[None, :]).abs()
    assert gaps.min(dim=1).values.max() < 1e-12
    # Each of the ten subsets is drawn about 40 times.
    hits = torch.bincount(gaps.argmin(dim=1), minlength=10)
    assert hits.min() > 15
    assert hits.max() < 80


def test_null_distribution_comes_from_its_generator() -> None:
    reference = statistics([graph_of(n) for n in random_networks(11, 8)])
    seeded = [
        null_distribution(reference, 3, 20, torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    ]
    assert torch.equal(seeded[0], seeded[1])
    assert not torch.equal(seeded[0], seeded[2])


@pytest.mark.parametrize("n", [0, 8, 9])
def test_null_distribution_needs_graphs_on_both_sides(n: int) -> None:
    reference = statistics([graph_of(network) for network in random_networks(11, 8)])
    with pytest.raises(ValueError, match=f"of 8 graphs, .* got n = {n}"):
        null_distribution(reference, n, 5, torch.Generator())


def test_statistics_refuse_empty_sets_and_empty_graphs() -> None:
    with pytest.raises(ValueError, match="at least one graph"):
        statistics([])
    nothing = Graph(torch.ones(0, 1), torch.zeros(2, 0, dtype=torch.int64))
    with pytest.raises(ValueError, match="graph 1 has no nodes"):
        statistics([graph_of(nx.path_graph(2)), nothing])
