"""The edits that turn one graph into another, given which nodes correspond."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.global_counterfactuals.alignment import Alignments
from models.global_counterfactuals.typed_graphs import NO_NODE, TypedGraph


@dataclass(frozen=True)
class EditPath:
    """Edits from a graph to a pattern, each with cost 1; applying them gives the pattern.

    Nodes of the graph keep their numbers. Inserted nodes have the numbers that follow.
    """

    retyped: tuple[tuple[int, int], ...]  # node, new type
    inserted: tuple[int, ...]  # types of new nodes
    removed: tuple[int, ...]  # nodes, after all their edges
    added_edges: tuple[tuple[int, int], ...]
    removed_edges: tuple[tuple[int, int], ...]
    places: tuple[int, ...]  # for each node of the pattern, the graph's node or an inserted one

    @property
    def cost(self) -> int:
        return (
            len(self.retyped)
            + len(self.inserted)
            + len(self.removed)
            + len(self.added_edges)
            + len(self.removed_edges)
        )


def edit_path(pattern: TypedGraph, graph: TypedGraph, alignments: Alignments, row: int) -> EditPath:
    """The path of one aligned graph; the slots of the pattern come first, in its order."""
    nodes: list[int] = alignments.nodes[row].tolist()
    places: list[int] = []
    inserted: list[int] = []
    for slot, node in enumerate(nodes[: pattern.node_count]):
        if node == NO_NODE:
            places.append(graph.node_count + len(inserted))
            inserted.append(int(pattern.types[slot]))
        else:
            places.append(node)
    retyped = [
        (node, int(pattern.types[slot]))
        for slot, node in enumerate(places)
        if node < graph.node_count and graph.types[node] != pattern.types[slot]
    ]
    wanted = {_pair(places[one], places[other]) for one, other in _edges(pattern)}
    present = set(_edges(graph))
    return EditPath(
        tuple(retyped),
        tuple(inserted),
        tuple(sorted(set(range(graph.node_count)) - set(places))),
        tuple(sorted(wanted - present)),
        tuple(sorted(present - wanted)),
        tuple(places),
    )


def applied(graph: TypedGraph, path: EditPath) -> TypedGraph:
    """The graph after the edits, its nodes in the order of the pattern."""
    total = graph.node_count + len(path.inserted)
    types = torch.cat([graph.types, torch.tensor(path.inserted, dtype=torch.long)])
    for node, kind in path.retyped:
        types[node] = kind
    adjacency = torch.zeros(total, total)
    adjacency[: graph.node_count, : graph.node_count] = graph.adjacency
    for edges, value in ((path.removed_edges, 0.0), (path.added_edges, 1.0)):
        for one, other in edges:
            adjacency[one, other] = adjacency[other, one] = value
    if path.removed and bool(adjacency[list(path.removed)].any()):
        raise ValueError("a removed node still has edges")
    kept = list(path.places)
    return TypedGraph(types[kept], adjacency[kept][:, kept])


def _edges(graph: TypedGraph) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = [tuple(pair) for pair in graph.edges.T.tolist()]
    return pairs


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


def distance(cost: Tensor, pattern_size: int, sizes: Tensor) -> Tensor:
    """Cost divided by the nodes and edges of both graphs: [graph]."""
    return cost / (pattern_size + sizes)
