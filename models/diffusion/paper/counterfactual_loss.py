"""L_cf of graphs sampled from the denoiser, with or without the GNN's gradient."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs
from d4explain.gnn.network import Gnn
from models.diffusion.noise import symmetric_uniform

DRAWS = 4  # samples per graph of a batch if the GNN has no gradient


class SampledLoss(NamedTuple):
    loss: Tensor  # [batch] L_cf; its gradient trains the denoiser
    flip_rate: float  # share of the samples that change the GNN's class


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


def sampled_counterfactual_loss(
    gnn: Gnn,
    logits: Tensor,
    graphs: DenseGraphs,
    *,
    temperature: float,
    generator: torch.Generator,
) -> SampledLoss:
    """L_cf of graphs drawn from the denoiser's [batch, node, node] logits for `graphs`."""
    with torch.no_grad():
        predicted = gnn.answers(graphs).argmax(1)
    if not gnn.has_dense:
        return _without_gradient(gnn, logits, graphs, predicted, generator)
    answers = gnn.dense(concrete_sample(logits, graphs, temperature, generator))
    flip_rate = (answers.argmax(1) != predicted).float().mean().item()
    return SampledLoss(counterfactual_loss(answers, predicted), flip_rate)


def _without_gradient(
    gnn: Gnn, logits: Tensor, graphs: DenseGraphs, predicted: Tensor, generator: torch.Generator
) -> SampledLoss:
    """E[L_cf] over drawn graphs with its score-function gradient; the GNN only predicts.

    The other draws of the same graph are the baseline (Kool et al. 2019), so it is unbiased:
    ∇ E[L] = E[mean_k (L_k - mean of the other L) ∇ log p(G_k)].
    """
    repeated = graphs.repeat(DRAWS)
    own = logits.repeat_interleave(DRAWS, dim=0)
    drawn = repeated.with_adjacency(_drawn(own, repeated, generator))
    with torch.no_grad():
        answers = gnn.answers(drawn)
        repeated_classes = predicted.repeat_interleave(DRAWS)
        losses = counterfactual_loss(answers, repeated_classes).view(-1, DRAWS)
        others = (losses.sum(1, keepdim=True) - losses) / (DRAWS - 1)
    log_p = _log_probability(own, drawn).view(-1, DRAWS)
    score = ((losses - others) * log_p).mean(1)
    flip_rate = (answers.argmax(1) != repeated_classes).float().mean().item()
    return SampledLoss(losses.mean(1) + (score - score.detach()), flip_rate)


def _drawn(logits: Tensor, graphs: DenseGraphs, generator: torch.Generator) -> Tensor:
    """A 0/1 adjacency drawn pair by pair: [batch, node, node]."""
    drawn = symmetric_uniform(logits, generator) < logits.detach().sigmoid()
    return (drawn & graphs.pair_mask).to(logits.dtype)


def _log_probability(logits: Tensor, graphs: DenseGraphs) -> Tensor:
    """Σ over unordered pairs of log P(A_ij): [batch]."""
    per_pair = F.logsigmoid((2 * graphs.adjacency - 1) * logits) * graphs.pair_mask
    return per_pair.sum((1, 2)) / 2
