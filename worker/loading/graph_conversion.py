"""Converts posted graphs and packed reference sets to tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from d4explain.contracts.requests import CanonicalGraph
from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.graphs import Graph
from store.artifacts import graph_sets


@dataclass(frozen=True)
class LabelledGraphs:
    graphs: list[Graph]
    labels: list[int | None]

    @property
    def size_bytes(self) -> int:
        return sum(graph_bytes(graph) for graph in self.graphs)


def graph_of(
    document: CanonicalGraph, edge_features: int = 0, usual: UsualAttributes | None = None
) -> Graph:
    """Converts a posted graph.

    Editing a graph with edge attributes needs `usual`: the attributes of an added edge.
    """
    edges = torch.tensor(document.edges, dtype=torch.int64).reshape(-1, 2)
    attributes = None
    if edge_features:
        rows = torch.tensor(document.edge_attr, dtype=torch.float32)
        attributes = rows.reshape(-1, edge_features)  # works for a graph without edges, too
    return Graph(
        features=torch.tensor(document.x, dtype=torch.float32),
        edges=edges.T.contiguous(),
        edge_attributes=attributes,
        usual=usual,
    )


def unpack_graphs(data: bytes) -> LabelledGraphs:
    """Slices a packed reference set into graphs, without a Python loop over nodes."""
    packed = graph_sets.arrays(data)
    # torch.tensor copies: the arrays are views of the artifact's read-only bytes.
    features = torch.tensor(packed.x, dtype=torch.float32)
    edges = torch.tensor(packed.edges, dtype=torch.int64)  # [edge of all graphs, 2]
    nodes, starts = packed.node_ptr.tolist(), packed.edge_ptr.tolist()
    attributes = None if packed.edge_attr is None else torch.tensor(packed.edge_attr)
    graphs = [
        Graph(
            features=features[nodes[i] : nodes[i + 1]],
            edges=edges[starts[i] : starts[i + 1]].T.contiguous(),
            edge_attributes=None if attributes is None else attributes[starts[i] : starts[i + 1]],
        )
        for i in range(packed.count)
    ]
    labels = [label if label >= 0 else None for label in packed.labels.tolist()]
    return LabelledGraphs(graphs, labels)


def graph_bytes(graph: Graph) -> int:
    attributes = 0 if graph.edge_attributes is None else graph.edge_attributes.nbytes
    return graph.features.nbytes + graph.edges.nbytes + attributes
