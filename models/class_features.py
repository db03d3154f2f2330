"""Node features for class explanations, taken from connected parts of the class's graphs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from models.graphs import Graph
from models.subgraphs import connected_subgraph, neighbours_of

_TRIES = 8


class ClassParts:
    """Random connected subgraphs of reference graphs, whose features belong together."""

    def __init__(self, reference: Sequence[Graph], generator: torch.Generator) -> None:
        self._reference = [graph.cpu() for graph in reference if graph.node_count > 0]
        self._neighbours: dict[int, list[list[int]]] = {}
        self._generator = generator

    @property
    def largest(self) -> int:
        """Nodes of the largest reference graph; 0 if there is none."""
        return max((graph.node_count for graph in self._reference), default=0)

    def draw(self, nodes: int) -> Graph:
        """A connected subgraph of exactly that many nodes.

        Where no component drawn is large enough, the features of nodes drawn one by one from one
        reference graph, without edges.
        """
        for _ in range(_TRIES):
            chosen = self._choose()
            if self._reference[chosen].node_count < nodes:
                continue
            if chosen not in self._neighbours:
                self._neighbours[chosen] = neighbours_of(self._reference[chosen])
            part = connected_subgraph(
                self._reference[chosen], self._neighbours[chosen], nodes, self._generator
            )
            if part.node_count == nodes:
                return part
        graph = self._reference[self._choose()]
        rows = torch.randint(graph.node_count, (nodes,), generator=self._generator)
        no_edges = torch.empty(2, 0, dtype=torch.int64)
        if graph.target is None:
            return Graph(graph.features[rows], no_edges)
        rows[0] = graph.target  # comes first, as in a connected subgraph
        return Graph(graph.features[rows], no_edges, target=0)

    def _choose(self) -> int:
        return int(torch.randint(len(self._reference), (1,), generator=self._generator))
