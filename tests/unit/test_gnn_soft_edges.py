"""What the dense forms say between 0 and 1, and what their slopes mean."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from models.gnn import tiles
from models.gnn.aggregation import gathered

torch.set_num_threads(1)


def random_weights(seed: int, batch: int = 2, nodes: int = 5) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    upper = torch.rand(batch, nodes, nodes, generator=rng, dtype=torch.float64).triu(1)
    return upper + upper.mT


def random_values(seed: int, batch: int = 2, nodes: int = 5, width: int = 3) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(batch, nodes, width, generator=rng, dtype=torch.float64)


def discrete(seed: int) -> Tensor:
    return (random_weights(seed) > 0.5).double()


def test_the_soft_maximum_is_the_expectation_over_all_subsets_of_neighbours() -> None:
    values, weights = random_values(0), random_weights(1)
    expected = torch.zeros_like(values)
    for there in itertools.product([False, True], repeat=5):
        chosen = torch.tensor(there)
        chance = torch.where(chosen, weights, 1 - weights).prod(dim=2)  # [batch, node]
        if chosen.any():
            expected += chance[:, :, None] * values[:, chosen].amax(dim=1)[:, None]
    torch.testing.assert_close(gathered("max", values, weights), expected)


def test_the_slope_of_the_maximum_is_what_a_flip_changes() -> None:
    values, adjacency = random_values(2), discrete(3)
    (slope,) = torch.autograd.functional.jacobian(
        lambda weights: gathered("max", values, weights), (adjacency,)
    )  # [batch, node, width, batch, node, node]
    flipped = torch.empty_like(slope)
    for place in itertools.product(range(2), range(5), range(5)):
        present, absent = adjacency.clone(), adjacency.clone()
        present[place], absent[place] = 1, 0
        change = gathered("max", values, present) - gathered("max", values, absent)
        flipped[(..., *place)] = change
    torch.testing.assert_close(slope, flipped)


def test_equal_neighbours_share_no_slope() -> None:
    """Either of two equal maxima may go and nothing changes."""
    values = torch.tensor([[[0.0], [2.0], [2.0]]])
    weights = torch.tensor([[[0.0, 1, 1], [1, 0, 0], [1, 0, 0]]], requires_grad=True)
    (slope,) = torch.autograd.grad(gathered("max", values, weights)[0, 0, 0], weights)
    assert (slope == 0).all()


@pytest.mark.parametrize("numbers", [2**24, 4 * 5 * 5 * 3, 4 * 2 * 5 * 3, 1])
def test_pieces_do_not_show(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole batch, graph by graph, two rows at a time, row by row."""
    values, soft, hard = random_values(4), random_weights(5), discrete(6)
    expected = gathered("max", values, soft)
    slope = torch.autograd.functional.jacobian(lambda w: gathered("max", values, w), soft)
    monkeypatch.setattr(tiles, "_NUMBERS", numbers)
    torch.testing.assert_close(gathered("max", values, soft), expected)
    again = torch.autograd.functional.jacobian(lambda w: gathered("max", values, w), soft)
    torch.testing.assert_close(again, slope)
    torch.testing.assert_close(
        gathered("max", values, hard), gathered("max", values, hard.requires_grad_()).detach()
    )


def test_a_batch_without_graphs_has_no_maximum() -> None:
    assert gathered("max", torch.zeros(0, 4, 3), torch.zeros(0, 4, 4)).shape == (0, 4, 3)
