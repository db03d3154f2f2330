"""Graphs as node types and an adjacency, and batches of them in slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from models.realism.node_types import NodeTypes

NO_NODE = -1  # the type of an empty slot


@dataclass(frozen=True)
class TypedGraph:
    """A graph as edit paths see it: the types of its nodes and its edges."""

    types: Tensor  # [node] int64
    adjacency: Tensor  # [node, node] 0/1, symmetric, zero diagonal

    @staticmethod
    def of(graph: Graph, types: NodeTypes) -> TypedGraph:
        adjacency = torch.zeros(graph.node_count, graph.node_count)
        source, target = graph.edges.cpu()
        adjacency[source, target] = 1.0
        adjacency[target, source] = 1.0
        return TypedGraph(types.types(graph.features.cpu()), adjacency)

    @property
    def node_count(self) -> int:
        return len(self.types)

    @property
    def edge_count(self) -> int:
        return int(self.adjacency.sum()) // 2

    @property
    def size(self) -> int:
        """Nodes and edges."""
        return self.node_count + self.edge_count

    @property
    def edges(self) -> Tensor:
        """[2, edge], source < target."""
        return self.adjacency.triu(1).nonzero().T.contiguous()

    def key(self) -> tuple[bytes, bytes]:
        return self.types.numpy().tobytes(), self.adjacency.numpy().tobytes()


@dataclass(frozen=True)
class Slots:
    """Graphs in a common number of slots; slots without a node have the type `NO_NODE`."""

    types: Tensor  # [graph, slot] int64
    adjacency: Tensor  # [graph, slot, slot]

    @staticmethod
    def of(graphs: Sequence[TypedGraph], slots: int) -> Slots:
        types = torch.full((len(graphs), slots), NO_NODE)
        adjacency = torch.zeros(len(graphs), slots, slots)
        for row, graph in enumerate(graphs):
            nodes = graph.node_count
            types[row, :nodes] = graph.types
            adjacency[row, :nodes, :nodes] = graph.adjacency
        return Slots(types, adjacency)

    @property
    def sizes(self) -> Tensor:
        """Nodes and edges of each graph: [graph]."""
        return (self.types != NO_NODE).sum(dim=1) + self.adjacency.sum(dim=(1, 2)) / 2

    def graph(self, row: int) -> TypedGraph:
        kept = self.types[row] != NO_NODE
        return TypedGraph(self.types[row][kept], self.adjacency[row][kept][:, kept])

    def reordered(self, order: Tensor) -> Slots:
        """Each graph with the content of slot `order[graph, slot]` in each slot."""
        slots = order.shape[1]
        rows = torch.gather(self.adjacency, 1, order[:, :, None].expand(-1, -1, slots))
        return Slots(
            torch.gather(self.types, 1, order),
            torch.gather(rows, 2, order[:, None, :].expand(-1, slots, -1)),
        )
