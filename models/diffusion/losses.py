"""The distribution loss of a denoiser, one value per graph."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs


def distribution_loss(logits: Tensor, clean: DenseGraphs) -> Tensor:
    """L_dist: the cross-entropy to the clean adjacency over real pairs, per edge: [batch].

    Divided by each graph's own number of edges, so that neither padding nor the rest of the batch
    changes its weight against other losses.
    """
    # Both sides of the quotient sum over ordered pairs; a graph without pairs adds nothing.
    return summed_cross_entropy(logits, clean) / clean.adjacency.sum((1, 2)).clamp(min=2)


def summed_cross_entropy(logits: Tensor, clean: DenseGraphs) -> Tensor:
    """Cross-entropy to the clean adjacency, summed over ordered real pairs: [batch]."""
    entropy = F.binary_cross_entropy_with_logits(logits, clean.adjacency, reduction="none")
    return (entropy * clean.pair_mask).sum((1, 2))
