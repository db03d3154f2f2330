"""What each edit does to the GNN's answer, averaged over noisy copies that the denoiser repaired.

Denoised smoothing (Salman et al. 2020) on graphs: noise on the input changes one copy's noise a
little more or less, and the denoiser, trained on graphs without it, takes most of it away.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.denoiser import Denoiser
from models.diffusion import NoiseLevel, add_noise, symmetric_uniform
from models.edits import EditSpace
from models.flips import FlipGoal
from models.gnn.network import Gnn
from models.graphs import DenseGraphs, to_dense

_CELLS_AT_ONCE = 2**21  # entries of the adjacencies of one dense pass
_CLEAN_FLIP = 0.02  # the noise at which log-odds of a graph are asked for


@dataclass(frozen=True)
class Smoothing:
    """Settings, chosen on validation graphs once for all data sets."""

    copies: int = 8
    noise: float = 0.2  # share of the edges that a copy loses, and gains as many
    expected: float = 0.05  # the same for the noise that the input itself may have
    repaired: bool = True  # False: the noisy copies as they are
    plausibility_weight: float = 0.1


def smoothed_scores(
    gnn: Gnn,
    denoiser: Denoiser,
    space: EditSpace,
    goal: FlipGoal,
    *,
    smoothing: Smoothing,
    generator: torch.Generator,
) -> Tensor:
    """Mean over the copies of (margin gained by the edit + weight · its log-odds): [pair].

    An edit is the one that changes the input: on a copy where its pair is already changed, the
    edit gains nothing. Noise keeps the density, as most of what the denoiser has seen does.
    """
    clean = to_dense([space.graph])
    copies = clean.repeat(smoothing.copies)
    copies = add_noise(copies, _level(clean, smoothing.noise, smoothing.copies), generator)
    if smoothing.repaired:
        copies = _repaired(denoiser, copies, clean, smoothing, generator)
    gained = torch.stack(
        [_gained(gnn, copies.select(slice(k, k + 1)), space, goal) for k in range(copies.count)]
    )
    if smoothing.plausibility_weight:
        level = NoiseLevel.symmetric(torch.full((copies.count,), _CLEAN_FLIP))
        with torch.no_grad():
            log_odds = denoiser.edge_log_odds(copies, level)  # [copy, node, node]
        towards = 1.0 - 2.0 * space.present.to(log_odds.dtype)  # [pair]
        gained = gained + smoothing.plausibility_weight * towards * space.of_pairs(log_odds)
    return gained.mean(dim=0)


def _level(clean: DenseGraphs, share: float, count: int) -> NoiseLevel:
    """Each edge is lost with the probability; as many are expected to appear elsewhere."""
    pairs = float(clean.pair_mask.sum())
    edges = float(clean.adjacency.sum())
    add = min(share * edges / max(pairs - edges, 1.0), 0.5)
    return NoiseLevel(torch.full((count,), add), torch.full((count,), share))


def _repaired(
    denoiser: Denoiser,
    noisy: DenseGraphs,
    clean: DenseGraphs,
    smoothing: Smoothing,
    generator: torch.Generator,
) -> DenseGraphs:
    """One draw of the clean graph per copy, by the denoiser without its counterfactual switch."""
    level = _level(clean, smoothing.noise + smoothing.expected, noisy.count)
    with torch.no_grad():
        logits = denoiser(noisy, level, torch.zeros(noisy.count))
    drawn = symmetric_uniform(noisy.adjacency, generator) < torch.sigmoid(logits)
    return noisy.with_adjacency((drawn & noisy.pair_mask).to(noisy.adjacency.dtype))


def _gained(gnn: Gnn, copy: DenseGraphs, space: EditSpace, goal: FlipGoal) -> Tensor:
    """Margin after each edit less the copy's own: [pair]."""
    step = max(1, _CELLS_AT_ONCE // space.graph.node_count**2)
    pairs = torch.arange(space.count)
    with torch.inference_mode():
        own = goal.margin(gnn.dense(copy))
        after = [
            goal.margin(gnn.dense(_edited(copy, space, some))) for some in torch.split(pairs, step)
        ]
    return torch.cat(after) - own


def _edited(copy: DenseGraphs, space: EditSpace, pairs: Tensor) -> DenseGraphs:
    """The copy with each of the pairs as the edit leaves it."""
    edited = copy.repeat(len(pairs))
    row = torch.arange(len(pairs))
    source, target = space.sources[pairs], space.targets[pairs]
    state = (~space.present[pairs]).to(edited.adjacency.dtype)
    edited.adjacency[row, source, target] = state
    edited.adjacency[row, target, source] = state
    return edited
