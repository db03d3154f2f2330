"""Effect of each edit on the GNN, evaluated on a denoised version of the graph.

The denoiser treats the input as a noisy graph, at several noise levels. Its edge probabilities form
a soft graph that depends less on any single input edge. Nothing is sampled, because random samples
would make the ranking unstable.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, to_dense
from d4explain.gnn.network import Gnn
from models.counterfactual.oracle import FlipGoal
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.noise import NoiseLevel
from models.graphs.edits import EditSpace

_CELLS_PER_PASS = 2**21  # entries of the adjacencies of one dense pass


@dataclass(frozen=True)
class Smoothing:
    """Chosen on validation graphs of BBBP and NCI1, once for all data sets."""

    levels: tuple[float, ...] = (0.2, 0.4)  # assumed shares of edges that noise removed


def smoothed_scores(
    gnn: Gnn, denoiser: EdgeDenoiser, space: EditSpace, goal: FlipGoal, smoothing: Smoothing
) -> Tensor:
    """Margin gain of each edit on the soft graph, averaged over noise levels: [pair]."""
    soft = _denoised(denoiser, to_dense([space.graph]), smoothing.levels)
    gains = [
        _margin_gains(gnn, soft.select(slice(k, k + 1)), space, goal) for k in range(soft.count)
    ]
    return torch.stack(gains).mean(dim=0)


def _denoised(
    denoiser: EdgeDenoiser, graphs: DenseGraphs, levels: tuple[float, ...]
) -> DenseGraphs:
    """P(edge | input, noise level) of the denoiser.

    The assumed noise preserves density, like most of the denoiser's training noise.
    """
    pairs, edges = float(graphs.pair_mask.sum()), float(graphs.adjacency.sum())
    removed = torch.tensor(levels)
    noise = NoiseLevel((removed * edges / max(pairs - edges, 1.0)).clamp(max=0.5), removed)
    repeated = graphs.repeat(len(levels))
    with torch.no_grad():
        logits = denoiser(repeated, noise)
    return repeated.with_adjacency(torch.sigmoid(logits) * repeated.pair_mask)


def _margin_gains(gnn: Gnn, soft: DenseGraphs, space: EditSpace, goal: FlipGoal) -> Tensor:
    """Margin after each edit minus the margin before it: [pair]."""
    per_pass = max(1, _CELLS_PER_PASS // space.graph.node_count**2)
    after, before = [], []
    with torch.inference_mode():
        for pairs in torch.split(torch.arange(space.count), per_pass):
            edited = (~space.present[pairs]).to(soft.adjacency.dtype)
            after.append(goal.margin(gnn.dense(_with_pair_states(soft, space, pairs, edited))))
            before.append(goal.margin(gnn.dense(_with_pair_states(soft, space, pairs, 1 - edited))))
    return torch.cat(after) - torch.cat(before)


def _with_pair_states(
    soft: DenseGraphs, space: EditSpace, pairs: Tensor, state: Tensor
) -> DenseGraphs:
    """One graph per pair, with that pair in the given state."""
    graphs = soft.repeat(len(pairs))
    row = torch.arange(len(pairs))
    source, target = space.sources[pairs], space.targets[pairs]
    graphs.adjacency[row, source, target] = state
    graphs.adjacency[row, target, source] = state
    return graphs
