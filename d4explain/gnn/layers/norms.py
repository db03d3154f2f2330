"""Norms over a batch, over the values of a node and over a graph."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.nn import norm

from d4explain.gnn.graphs import DenseGraphs, SparseGraphs
from d4explain.gnn.layers.forms import GraphLayer, Rowwise
from d4explain.gnn.spec import BatchNormLayer, GraphNormLayer, LayerNormLayer


class BatchNorm(Rowwise):
    def __init__(self, width: int, _layer: BatchNormLayer) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def rows(self, values: Tensor) -> Tensor:
        # BatchNorm1d expects channels second, so the rows of all graphs become one batch.
        result: Tensor = self.norm(values.reshape(-1, values.shape[-1]))
        return result.reshape(values.shape)


class LayerNormOfNodes(Rowwise):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = norm.LayerNorm(width, mode="node")

    def rows(self, values: Tensor) -> Tensor:
        result: Tensor = self.norm(values)
        return result


class LayerNormOfGraphs(GraphLayer):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = norm.LayerNorm(width, mode="graph")

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.norm(values, graphs.graph_of_node, graphs.count)
        return result

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """(x - mean) / sqrt(variance + eps), over all values of all real nodes."""
        mean = _mean_of_nodes(values, graphs.mask).mean(dim=2, keepdim=True)
        centred = values - mean
        variance = _mean_of_nodes(centred.square(), graphs.mask).mean(dim=2, keepdim=True)
        scaled = centred * (variance + self.norm.eps).rsqrt()
        result: Tensor = scaled * self.norm.weight + self.norm.bias
        return result


class GraphNorm(GraphLayer):
    def __init__(self, width: int, _layer: GraphNormLayer) -> None:
        super().__init__()
        self.norm = norm.GraphNorm(width)

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.norm(values, graphs.graph_of_node, graphs.count)
        return result

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """y / sqrt(mean of y² + eps) with y = x - a · mean, each value over the real nodes."""
        shifted = values - _mean_of_nodes(values, graphs.mask) * self.norm.mean_scale
        square = _mean_of_nodes(shifted.square(), graphs.mask)
        scaled = shifted * (square + self.norm.eps).rsqrt()
        result: Tensor = scaled * self.norm.weight + self.norm.bias
        return result


def layer_norm(width: int, layer: LayerNormLayer) -> LayerNormOfNodes | LayerNormOfGraphs:
    return LayerNormOfNodes(width) if layer.mode == "node" else LayerNormOfGraphs(width)


def _mean_of_nodes(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the real nodes; a graph without nodes gives zeros: [batch, 1, width]."""
    total = values.masked_fill(~mask[:, :, None], 0).sum(dim=1, keepdim=True)
    return total / mask.sum(dim=1).clamp(min=1)[:, None, None]
