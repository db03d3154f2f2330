"""Node features for class explanations, taken from connected parts of the class's graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import torch

from d4explain.gnn.graphs import Graph
from models.classes.regularisers import DegreeLimits, are_categories
from models.graphs.subgraphs import connected_subgraph, neighbours_of

_TRIES = 8  # parts drawn in search of one that is large enough
_SIZED_PARTS = 64  # parts for the typical size


class ClassParts:
    """Random connected subgraphs of reference graphs, with their node features."""

    def __init__(self, reference: Sequence[Graph], generator: torch.Generator) -> None:
        self._reference = [graph.cpu() for graph in reference if graph.node_count > 0]
        self._neighbours: dict[int, list[list[int]]] = {}
        self._generator = generator

    @property
    def empty(self) -> bool:
        """Whether no reference graph has a node."""
        return not self._reference

    @cached_property
    def kinds(self) -> bool:
        """Whether feature rows are node kinds, so that patterns can recur with them."""
        return are_categories(torch.cat([graph.features for graph in self._reference]))

    def typical_size(self, most: int) -> int:
        """Median size of random connected parts of at most `most` nodes."""
        reached = [self._part(self._choose(), most).node_count for _ in range(_SIZED_PARTS)]
        return int(torch.tensor(reached).median())

    def draw(self, nodes: int) -> Graph:
        """A connected subgraph of exactly that many nodes.

        If no drawn component is large enough, it returns random nodes of one reference graph,
        without edges.
        """
        for _ in range(_TRIES):
            chosen = self._choose()
            if self._reference[chosen].node_count < nodes:
                continue
            part = self._part(chosen, nodes)
            if part.node_count == nodes:
                return part
        graph = self._reference[self._choose()]
        rows = torch.randint(graph.node_count, (nodes,), generator=self._generator)
        if graph.target is not None:
            rows[0] = graph.target  # comes first, as in a connected subgraph
        return replace(
            graph,
            features=graph.features[rows],
            edges=graph.edges[:, :0],
            target=None if graph.target is None else 0,
            edge_attributes=None if graph.edge_attributes is None else graph.edge_attributes[:0],
        )

    def degree_limits(self) -> DegreeLimits:
        return DegreeLimits.of(self._reference)

    def _part(self, chosen: int, nodes: int) -> Graph:
        graph = self._reference[chosen]
        if chosen not in self._neighbours:
            self._neighbours[chosen] = neighbours_of(graph)
        return connected_subgraph(graph, self._neighbours[chosen], nodes, self._generator)

    def _choose(self) -> int:
        return int(torch.randint(len(self._reference), (1,), generator=self._generator))
