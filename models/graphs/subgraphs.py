"""Random connected subgraphs of reference graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph

Neighbours = Sequence[Sequence[int]]


def neighbours_of(graph: Graph) -> list[list[int]]:
    """Every node's neighbours, by position."""
    neighbours: list[list[int]] = [[] for _ in range(graph.node_count)]
    for source, target in graph.edges.T.tolist():
        neighbours[source].append(target)
        neighbours[target].append(source)
    return neighbours


def connected_subgraph(
    graph: Graph, neighbours: Neighbours, nodes: int, generator: torch.Generator
) -> Graph:
    """The subgraph on a set of nodes grown from a random node by random neighbours.

    It grows from the marked node if there is one, which becomes node 0. It has fewer than `nodes`
    nodes if the component has fewer.
    """
    choices = torch.rand(nodes, generator=generator).tolist()
    first = int(choices[0] * graph.node_count) if graph.target is None else graph.target
    position = {first: 0}
    boundary = list(neighbours[first])
    for choice in choices[1:]:
        boundary = [node for node in boundary if node not in position]
        if not boundary:
            break
        node = boundary[int(choice * len(boundary))]
        position[node] = len(position)
        boundary.extend(neighbours[node])
    return induced_subgraph(graph, neighbours, list(position))


def induced_subgraph(graph: Graph, neighbours: Neighbours, nodes: Sequence[int]) -> Graph:
    """The subgraph on the given nodes, in their order; a marked node must be among them."""
    position = {node: place for place, node in enumerate(nodes)}
    edges = [
        (node, other)
        for node in nodes
        for other in neighbours[node]
        if node < other and other in position
    ]
    kept = torch.tensor(list(nodes))
    old = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2)
    new = torch.tensor(
        [(position[node], position[other]) for node, other in edges], dtype=torch.int64
    ).reshape(-1, 2)
    return replace(
        graph,
        features=graph.features[kept],
        edges=new.sort(dim=1).values.T.contiguous(),
        target=None if graph.target is None else position[graph.target],
        edge_attributes=_attributes_of(graph, old),
    )


def _attributes_of(graph: Graph, edges: Tensor) -> Tensor | None:
    """Attributes of the given [edge, 2] edges, source < target: [edge, attribute]."""
    if graph.edge_attributes is None:
        return None
    known = graph.edges[0] * graph.node_count + graph.edges[1]
    wanted = edges[:, 0] * graph.node_count + edges[:, 1]
    ordered, order = known.sort()
    return graph.edge_attributes[order[torch.searchsorted(ordered, wanted)]]
