"""Training metric: how well a denoiser detects flipped pairs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph, like_sized, to_dense
from models.diffusion.denoiser import Denoiser
from models.diffusion.noise import NoiseLevel, add_noise

DETECTION_FLIPS = (0.01, 0.02)
PAIRS_DRAWN = 40_000  # small sets are drawn repeatedly, for a stable result
MAX_DRAWS = 64


def detection_auc(
    denoiser: Denoiser,
    graphs: Sequence[Graph],
    generator: torch.Generator,
    *,
    device: torch.device,
    pair_budget: int,
) -> float | None:
    """Area under the ROC curve of the posterior flip log-odds over all pairs of noisy graphs.

    The probability of a flip is .01 to .02. None if no pair was flipped.
    """
    scores, flipped = [], []
    low, high = DETECTION_FLIPS
    sizes = [graph.node_count for graph in graphs]
    draws = min(MAX_DRAWS, max(1, PAIRS_DRAWN // sum(size**2 for size in sizes)))
    for indices in like_sized(sizes, pair_budget // draws):
        clean = to_dense([graphs[index] for index in indices]).repeat(draws)
        flip = low + (high - low) * torch.rand(clean.count, generator=generator)
        noise = NoiseLevel.symmetric(flip)
        noisy = add_noise(clean, noise, generator)
        with torch.no_grad():
            logits = denoiser(noisy.to(device), noise.to(device)).cpu()
        upper = torch.triu(clean.pair_mask, diagonal=1)
        scores.append(((1 - 2 * noisy.adjacency) * logits)[upper])
        flipped.append((noisy.adjacency != clean.adjacency)[upper])
    return area_under_roc(torch.cat(scores), torch.cat(flipped))


def area_under_roc(scores: Tensor, positive: Tensor) -> float | None:
    """P(score of a positive > score of a negative), ties count half; None if a kind is absent.

    By rank sums (Mann-Whitney): AUC = (Σ ranks of positives - P(P + 1)/2) / (P·N).
    """
    positives = int(positive.sum())
    negatives = positive.numel() - positives
    if positives == 0 or negatives == 0:
        return None
    _, group, size = torch.unique(scores, return_inverse=True, return_counts=True)
    last = torch.cumsum(size, 0).double()
    rank = (last - (size - 1) / 2)[group]  # tied scores share their mean rank
    above = float(rank[positive].sum()) - positives * (positives + 1) / 2
    return above / (positives * negatives)
