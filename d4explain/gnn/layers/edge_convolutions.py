"""GINE, a convolution that reads edge attributes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GINEConv, Linear

from d4explain.gnn.graphs import DenseGraphs, SparseGraphs, is_shared
from d4explain.gnn.layers.forms import GraphLayer, require_edge_attributes
from d4explain.gnn.layers.tiles import tiled
from d4explain.gnn.spec import GineLayer, GineSumLayer


class Gine(GraphLayer):
    """The message from j to i is relu(x_j + W e_ij + b), or without `project` relu(x_j + e_ij)."""

    def __init__(self, width: int, layer: GineLayer | GineSumLayer, edge_features: int) -> None:
        super().__init__()
        inner: nn.Module = nn.Identity()
        if isinstance(layer, GineLayer):
            inner = nn.Sequential(
                nn.Linear(width, layer.hidden), nn.ReLU(), nn.Linear(layer.hidden, layer.out)
            )
        self.conv = GINEConv(inner, train_eps=layer.train_eps)
        if layer.project:  # PyG's edge_dim needs a width, which an identity does not have
            self.conv.lin = Linear(edge_features, width)

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        attributes = require_edge_attributes(graphs.edge_attributes)
        result: Tensor = self.conv(values, graphs.edge_index, attributes)
        return result

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """nn((1 + eps) x_i + Σ_j w_ij · message from j)."""
        needs_gradient = torch.is_grad_enabled() and graphs.adjacency.requires_grad
        sum_messages = self._sum_over_pairs if needs_gradient else self._sum_over_edges
        attributes = require_edge_attributes(graphs.edge_attributes)
        messages = sum_messages(values, graphs.adjacency, attributes)
        result: Tensor = self.conv.nn(values * (1 + self.conv.eps) + messages)
        return result

    def _sum_over_pairs(self, values: Tensor, adjacency: Tensor, attributes: Tensor) -> Tensor:
        """Includes absent edges, which have a gradient: [batch, node, width]."""
        shared = is_shared(attributes)

        def tile(some: slice, rows: slice) -> Tensor:
            own = attributes[:1, rows] if shared else attributes[some, rows]
            messages = F.relu(values[some, None] + self._projected(own))
            # [graph, row, 1, node] @ [graph, row, node, width]
            return (adjacency[some, rows, None] @ messages).squeeze(2)

        return tiled(tile, *values.shape)

    def _sum_over_edges(self, values: Tensor, adjacency: Tensor, attributes: Tensor) -> Tensor:
        """Computes messages of present edges only: [batch, node, width]."""
        graph, target, source = adjacency.nonzero(as_tuple=True)
        projected = self._projected(attributes[graph, target, source])
        messages = F.relu(values[graph, source] + projected)
        messages = messages * adjacency[graph, target, source, None]
        rows = torch.zeros_like(values).flatten(0, 1)
        place = graph * values.shape[1] + target
        return rows.index_add(0, place, messages).view_as(values)

    def _projected(self, attributes: Tensor) -> Tensor:
        result: Tensor = attributes if self.conv.lin is None else self.conv.lin(attributes)
        return result
