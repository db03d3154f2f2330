"""Bootstrap confidence interval of the MMD difference between two methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from bench.counterfactuals.figures import MethodResult, toggle_pairs
from d4explain.gnn.graphs import Graph
from models.metrics.mmd import kernels_between, statistics

_RESAMPLES = 2000


class Interval(NamedTuple):
    low: float
    high: float


def mmd_gain(
    ours: Sequence[MethodResult],
    theirs: Sequence[MethodResult],
    held_out: Sequence[Graph],
    *,
    seed: int,
    resamples: int = _RESAMPLES,
) -> Interval | None:
    """95 % bootstrap interval of their held-out MMD minus ours; ours is lower if it is above 0.

    Each resample draws the same instances for both methods, from those that both flip.
    """
    shared = [
        (our, their) for our, their in zip(ours, theirs, strict=True) if our.found and their.found
    ]
    count = len(shared)
    if count < 2:
        return None
    draws = torch.randint(count, (resamples, count), generator=torch.Generator().manual_seed(seed))
    shares = torch.zeros(draws.shape, dtype=torch.float64)  # [resample, instance]
    shares.scatter_add_(1, draws, torch.full(draws.shape, 1 / count, dtype=torch.float64))
    our_flips, their_flips = zip(*shared, strict=True)
    gains = _distances(their_flips, held_out, shares) - _distances(our_flips, held_out, shares)
    low, high = torch.quantile(gains, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Interval(low, high)


def _distances(
    answers: Sequence[MethodResult], held_out: Sequence[Graph], shares: Tensor
) -> Tensor:
    """The terms of the MMD that depend on the answers, for each row of shares: [resample]."""
    edited = statistics(
        [toggle_pairs(answer.instance.graph, answer.found[0]) for answer in answers]
    )
    across = kernels_between(edited, statistics(held_out)).sum.mean(dim=1)  # [instance]
    return ((shares @ edited.kernels.sum) * shares).sum(dim=1) - 2 * shares @ across
