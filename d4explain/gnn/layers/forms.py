"""The base of all layers: one set of weights with a sparse and an equal dense form."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from d4explain.gnn.errors import NoEdgeAttributesError
from d4explain.gnn.graphs import DenseGraphs, SparseGraphs


def required(edge_attributes: Tensor | None) -> Tensor:
    """The edge attributes of the graphs, for a layer that reads them."""
    if edge_attributes is None:
        raise NoEdgeAttributesError
    return edge_attributes


class GraphLayer(nn.Module, ABC):
    """One layer with shared weights in two forms, equal wherever the adjacency is 0/1."""

    @property
    def has_dense(self) -> bool:
        """Whether the layer has a dense form; external layers may lack it."""
        return True

    @abstractmethod
    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        """[node of all graphs, width] → the same; [graph, width] behind the pool."""

    @abstractmethod
    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """[batch, node, width] → the same; [batch, width] behind the pool."""


class Rowwise(GraphLayer):
    """A layer that treats every row alone, so that both forms are the same."""

    @abstractmethod
    def rows(self, values: Tensor) -> Tensor:
        """[row, width] → [row, width]."""

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        return self.rows(values)

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        return self.rows(values)
