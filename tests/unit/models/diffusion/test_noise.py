"""The forward process against its closed form."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from models.diffusion.noise import (
    NoiseLevel,
    add_noise,
    density_noise,
    uniform_noise,
)

torch.set_num_threads(1)

# With 6 standard deviations a true frequency fails once in 5e8 comparisons.
DEVIATIONS = 6


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def house_and_path() -> DenseGraphs:
    """Five and three nodes: the second graph has padding."""
    house = torch.tensor([[0, 0, 1, 2, 3, 0], [1, 3, 2, 3, 4, 4]])
    path = torch.tensor([[0, 1], [1, 2]])
    return to_dense([Graph(torch.ones(5, 1), house), Graph(torch.ones(3, 1), path)])


def per_graph(*values: float) -> Tensor:
    return torch.tensor(values)


def assert_frequency(count: Tensor, draws: int, probability: Tensor) -> None:
    deviation = (probability * (1 - probability) / draws).sqrt()
    assert ((count / draws - probability).abs() <= DEVIATIONS * deviation + 1e-9).all()


def test_each_pair_changes_as_often_as_the_closed_form_says() -> None:
    graphs = house_and_path()
    draws = 20_000
    noise = NoiseLevel(add=per_graph(0.05, 0.3), remove=per_graph(0.2, 0.45))
    repeated = graphs.repeat(draws)
    level = NoiseLevel(noise.add.repeat_interleave(draws), noise.remove.repeat_interleave(draws))
    noisy = add_noise(repeated, level, rng())
    changed = (noisy.adjacency != repeated.adjacency).view(2, draws, 5, 5).sum(1)
    expected = torch.where(
        graphs.adjacency > 0.5, noise.remove[:, None, None], noise.add[:, None, None]
    )
    assert_frequency(changed, draws, expected * graphs.pair_mask)


def test_pairs_change_independently_of_each_other() -> None:
    graphs = house_and_path().select(torch.tensor([0]))
    draws, flip = 40_000, 0.3
    repeated = graphs.repeat(draws)
    noisy = add_noise(repeated, NoiseLevel.symmetric(torch.full((draws,), flip)), rng())
    upper = torch.triu(graphs.pair_mask[0], diagonal=1)
    changed = (noisy.adjacency != repeated.adjacency)[:, upper].double()  # [draw, pair]
    covariance = torch.cov(changed.T)
    independent = torch.eye(10, dtype=torch.float64) * flip * (1 - flip)
    assert (covariance - independent).abs().max() < DEVIATIONS * 0.25 / math.sqrt(draws)


@given(
    nodes=st.integers(1, 7),
    padding=st.integers(0, 3),
    add=st.floats(0, 1),
    remove=st.floats(0, 1),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=60, deadline=None)
def test_noisy_graphs_stay_graphs(
    nodes: int, padding: int, add: float, remove: float, seed: int
) -> None:
    upper = torch.triu(torch.rand(nodes, nodes, generator=rng(seed)) < 0.5, diagonal=1)
    graph = Graph(torch.ones(nodes, 1), upper.nonzero().T)
    clean = to_dense([graph, graph], nodes=nodes + padding)
    noisy = add_noise(clean, NoiseLevel(per_graph(add, add), per_graph(remove, remove)), rng(seed))
    assert torch.equal(noisy.adjacency, noisy.adjacency.mT)
    assert ((noisy.adjacency == 0) | (noisy.adjacency == 1)).all()
    assert (noisy.adjacency[~clean.pair_mask] == 0).all()


def test_zero_noise_changes_nothing_and_full_noise_everything() -> None:
    graphs = house_and_path()
    same = add_noise(graphs, NoiseLevel.symmetric(torch.zeros(2)), rng())
    assert torch.equal(same.adjacency, graphs.adjacency)
    opposite = add_noise(graphs, NoiseLevel.symmetric(torch.ones(2)), rng())
    assert torch.equal(opposite.adjacency, graphs.pair_mask.float() - graphs.adjacency)


def test_same_generator_same_noise_and_global_state_is_left_alone() -> None:
    graphs = house_and_path()
    noise = NoiseLevel.symmetric(per_graph(0.4, 0.4))
    before = torch.get_rng_state()
    first, again = add_noise(graphs, noise, rng(7)), add_noise(graphs, noise, rng(7))
    assert torch.equal(first.adjacency, again.adjacency)
    assert not torch.equal(first.adjacency, add_noise(graphs, noise, rng(8)).adjacency)
    assert torch.equal(before, torch.get_rng_state())


def test_paper_noise_is_symmetric_and_uniform_up_to_a_half() -> None:
    noise = uniform_noise(20_000, rng())
    assert torch.equal(noise.add, noise.remove)
    assert float(noise.add.min()) >= 0
    assert float(noise.add.max()) <= 0.5
    quartiles = torch.quantile(noise.add, torch.tensor([0.25, 0.5, 0.75]))
    torch.testing.assert_close(quartiles, torch.tensor([0.125, 0.25, 0.375]), atol=0.01, rtol=0)


def test_density_noise_keeps_its_ranges_and_its_share_of_symmetric_draws() -> None:
    density = torch.full((20_000,), 0.1)
    noise = density_noise(density, low=0.004, high=0.4, symmetric_share=0.4, generator=rng())
    assert float(noise.remove.min()) >= 0.004 * (1 - 1e-5)
    assert float(noise.remove.max()) <= 0.4 * (1 + 1e-5)
    # log-uniform: the median is the geometric mean of the ends
    assert float(noise.remove.median()) == pytest.approx(math.sqrt(0.004 * 0.4), rel=0.1)
    ratio = noise.add / noise.remove
    assert float(ratio.min()) >= 0.1 * (1 - 1e-4)
    assert float(ratio.max()) <= 1 + 1e-5
    assert float((ratio == 1).double().mean()) == pytest.approx(0.4, abs=0.02)


def test_density_noise_of_a_graph_without_edges_is_finite() -> None:
    noise = density_noise(
        torch.zeros(100), low=0.004, high=0.4, symmetric_share=0.0, generator=rng()
    )
    assert (noise.add > 0).all()
    assert torch.isfinite(noise.add).all()
