"""Connected components of a dense batch."""

from __future__ import annotations

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs


def reachable(adjacency: Tensor) -> Tensor:
    """Whether a path joins two nodes; every node reaches itself: [batch, node, node] bool.

    Squaring I + A doubles the length of the paths, so log2(nodes) squarings are enough.
    """
    nodes = adjacency.shape[1]
    joined = (adjacency > 0.5).to(torch.float32)
    joined = (joined + torch.eye(nodes, device=adjacency.device)).clamp_(max=1)
    for _ in range(max(nodes - 1, 1).bit_length()):
        joined = torch.bmm(joined, joined).clamp_(max=1)
    return joined > 0.5


def component_counts(graphs: DenseGraphs) -> Tensor:
    """Connected components of each graph, padding left out: [batch] int64."""
    sizes = reachable(graphs.adjacency).sum(dim=2)  # [batch, node] size of the node's component
    return (graphs.mask / sizes).sum(dim=1).round().long()
