"""Joins a pattern to a graph, and deletes edges of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph


def joined(graph: Graph, part: Graph, link: tuple[int, int]) -> Graph:
    """Both graphs with an edge from a node of the graph to a node of the part.

    The marked node is the part's.
    """
    source, end = link
    pair = torch.tensor([[source], [graph.node_count + end]])
    features = torch.cat([graph.features, part.features])
    return replace(
        graph,
        features=features,
        edges=torch.cat([graph.edges, part.edges + graph.node_count, pair], dim=1),
        target=None if part.target is None else graph.node_count + part.target,
        edge_attributes=_joined_attributes(graph, part, features, pair),
    )


def without_edges(graph: Graph, pairs: Sequence[tuple[int, int]]) -> Graph:
    """The graph without the given edges, in either direction."""
    removed = {(min(pair), max(pair)) for pair in pairs}
    kept = torch.tensor([tuple(edge) not in removed for edge in graph.edges.T.tolist()]).bool()
    attributes = graph.edge_attributes
    return replace(
        graph,
        edges=graph.edges[:, kept],
        edge_attributes=None if attributes is None else attributes[kept],
    )


def _joined_attributes(graph: Graph, part: Graph, features: Tensor, new: Tensor) -> Tensor | None:
    """Attributes of the graph's edges, the part's and the `new` [2, edge] edge, in this order."""
    if graph.edge_attributes is None or part.edge_attributes is None:
        return None
    if graph.usual is not None:
        added = graph.usual.of_pairs(features, new[0], new[1])
    else:
        added = graph.edge_attributes.new_zeros(new.shape[1], graph.edge_attributes.shape[1])
    return torch.cat([graph.edge_attributes, part.edge_attributes, added])
