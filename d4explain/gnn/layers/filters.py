"""Convolutions by polynomials of a normalised adjacency, and that of the energetic GNN."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.nn import APPNP, ChebConv, GCNConv, TAGConv

from d4explain.gnn.graphs import DenseGraphs, SparseGraphs
from d4explain.gnn.layers.convolutions import gcn_propagate
from d4explain.gnn.layers.forms import Convolution, GraphLayer, WeightedConvolution
from d4explain.gnn.spec import AppnpLayer, ChebLayer, EgnnLayer, TagLayer


class Tag(Convolution):
    def __init__(self, width: int, layer: TagLayer) -> None:
        super().__init__()
        self.conv = TAGConv(width, layer.out, K=layer.k, bias=layer.bias)

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """Σ W_n P^n X + b."""
        first, *others = self.conv.lins
        result: Tensor = first(values)
        for linear in others:
            values = _propagate(values, graphs.adjacency)
            result = result + linear(values)
        return result if self.conv.bias is None else result + self.conv.bias


class Cheb(Convolution):
    def __init__(self, width: int, layer: ChebLayer) -> None:
        super().__init__()
        self.conv = ChebConv(width, layer.out, K=layer.k, bias=layer.bias)

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """Σ W_n T_n(-P) X + b with T_n = 2 (-P) T_(n-1) - T_(n-2)."""
        first, second, *others = self.conv.lins
        previous, current = values, -_propagate(values, graphs.adjacency)
        result: Tensor = first(previous) + second(current)
        for linear in others:
            next_term = -2 * _propagate(current, graphs.adjacency) - previous
            previous, current = current, next_term
            result = result + linear(current)
        return result if self.conv.bias is None else result + self.conv.bias


class Appnp(WeightedConvolution):
    def __init__(self, _width: int, layer: AppnpLayer) -> None:
        super().__init__()
        self.conv = APPNP(layer.k, layer.alpha)

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """K times Z = (1 - alpha) P Z + alpha X."""
        adjacency = self.adjacency(graphs)
        result = values
        for _ in range(self.conv.K):
            propagated = gcn_propagate(result, adjacency)
            result = (1 - self.conv.alpha) * propagated + self.conv.alpha * values
        return result


class Egnn(GraphLayer):
    """Zhou et al. 2021 without their activation; the network adds `start` of the first values."""

    def __init__(self, width: int, layer: EgnnLayer) -> None:
        super().__init__()
        self.alpha, self.beta = layer.alpha, layer.beta
        self.conv = GCNConv(width, layer.out, bias=False)  # P X W
        nn.init.orthogonal_(self.conv.lin.weight)

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        return self._mixed(self.conv(values, graphs.edge_index), self.conv.lin(values))

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        own = self.conv.lin(values)
        return self._mixed(gcn_propagate(own, graphs.adjacency), own)

    def _mixed(self, propagated: Tensor, own: Tensor) -> Tensor:
        """[(1 - alpha - beta) P X + alpha X] W."""
        return (1 - self.alpha - self.beta) * propagated + self.alpha * own

    def start(self, first: Tensor) -> Tensor:
        """beta X_0 W, in either form."""
        result: Tensor = self.beta * self.conv.lin(first)
        return result


def _propagate(values: Tensor, adjacency: Tensor) -> Tensor:
    """P X with P = D^(-1/2) A D^(-1/2), D = max(weighted degree, 1).

    The minimum of 1 makes P continuous at an isolated node, where it is 0, with a finite gradient.
    """
    scale = adjacency.sum(dim=2, keepdim=True).clamp(min=1).rsqrt()  # [batch, node, 1]
    return (adjacency @ (values * scale)) * scale
