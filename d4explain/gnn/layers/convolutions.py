"""Convolutions without edge attributes: GCN, GIN, GraphSAGE and GraphConv."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINConv, GraphConv, SAGEConv

from d4explain.gnn.graphs import DenseGraphs
from d4explain.gnn.layers.aggregation import aggregate
from d4explain.gnn.layers.forms import Convolution, WeightedConvolution
from d4explain.gnn.spec import GcnLayer, GinLayer, GinSumLayer, GraphConvLayer, SageLayer


def gcn_propagate(values: Tensor, adjacency: Tensor) -> Tensor:
    """P X with P = D^(-1/2) (A + I) D^(-1/2), D the weighted degrees of A + I.

    D is at least 1, so the gradient is finite at every soft adjacency.
    """
    scale = (adjacency.sum(dim=2, keepdim=True) + 1).rsqrt()  # [batch, node, 1]
    scaled = values * scale
    # torch.baddbmm computes A X + X in one pass
    return torch.baddbmm(scaled, adjacency, scaled) * scale


class Gcn(WeightedConvolution):
    def __init__(self, width: int, layer: GcnLayer) -> None:
        super().__init__()
        self.conv = GCNConv(width, layer.out)

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """P X W + b."""
        propagated = gcn_propagate(self.conv.lin(values), self.adjacency(graphs))
        result: Tensor = propagated + self.conv.bias
        return result


class Gin(Convolution):
    def __init__(self, width: int, layer: GinLayer) -> None:
        super().__init__()
        inner = nn.Sequential(
            nn.Linear(width, layer.hidden), nn.ReLU(), nn.Linear(layer.hidden, layer.out)
        )
        self.conv = GINConv(inner, train_eps=layer.train_eps)

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """MLP((A + (1 + eps) I) X)."""
        own = values * (1 + self.conv.eps)
        result: Tensor = self.conv.nn(own.baddbmm_(graphs.adjacency, values))
        return result


class GinSum(Convolution):
    def __init__(self, _width: int, layer: GinSumLayer) -> None:
        super().__init__()
        self.conv = GINConv(nn.Identity(), train_eps=layer.train_eps)

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """(A + (1 + eps) I) X."""
        return torch.baddbmm(values * (1 + self.conv.eps), graphs.adjacency, values)


class Sage(Convolution):
    def __init__(self, width: int, layer: SageLayer) -> None:
        super().__init__()
        self.conv = SAGEConv(width, layer.out, aggr=layer.aggr, bias=layer.bias)
        self._layer = layer

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """W_l · aggregated neighbours + b + W_r · own values."""
        aggregated = aggregate(self._layer.aggr, values, graphs.adjacency)
        result: Tensor = self.conv.lin_l(aggregated) + self.conv.lin_r(values)
        return result


class GraphConvolution(WeightedConvolution):
    def __init__(self, width: int, layer: GraphConvLayer) -> None:
        super().__init__()
        self.conv = GraphConv(width, layer.out, aggr=layer.aggr, bias=layer.bias)
        self._layer = layer

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """W_rel · aggregated neighbours + b + W_root · own values."""
        aggregated = aggregate(self._layer.aggr, values, self.adjacency(graphs))
        result: Tensor = self.conv.lin_rel(aggregated) + self.conv.lin_root(values)
        return result
