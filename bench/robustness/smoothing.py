"""What each edit does to the GNN's answer, on what the denoiser believes the graph to be.

The input is taken as a noisy graph, at several noise levels; the denoiser's probabilities of the
edges are a soft graph that depends on any one edge of the input less than the input itself does.
Nothing is drawn: averaged over random copies, a ranking is as unstable as its draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, to_dense
from d4explain.gnn.network import Gnn
from models.counterfactual.oracle import FlipGoal
from models.diffusion.denoiser import Denoiser
from models.diffusion.noise import NoiseLevel
from models.graphs.edits import EditSpace

_CELLS_AT_ONCE = 2**21  # entries of the adjacencies of one dense pass


@dataclass(frozen=True)
class Smoothing:
    """Chosen on validation graphs of BBBP and NCI1, once for all data sets."""

    levels: tuple[float, ...] = (
        0.2,
        0.4,
    )  # share of the edges that the input is taken to have lost


def smoothed_scores(
    gnn: Gnn, denoiser: Denoiser, space: EditSpace, goal: FlipGoal, smoothing: Smoothing
) -> Tensor:
    """Margin that each edit gains on the soft graph, mean over the noise levels: [pair]."""
    soft = _believed(denoiser, to_dense([space.graph]), smoothing.levels)
    gained = [_gained(gnn, soft.select(slice(k, k + 1)), space, goal) for k in range(soft.count)]
    return torch.stack(gained).mean(dim=0)


def _believed(denoiser: Denoiser, given: DenseGraphs, levels: tuple[float, ...]) -> DenseGraphs:
    """P(edge | the input at each noise level), by the denoiser without its counterfactual switch.

    Noise keeps the density, as most of what the denoiser has seen does.
    """
    pairs, edges = float(given.pair_mask.sum()), float(given.adjacency.sum())
    lost = torch.tensor(levels)
    noise = NoiseLevel((lost * edges / max(pairs - edges, 1.0)).clamp(max=0.5), lost)
    repeated = given.repeat(len(levels))
    with torch.no_grad():
        logits = denoiser(repeated, noise, torch.zeros(len(levels)))
    return repeated.with_adjacency(torch.sigmoid(logits) * repeated.pair_mask)


def _gained(gnn: Gnn, soft: DenseGraphs, space: EditSpace, goal: FlipGoal) -> Tensor:
    """Margin with each edited pair as the edit leaves it, less the margin as it was: [pair]."""
    step = max(1, _CELLS_AT_ONCE // space.graph.node_count**2)
    after, before = [], []
    with torch.inference_mode():
        for pairs in torch.split(torch.arange(space.count), step):
            edited = (~space.present[pairs]).to(soft.adjacency.dtype)
            after.append(goal.margin(gnn.dense(_with(soft, space, pairs, edited))))
            before.append(goal.margin(gnn.dense(_with(soft, space, pairs, 1 - edited))))
    return torch.cat(after) - torch.cat(before)


def _with(soft: DenseGraphs, space: EditSpace, pairs: Tensor, state: Tensor) -> DenseGraphs:
    """One graph per pair, that pair in the given state."""
    graphs = soft.repeat(len(pairs))
    row = torch.arange(len(pairs))
    source, target = space.sources[pairs], space.targets[pairs]
    graphs.adjacency[row, source, target] = state
    graphs.adjacency[row, target, source] = state
    return graphs
