"""The training losses of a denoiser, one value per graph."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs
from models.diffusion.noise import NoiseLevel, symmetric_uniform

Weighting = Literal["paper", "uniform"]
Normalisation = Literal["pair", "edge"]


def distribution_loss(logits: Tensor, clean: DenseGraphs, normalisation: Normalisation) -> Tensor:
    """L_dist before its weight: cross-entropy to the clean adjacency over unordered real pairs.

    Divided by each graph's own number of pairs or edges, so that neither padding nor the rest of
    the batch changes the meaning of alpha: [batch].
    """
    entropy = F.binary_cross_entropy_with_logits(logits, clean.adjacency, reduction="none")
    pairs = clean.pair_mask
    counted = pairs if normalisation == "pair" else clean.adjacency
    # Both sides of the quotient sum over ordered pairs; a graph without pairs adds nothing.
    return (entropy * pairs).sum((1, 2)) / counted.sum((1, 2)).clamp(min=2)


def noise_weight(noise: NoiseLevel, weighting: Weighting, diffusion_steps: int) -> Tensor:
    """The weight of a noise level in L_dist: [batch].

    "paper" is its formula 1 - 2·\\bar\\beta_t + 1/T, which falls with noise.
    """
    if weighting == "uniform":
        return torch.ones_like(noise.remove)
    flip = (noise.add + noise.remove) / 2
    return 1 - 2 * flip + 1 / diffusion_steps


def concrete_sample(
    logits: Tensor, graphs: DenseGraphs, temperature: float, generator: torch.Generator
) -> DenseGraphs:
    """A 0/1 graph drawn from the logits whose gradient is that of the Concrete relaxation.

    Bernoulli(p) ≈ σ((log p - log(1 - p) + log u - log(1 - u)) / λ), one u per unordered pair;
    straight-through: forward the rounded value, backward the relaxed one.
    """
    uniform = symmetric_uniform(logits, generator).clamp(1e-6, 1 - 1e-6)
    relaxed = torch.sigmoid((logits + torch.logit(uniform)) / temperature)
    drawn = (relaxed > 0.5).to(relaxed.dtype)
    straight_through = drawn + (relaxed - relaxed.detach())
    return graphs.with_adjacency(straight_through * graphs.pair_mask)


def counterfactual_loss(gnn_logits: Tensor, predicted: Tensor) -> Tensor:
    """L_cf = -log(1 - f(G~)[y_hat]) from the GNN's logits: [batch].

    1 - softmax_y is the sum of the other classes' softmax, so the loss is the difference of two
    log-sum-exps; 1 - p itself rounds to 0 for a confident GNN.
    """
    others = gnn_logits.masked_fill(F.one_hot(predicted, gnn_logits.shape[1]).bool(), float("-inf"))
    return torch.logsumexp(gnn_logits, dim=1) - torch.logsumexp(others, dim=1)
