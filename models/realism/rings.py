"""How far edits change what a graph is made of: its rings and its connected components.

A graph whose nodes all have usual neighbours may still be unlike the data: a molecule whose rings
are open, or in two parts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.graphs.connectivity import reachable

RING_SIZES = (3, 4, 5, 6)


def structure_change(base: Tensor, adjacency: Tensor) -> Tensor:
    """Sum of |log((1 + count after) / (1 + count before))| over components and ring sizes: [graph].

    `base` is a [node, node] graph, `adjacency` [graph, node, node] has edited versions of it.
    """
    before, after = _counts(base[None]), _counts(adjacency)  # [graph, count]
    return (torch.log1p(after) - torch.log1p(before)).abs().sum(dim=1)


def ring_counts(adjacency: Tensor) -> Tensor:
    """Rings of each size of [graph, node, node] graphs: [graph, size].

    Counts closed walks that never turn back, and divides by their starts and directions: with the
    matrix A_k of walks of length k that never turn back, N_k = tr A_k - Σ_j Σ_v (d_v - 2)
    A_{k-2j}[v, v] (Stark and Terras 1996). Up to size 5 these are the rings. Size 6 also counts
    pairs of triangles with a common node.
    """
    edges = (adjacency > 0.5).to(torch.float32)
    degrees = edges.sum(dim=2)
    onward = (degrees - 1)[:, None, :]  # ways to go on without turning back
    walks = [edges, edges @ edges - torch.diag_embed(degrees)]  # of lengths 1, 2, …
    while len(walks) < RING_SIZES[-1]:
        walks.append(walks[-1] @ edges - walks[-2] * onward)
    returns = [walk.diagonal(dim1=1, dim2=2) for walk in walks]  # each [graph, node]
    counts = []
    for size in RING_SIZES:
        closed = returns[size - 1].sum(dim=1)
        for shorter in range(size - 2, 0, -2):  # walks with a tail
            closed = closed - ((degrees - 2) * returns[shorter - 1]).sum(dim=1)
        counts.append((closed / (2 * size)).round())
    return torch.stack(counts, dim=1)


def _counts(adjacency: Tensor) -> Tensor:
    components = (1 / reachable(adjacency).sum(dim=2)).sum(dim=1).round()
    return torch.cat([components[:, None], ring_counts(adjacency)], dim=1)
