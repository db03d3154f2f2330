"""Which local patterns a reference set contains: degrees, edges and neighbours by node type.

A graph may be far from the data although its degree, clustering and spectrum are usual: they do not
see node types. A pattern here is what a node of some type has around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from models.realism.node_types import NodeTypes

# Rarer patterns count as unseen: one odd graph in thousands does not make a pattern usual.
MIN_COUNT = 3
_MAX_DEGREE = 1 << 12  # of one node; keeps the codes of neighbours exact
_CODE_RANGE = 1 << 40
_SEED = 20261118
_RARELY = f"never or fewer than {MIN_COUNT} times"

PatternKind = Literal["degree", "edge", "neighbours"]


@dataclass(frozen=True)
class UnseenPattern:
    """A pattern of an edited graph that the reference set does not contain."""

    kind: PatternKind
    nodes: tuple[int, ...]
    detail: str


@dataclass(frozen=True)
class ReferencePatterns:
    """Counts of degrees, edges and neighbours in the reference graphs.

    The neighbours of a node are coded as the sum of random whole numbers, one per type, plus a
    number for its own type. The sums are exact in float64, so equal multisets have equal codes.
    """

    types: NodeTypes
    degrees: Tensor  # [type, degree] counts
    edges: Tensor  # [type, type] counts, symmetric
    codes: Tensor  # [pattern] float64, sorted
    counts: Tensor  # [pattern] of each code
    own_number: Tensor  # [type] float64
    neighbour_number: Tensor  # [type] float64

    @staticmethod
    def of(graphs: Sequence[Graph]) -> ReferencePatterns:
        if not graphs:
            raise ValueError("patterns need at least one reference graph")
        types = NodeTypes.of(graphs, free_of_degree=True)
        generator = torch.Generator().manual_seed(_SEED)
        own, neighbour = torch.randint(
            _CODE_RANGE, (2, types.count), generator=generator, dtype=torch.long
        ).double()
        type_rows, degree_rows, code_rows, pair_rows = [], [], [], []
        for graph in graphs:
            node_types = types.types(graph.features)
            source, target = graph.edges
            degree = torch.bincount(graph.edges.flatten(), minlength=graph.node_count)
            code = own[node_types].clone()
            code.index_add_(0, source, neighbour[node_types[target]])
            code.index_add_(0, target, neighbour[node_types[source]])
            type_rows.append(node_types)
            degree_rows.append(degree.clamp(max=_MAX_DEGREE))
            code_rows.append(code)
            pair_rows.append(torch.stack([node_types[source], node_types[target]]))
        all_types, all_degrees = torch.cat(type_rows), torch.cat(degree_rows)
        degrees = torch.zeros(types.count, int(all_degrees.max()) + 1)
        degrees.index_put_((all_types, all_degrees), torch.ones(len(all_types)), accumulate=True)
        one, other = torch.cat(pair_rows, dim=1)
        edges = torch.zeros(types.count, types.count)
        edges.index_put_((one, other), torch.ones(len(one)), accumulate=True)
        codes, counts = torch.unique(torch.cat(code_rows), return_counts=True)
        return ReferencePatterns(types, degrees, edges + edges.T, codes, counts, own, neighbour)

    def count_of(self, codes: Tensor) -> Tensor:
        """How often each code occurs in the reference set; same shape."""
        place = torch.searchsorted(self.codes, codes).clamp(max=len(self.codes) - 1)
        return torch.where(self.codes[place] == codes, self.counts[place], 0)


class InputPatterns:
    """The patterns of one graph while it is edited; those of the unedited graph always count."""

    def __init__(self, reference: ReferencePatterns, graph: Graph) -> None:
        self._reference = reference
        self._types = reference.types.types(graph.features)  # [node]
        nodes = graph.node_count
        base = torch.zeros(nodes, nodes, dtype=torch.bool)
        base[graph.edges[0], graph.edges[1]] = True
        self._base = base | base.T
        self._base_codes = self.codes(self._base)
        self._base_degrees = self._base.sum(dim=1)
        self._own_numbers = reference.neighbour_number[self._types]  # [node]
        self._seen_edges = reference.edges >= MIN_COUNT  # [type, type]
        one, other = self._types[graph.edges]
        self._seen_edges[one, other] = True
        self._seen_edges[other, one] = True

    def codes(self, adjacency: Tensor) -> Tensor:
        """The code of each node's neighbours in a [node, node] graph: [node] float64."""
        reference = self._reference
        neighbours = adjacency.double() @ reference.neighbour_number[self._types]
        return reference.own_number[self._types] + neighbours

    def toggles_seen(self, adjacency: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        """Whether toggling each row's pairs leaves only seen patterns: [move].

        `sources` and `targets` [move, toggle] are nodes; -1 fills shorter rows.
        """
        moves, nodes = len(sources), len(adjacency)
        used = sources >= 0
        one, other = sources.clamp(min=0), targets.clamp(min=0)
        sign = torch.where(adjacency[one, other] > 0, -1.0, 1.0).double() * used
        change = torch.zeros(moves, nodes, dtype=torch.float64)
        change.scatter_add_(1, one, sign * self._own_numbers[other])
        change.scatter_add_(1, other, sign * self._own_numbers[one])
        codes = self.codes(adjacency) + change  # [move, node]
        # A node of an unseen degree or with a neighbour of an unseen type has an unseen code.
        return self._codes_seen(codes).all(dim=1)

    def unseen(self, adjacency: Tensor) -> tuple[UnseenPattern, ...]:
        """The patterns of an edited [node, node] graph that are unseen, the most telling first."""
        found: list[UnseenPattern] = []
        degree = adjacency.bool().sum(dim=1)
        for node in (degree != self._base_degrees).nonzero()[:, 0].tolist():
            detail = self._unseen_degree(int(self._types[node]), int(degree[node]))
            if detail is not None:
                found.append(UnseenPattern("degree", (node,), detail))
        added = torch.triu(adjacency.bool() & ~self._base, diagonal=1)
        seen_pairs = self._seen_edges[self._types][:, self._types]  # [node, node]
        for one, other in (added & ~seen_pairs).nonzero().tolist():
            detail = f"an edge between node types that {_RARELY} meet in the data"
            found.append(UnseenPattern("edge", (one, other), detail))
        named = {node for pattern in found for node in pattern.nodes}
        for node in (~self._codes_seen(self.codes(adjacency))).nonzero()[:, 0].tolist():
            if node not in named:
                detail = f"neighbours of types that a node of its type {_RARELY} has in the data"
                found.append(UnseenPattern("neighbours", (node,), detail))
        return tuple(found)

    def _unseen_degree(self, kind: int, degree: int) -> str | None:
        """What is wrong with the degree of a node of this type; None if the data have it."""
        table = self._reference.degrees[kind]
        seen = (table >= MIN_COUNT).nonzero()[:, 0].tolist()
        if degree in seen:
            return None
        if not seen:
            return f"degree {degree}; nodes of its type occur {_RARELY} in the data"
        if degree > seen[-1]:
            return f"degree {degree}; nodes of its type have up to {seen[-1]} in the data"
        return f"degree {degree}; nodes of its type {_RARELY} have it in the data"

    def _codes_seen(self, codes: Tensor) -> Tensor:
        """Whether each node's neighbours are seen, or are those of the unedited graph."""
        return (self._reference.count_of(codes) >= MIN_COUNT) | (codes == self._base_codes)
