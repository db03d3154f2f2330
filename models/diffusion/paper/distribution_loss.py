"""The paper's L_dist: a re-weighted cross-entropy to the clean graph."""

from __future__ import annotations

from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs
from models.diffusion.losses import summed_cross_entropy


def weighted_distribution_loss(
    logits: Tensor, clean: DenseGraphs, flip: Tensor, noise_levels: int
) -> Tensor:
    """(1 - 2·\\bar\\beta_t + 1/T) times the mean cross-entropy over the real pairs: [batch].

    The paper's sum over pairs would make alpha depend on the size of the graph.
    """
    mean = summed_cross_entropy(logits, clean) / clean.pair_mask.sum((1, 2)).clamp(min=2)
    return noise_weight(flip, noise_levels) * mean


def noise_weight(flip: Tensor, noise_levels: int) -> Tensor:
    """1 - 2·\\bar\\beta_t + 1/T for flip = \\bar\\beta_t [batch]; it falls with noise."""
    return 1 - 2 * flip + 1 / noise_levels
