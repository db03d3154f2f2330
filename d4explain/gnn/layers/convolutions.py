"""Convolutions: PyG's own on sparse graphs, and the same function of a soft adjacency."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINConv, GraphConv, SAGEConv

from d4explain.gnn.graphs import DenseGraphs, SparseGraphs
from d4explain.gnn.layers.aggregation import gathered
from d4explain.gnn.layers.forms import GraphLayer
from d4explain.gnn.spec import (
    Aggregation,
    GcnLayer,
    GinLayer,
    GinSumLayer,
    GraphConvLayer,
    SageLayer,
)


def smoothed(values: Tensor, adjacency: Tensor) -> Tensor:
    """P X with P = D^(-1/2) (A + I) D^(-1/2), D the weighted degrees of A + I.

    D is at least 1, so the gradient is finite at every soft adjacency.
    """
    scale = (adjacency.sum(dim=2, keepdim=True) + 1).rsqrt()  # [batch, node, 1]
    scaled = values * scale
    # torch.baddbmm computes A X + X in one pass
    return torch.baddbmm(scaled, adjacency, scaled) * scale


class Gcn(GraphLayer):
    def __init__(self, width: int, layer: GcnLayer) -> None:
        super().__init__()
        self.conv = GCNConv(width, layer.out)

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.conv(values, graphs.edge_index)
        return result

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """P X W + b."""
        result: Tensor = smoothed(self.conv.lin(values), graphs.adjacency) + self.conv.bias
        return result


class Gin(GraphLayer):
    def __init__(self, width: int, layer: GinLayer) -> None:
        super().__init__()
        inner = nn.Sequential(
            nn.Linear(width, layer.hidden), nn.ReLU(), nn.Linear(layer.hidden, layer.out)
        )
        self.conv = GINConv(inner, train_eps=layer.train_eps)

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.conv(values, graphs.edge_index)
        return result

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """MLP((A + (1 + eps) I) X)."""
        own = values * (1 + self.conv.eps)
        result: Tensor = self.conv.nn(own.baddbmm_(graphs.adjacency, values))
        return result


class GinSum(GraphLayer):
    def __init__(self, _width: int, layer: GinSumLayer) -> None:
        super().__init__()
        self.conv = GINConv(nn.Identity(), train_eps=layer.train_eps)

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.conv(values, graphs.edge_index)
        return result

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """(A + (1 + eps) I) X."""
        return torch.baddbmm(values * (1 + self.conv.eps), graphs.adjacency, values)


class Sage(GraphLayer):
    def __init__(self, width: int, layer: SageLayer) -> None:
        super().__init__()
        self.conv = SAGEConv(width, layer.out, aggr=layer.aggr, bias=layer.bias)
        self.aggr: Aggregation = layer.aggr

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.conv(values, graphs.edge_index)
        return result

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """W_l · what is gathered from the neighbours + b + W_r · own values."""
        around = gathered(self.aggr, values, graphs.adjacency)
        result: Tensor = self.conv.lin_l(around) + self.conv.lin_r(values)
        return result


class GraphConvolution(GraphLayer):
    def __init__(self, width: int, layer: GraphConvLayer) -> None:
        super().__init__()
        self.conv = GraphConv(width, layer.out, aggr=layer.aggr, bias=layer.bias)
        self.aggr: Aggregation = layer.aggr

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.conv(values, graphs.edge_index)
        return result

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """W_rel · what is gathered from the neighbours + b + W_root · own values."""
        around = gathered(self.aggr, values, graphs.adjacency)
        result: Tensor = self.conv.lin_rel(around) + self.conv.lin_root(values)
        return result
