"""Recurrence of a pattern: the number of graphs that contain it as a subgraph with features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from models.graphs.subgraphs import Neighbours, neighbours_of

# Maximum placements of single nodes. A pattern of a dozen nodes needs hundreds in a sparse graph.
# In a dense graph without features, an unlimited search could take hours.
_PLACEMENTS_PER_GRAPH = 20_000


@dataclass
class _Effort:
    """The placements that a search may still try."""

    placements: int

    @property
    def is_spent(self) -> bool:
        return self.placements < 0


@dataclass(frozen=True)
class _Host:
    """A graph to search; the colour of a node is the index of its feature row."""

    neighbours: list[set[int]]
    nodes_of_colour: dict[int, list[int]]
    colours: list[int]
    target: int | None


class SubgraphIndex:
    """Graphs to search for patterns.

    Nodes match if their feature rows are equal. If most rows are unique, as with measurements, no
    pattern could recur, so features are ignored.
    """

    def __init__(self, graphs: Sequence[Graph]) -> None:
        rows = torch.cat([graph.features for graph in graphs]).cpu()
        self._rows, coloured = torch.unique(rows, dim=0, return_inverse=True)
        self.features_count = are_categories(rows)
        if not self.features_count:
            coloured = torch.zeros_like(coloured)
        sizes = [graph.node_count for graph in graphs]
        self._hosts = [
            _host(graph, colours.tolist())
            for graph, colours in zip(graphs, coloured.split(sizes), strict=True)
        ]

    @property
    def count(self) -> int:
        return len(self._hosts)

    def containing(self, pattern: Graph, effort: int | None = None) -> int | None:
        """Number of graphs that contain the pattern; marked nodes match marked nodes only.

        None if the search needs more than `effort` placements of single nodes.
        """
        search = self._search(pattern)
        if search is None:
            return 0
        left = _Effort(_PLACEMENTS_PER_GRAPH * self.count if effort is None else effort)
        found = sum(search.occurs_in(host, left) for host in self._hosts)
        return None if left.is_spent else found

    def contain(self, pattern: Graph) -> bool:
        """Whether a bounded search finds the pattern in any of the graphs."""
        search = self._search(pattern)
        return search is not None and any(
            search.occurs_in(host, _Effort(_PLACEMENTS_PER_GRAPH)) for host in self._hosts
        )

    def _search(self, pattern: Graph) -> _Search | None:
        """The search for a pattern; None if one of its nodes matches no node of any graph."""
        if not self.features_count:
            return _Search.of(pattern, [0] * pattern.node_count)
        equal = (pattern.features.cpu()[:, None] == self._rows).all(dim=2)  # [node, distinct row]
        if not bool(equal.any(dim=1).all()):
            return None
        return _Search.of(pattern, equal.int().argmax(dim=1).tolist())


@dataclass(frozen=True)
class _Search:
    """A pattern's nodes in the order of placement."""

    colours: list[int]
    before: list[list[int]]  # positions of the neighbours that are placed earlier
    degrees: list[int]
    target: int | None  # position of the marked node

    @staticmethod
    def of(pattern: Graph, colours: list[int]) -> _Search:
        neighbours = neighbours_of(pattern)
        order = _placement_order(neighbours, pattern.target)
        place = {node: position for position, node in enumerate(order)}
        return _Search(
            colours=[colours[node] for node in order],
            before=[
                [place[other] for other in neighbours[node] if place[other] < place[node]]
                for node in order
            ],
            degrees=[len(neighbours[node]) for node in order],
            target=None if pattern.target is None else place[pattern.target],
        )

    def occurs_in(self, host: _Host, left: _Effort) -> bool:
        return len(host.colours) >= len(self.colours) and self._place_next([], host, left)

    def _place_next(self, taken: list[int], host: _Host, left: _Effort) -> bool:
        position = len(taken)
        if position == len(self.colours):
            return True
        for node in self._candidates(position, taken, host):
            left.placements -= 1
            if left.is_spent:
                return False
            if self._fits(position, node, taken, host):
                taken.append(node)
                if self._place_next(taken, host, left):
                    return True
                taken.pop()
        return False

    def _candidates(self, position: int, taken: list[int], host: _Host) -> Sequence[int]:
        if position == self.target and host.target is not None:
            return [host.target]
        if self.before[position]:
            return list(host.neighbours[taken[self.before[position][0]]])
        return host.nodes_of_colour.get(self.colours[position], [])

    def _fits(self, position: int, node: int, taken: list[int], host: _Host) -> bool:
        return (
            host.colours[node] == self.colours[position]
            and len(host.neighbours[node]) >= self.degrees[position]
            and node not in taken
            and (position == self.target) == (node == host.target)
            and all(taken[place] in host.neighbours[node] for place in self.before[position])
        )


def are_categories(rows: Tensor) -> bool:
    """Whether [node, feature] rows repeat so often that they are node kinds."""
    return 2 * len(torch.unique(rows, dim=0)) <= len(rows)


def _host(graph: Graph, colours: list[int]) -> _Host:
    nodes_of_colour: dict[int, list[int]] = {}
    for node, colour in enumerate(colours):
        nodes_of_colour.setdefault(colour, []).append(node)
    neighbours = [set(nodes) for nodes in neighbours_of(graph)]
    return _Host(neighbours, nodes_of_colour, colours, graph.target)


def _placement_order(neighbours: Neighbours, first: int | None) -> list[int]:
    """Nodes with the most placed neighbours first, then those with the most neighbours."""
    order: list[int] = [] if first is None else [first]
    left = set(range(len(neighbours))).difference(order)
    while left:
        placed = set(order)
        best = max(
            left,
            key=lambda node: (len(placed.intersection(neighbours[node])), len(neighbours[node])),
        )
        order.append(best)
        left.remove(best)
    return order
