"""A bootstrap confidence interval of the difference of two MMDs."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from bench.counterfactuals.figures import MethodResult, toggle_pairs
from d4explain.gnn.graphs import Graph
from models.evaluation.bootstrap import RESAMPLES, Interval, percentile_interval, resampled_shares
from models.metrics.mmd import kernels_between, statistics


def mmd_gain(
    ours: Sequence[MethodResult],
    theirs: Sequence[MethodResult],
    held_out: Sequence[Graph],
    *,
    seed: int,
    resamples: int = RESAMPLES,
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
    shares = resampled_shares(count, seed, resamples)
    our_flips, their_flips = zip(*shared, strict=True)
    gains = _distances(their_flips, held_out, shares) - _distances(our_flips, held_out, shares)
    return percentile_interval(gains)


def _distances(
    answers: Sequence[MethodResult], held_out: Sequence[Graph], shares: Tensor
) -> Tensor:
    """The terms of the MMD that depend on the answers, for each row of shares: [resample]."""
    edited = statistics(
        [toggle_pairs(answer.instance.graph, answer.found[0]) for answer in answers]
    )
    across = kernels_between(edited, statistics(held_out)).sum.mean(dim=1)  # [instance]
    return ((shares @ edited.kernels.sum) * shares).sum(dim=1) - 2 * shares @ across
