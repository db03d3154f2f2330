"""The modules of the layers; only workers import them."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import (
    GraphConv,
    LEConv,
    ResGatedGraphConv,
    global_add_pool,
    global_max_pool,
)

from d4_example import Hidden, Out


class Gated(nn.Module):
    """PyG's ResGatedGraphConv; it has no dense form."""

    def __init__(self, fields: Out, width: int) -> None:
        super().__init__()
        self.conv = ResGatedGraphConv(width, fields.out)

    def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.conv(values, edge_index)


class Extrema(nn.Module):
    """PyG's LEConv, in both forms."""

    def __init__(self, fields: Out, width: int) -> None:
        super().__init__()
        self.conv = LEConv(width, fields.out)

    def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.conv(values, edge_index)

    def dense(self, values: Tensor, adjacency: Tensor, mask: Tensor) -> Tensor:
        """A a - D b + c with the degrees D of a soft adjacency."""
        a, b, c = self.conv.lin1(values), self.conv.lin2(values), self.conv.lin3(values)
        return adjacency @ a - adjacency.sum(dim=2, keepdim=True) * b + c


class TwoPools(nn.Module):
    """A GNN with the sum and the maximum of its nodes side by side."""

    def __init__(self, fields: Hidden, features: int, outputs: int) -> None:
        super().__init__()
        self.conv = GraphConv(features, fields.hidden)
        self.head = nn.Linear(2 * fields.hidden, outputs)

    def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        nodes = self.conv(values, edge_index).relu()
        pooled = [global_add_pool(nodes, batch), global_max_pool(nodes, batch)]
        return self.head(torch.cat(pooled, dim=1))
