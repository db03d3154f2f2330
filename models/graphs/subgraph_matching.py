"""Finds a pattern in graphs as an induced subgraph with matching node types.

Node sets are bits of Python integers, so one operation restricts all candidates for a pattern node
to the neighbours of a placed node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from d4explain.gnn.graphs import Graph
from models.graphs.subgraphs import Neighbours, neighbours_of

# Placements of single nodes tried in one graph. A pattern of a dozen nodes needs tens in a sparse
# graph. In a dense graph without types, an unlimited search could take hours.
_MAX_PLACEMENTS = 20_000


@dataclass(frozen=True)
class TypedGraph:
    """A graph to search; each integer is a set of nodes, bit i for node i."""

    adjacency: list[int]  # neighbours of each node
    of_type: dict[int, int]  # type → its nodes
    degree_at_least: list[int]  # degree → nodes with at least that degree
    target: int | None

    @staticmethod
    def of(graph: Graph, types: Sequence[int]) -> TypedGraph:
        neighbours = neighbours_of(graph)
        of_type: dict[int, int] = {}
        for node, kind in enumerate(types):
            of_type[kind] = of_type.get(kind, 0) | 1 << node
        degrees = [len(nodes) for nodes in neighbours]
        return TypedGraph(
            adjacency=[node_set(nodes) for nodes in neighbours],
            of_type=of_type,
            degree_at_least=[
                node_set([node for node, own in enumerate(degrees) if own >= degree])
                for degree in range(max(degrees, default=0) + 1)
            ],
            target=graph.target,
        )

    @property
    def node_count(self) -> int:
        return len(self.adjacency)

    def without_edge(self, source: int, target: int) -> TypedGraph:
        """A copy; its `degree_at_least` may have too many nodes, which costs time only."""
        adjacency = list(self.adjacency)
        adjacency[source] &= ~(1 << target)
        adjacency[target] &= ~(1 << source)
        return replace(self, adjacency=adjacency)


@dataclass(frozen=True)
class Pattern:
    """A pattern's nodes in the order of placement."""

    order: list[int]  # position → node of the pattern
    types: list[int]
    neighbours: list[list[int]]  # positions of the neighbours that are placed earlier
    strangers: list[list[int]]  # positions of the other nodes that are placed earlier
    degrees: list[int]
    target: int | None  # position of the marked node

    @staticmethod
    def of(graph: Graph, types: Sequence[int]) -> Pattern:
        neighbours = neighbours_of(graph)
        order = _placement_order(neighbours, graph.target)
        place = {node: position for position, node in enumerate(order)}
        earlier = [[place[other] for other in neighbours[node]] for node in order]
        linked = [
            [other for other in others if other < position]
            for position, others in enumerate(earlier)
        ]
        return Pattern(
            order=order,
            types=[types[node] for node in order],
            neighbours=linked,
            strangers=[
                [other for other in range(position) if other not in linked[position]]
                for position in range(len(order))
            ],
            degrees=[len(neighbours[node]) for node in order],
            target=None if graph.target is None else place[graph.target],
        )

    def occurrence(self, graph: TypedGraph, excluded: int = 0) -> list[int] | None:
        """For each node of the pattern a node of the graph; None if a bounded search finds none.

        The marked node lies on the marked node. `excluded` is a set of nodes that are not used.
        """
        if graph.node_count < len(self.order):
            return None
        search = _Search(self, graph)
        if not search.place(0, excluded):
            return None
        found = [0] * len(self.order)
        for node, host_node in zip(self.order, search.taken, strict=True):
            found[node] = host_node
        return found

    def disjoint_occurrences(self, graph: TypedGraph) -> int:
        """The number of occurrences without a common node, taken one after the other."""
        count, taken = 0, 0
        while (found := self.occurrence(graph, taken)) is not None:
            taken |= node_set(found)
            count += 1
        return count


class _Search:
    def __init__(self, pattern: Pattern, graph: TypedGraph) -> None:
        self.taken: list[int] = []  # the graph's node at each position
        self._pattern = pattern
        self._graph = graph
        self._placements = 0

    def place(self, position: int, used: int) -> bool:
        if position == len(self._pattern.order):
            return True
        left = self._candidates(position) & ~used
        while left:
            self._placements += 1
            if self._placements > _MAX_PLACEMENTS:
                return False
            lowest = left & -left
            left ^= lowest
            self.taken.append(lowest.bit_length() - 1)
            if self.place(position + 1, used | lowest):
                return True
            self.taken.pop()
        return False

    def _candidates(self, position: int) -> int:
        pattern, graph = self._pattern, self._graph
        if pattern.degrees[position] >= len(graph.degree_at_least):
            return 0
        nodes = graph.degree_at_least[pattern.degrees[position]]
        nodes &= graph.of_type.get(pattern.types[position], 0)
        for other in pattern.neighbours[position]:
            nodes &= graph.adjacency[self.taken[other]]
        for other in pattern.strangers[position]:
            nodes &= ~graph.adjacency[self.taken[other]]
        if graph.target is not None:
            marked = 1 << graph.target
            nodes &= marked if position == pattern.target else ~marked
        return nodes


def node_set(nodes: Sequence[int]) -> int:
    """Bit i is set for node i."""
    result = 0
    for node in nodes:
        result |= 1 << node
    return result


def nodes_in(bits: int) -> list[int]:
    """The nodes of a set, ascending."""
    nodes = []
    while bits:
        lowest = bits & -bits
        nodes.append(lowest.bit_length() - 1)
        bits ^= lowest
    return nodes


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
