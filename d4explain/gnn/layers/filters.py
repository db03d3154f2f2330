"""Convolutions by polynomials of a normalised adjacency, and the energetic GNN's."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.nn import ChebConv, GCNConv, TAGConv

from d4explain.gnn.graphs import DenseGraphs, SparseGraphs
from d4explain.gnn.layers.convolutions import smoothed
from d4explain.gnn.layers.forms import GraphLayer
from d4explain.gnn.spec import ChebLayer, EgnnLayer, TagLayer


class Tag(GraphLayer):
    def __init__(self, width: int, layer: TagLayer) -> None:
        super().__init__()
        self.conv = TAGConv(width, layer.out, K=layer.k, bias=layer.bias)

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.conv(values, graphs.edge_index)
        return result

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """Σ W_n P^n X + b."""
        first, *others = self.conv.lins
        result: Tensor = first(values)
        for linear in others:
            values = _spread(values, graphs.adjacency)
            result = result + linear(values)
        return result if self.conv.bias is None else result + self.conv.bias


class Cheb(GraphLayer):
    def __init__(self, width: int, layer: ChebLayer) -> None:
        super().__init__()
        self.conv = ChebConv(width, layer.out, K=layer.k, bias=layer.bias)

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.conv(values, graphs.edge_index)
        return result

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """Σ W_n T_n(-P) X + b with T_n = 2 (-P) T_(n-1) - T_(n-2)."""
        first, second, *others = self.conv.lins
        before, now = values, -_spread(values, graphs.adjacency)
        result: Tensor = first(before) + second(now)
        for linear in others:
            before, now = now, -2 * _spread(now, graphs.adjacency) - before
            result = result + linear(now)
        return result if self.conv.bias is None else result + self.conv.bias


class Egnn(GraphLayer):
    """Zhou et al. 2021 without their activation; what they add of the first values is `start`."""

    def __init__(self, width: int, layer: EgnnLayer) -> None:
        super().__init__()
        self.alpha, self.beta = layer.alpha, layer.beta
        self.conv = GCNConv(width, layer.out, bias=False)  # P X W
        nn.init.orthogonal_(self.conv.lin.weight)

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        return self._mixed(self.conv(values, graphs.edge_index), self.conv.lin(values))

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        own = self.conv.lin(values)
        return self._mixed(smoothed(own, graphs.adjacency), own)

    def _mixed(self, around: Tensor, own: Tensor) -> Tensor:
        """[(1 - alpha - beta) P X + alpha X] W."""
        return (1 - self.alpha - self.beta) * around + self.alpha * own

    def start(self, first: Tensor) -> Tensor:
        """beta X_0 W, in either form."""
        result: Tensor = self.beta * self.conv.lin(first)
        return result


def _spread(values: Tensor, adjacency: Tensor) -> Tensor:
    """P X with P = D^(-1/2) A D^(-1/2), D the weighted degrees, of less than one edge taken as 1.

    So P fades to the 0 of a lone node and has a slope there, where A / D would jump.
    """
    scale = adjacency.sum(dim=2, keepdim=True).clamp(min=1).rsqrt()  # [batch, node, 1]
    return (adjacency @ (values * scale)) * scale
