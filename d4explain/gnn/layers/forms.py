"""Base classes of all layers: one set of weights with a sparse and an equal dense form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from d4explain.gnn.errors import NoEdgeAttributesError
from d4explain.gnn.graphs import DenseGraphs, SparseGraphs


def require_edge_attributes(edge_attributes: Tensor | None) -> Tensor:
    if edge_attributes is None:
        raise NoEdgeAttributesError
    return edge_attributes


class GraphLayer(nn.Module, ABC):
    """One layer in two forms with shared weights; they are equal where the adjacency is 0/1."""

    @property
    def has_dense(self) -> bool:
        """Whether the layer has a dense form; plug-ins may lack it."""
        return True

    @abstractmethod
    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        """[node of all graphs, width] → the same; [graph, width] after the pool."""

    @abstractmethod
    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """[batch, node, width] → the same; [batch, width] after the pool."""


class Convolution(GraphLayer):
    """A layer whose sparse form is a PyG convolution without edge attributes."""

    conv: Any

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.conv(values, graphs.edge_index)
        return result


class WeightedConvolution(Convolution):
    """A convolution that may read one weight per edge, as its only edge attribute."""

    weighted: bool = False  # whether this layer of this GNN reads weights

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        if not self.weighted:
            return super().sparse(values, graphs)
        weights = require_edge_attributes(graphs.edge_attributes)[:, 0]
        result: Tensor = self.conv(values, graphs.edge_index, weights)
        return result

    def adjacency(self, graphs: DenseGraphs) -> Tensor:
        """The adjacency times the weights of edges: [batch, node, node]."""
        if not self.weighted:
            return graphs.adjacency
        return graphs.adjacency * require_edge_attributes(graphs.edge_attributes)[..., 0]


class Rowwise(GraphLayer):
    """A layer that maps each row separately, so both forms are the same."""

    @abstractmethod
    def rows(self, values: Tensor) -> Tensor:
        """[row, width] → [row, width]."""

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        return self.rows(values)

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        return self.rows(values)
