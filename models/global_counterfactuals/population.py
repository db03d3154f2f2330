"""The graphs that are to be covered, and bounds on their distances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from models.global_counterfactuals.moves import PatternRules
from models.global_counterfactuals.typed_graphs import TypedGraph
from models.realism.node_types import NodeTypes


@dataclass(frozen=True)
class Population:
    """Typed graphs with the counts that bounds need."""

    graphs: list[TypedGraph]
    type_counts: Tensor  # [graph, type]
    pair_counts: Tensor  # [graph, pair of types] edges
    sizes: Tensor  # [graph] nodes and edges
    nodes: Tensor  # [graph]

    @staticmethod
    def of(graphs: list[TypedGraph], kinds: int) -> Population:
        counted = [_counts(graph, kinds) for graph in graphs]
        if not counted:
            nothing = torch.zeros(0, kinds), torch.zeros(0, kinds * kinds)
            return Population([], *nothing, torch.zeros(0), torch.zeros(0))
        return Population(
            graphs,
            torch.stack([types for types, _ in counted]),
            torch.stack([pairs for _, pairs in counted]),
            torch.tensor([graph.size for graph in graphs]),
            torch.tensor([graph.node_count for graph in graphs]),
        )

    @property
    def count(self) -> int:
        return len(self.graphs)

    def bounds(self, pattern: TypedGraph) -> Tensor:
        """Costs below which no edit path to the pattern can be: [graph].

        Each edit changes one count of node types, or the number of edges, by one.
        """
        types, pairs = _counts(pattern, self.type_counts.shape[1])
        return self._type_bound(pattern, types) + (self.pair_counts.sum(1) - pairs.sum()).abs()

    def estimates(self, pattern: TypedGraph) -> Tensor:
        """A guess of the cost to the pattern, not below the bound: [graph].

        Half of the differences of node types and of edges by the types of their ends. A new type
        changes several of these at once, so this is no bound.
        """
        types, pairs = _counts(pattern, self.type_counts.shape[1])
        edges = (self.pair_counts - pairs).abs().sum(dim=1) / 2
        guess = (self._type_bound(pattern, types) + edges) / 2
        return torch.maximum(guess, self.bounds(pattern))

    def _type_bound(self, pattern: TypedGraph, types: Tensor) -> Tensor:
        common = torch.minimum(self.type_counts, types).sum(dim=1)
        return self.nodes.clamp_min(pattern.node_count) - common


def usual_rows(graphs: Sequence[Graph], types: NodeTypes) -> Tensor:
    """The most frequent feature row of each type: [type, feature]."""
    features = torch.cat([graph.features.cpu() for graph in graphs])
    kinds = types.types(features)
    rows, row_of = torch.unique(features, dim=0, return_inverse=True)
    usual = features.new_zeros(types.count, features.shape[1])
    for kind in set(kinds.tolist()):
        usual[kind] = rows[torch.bincount(row_of[kinds == kind]).argmax()]
    return usual


def pattern_rules(graphs: Iterable[TypedGraph], kinds: int) -> PatternRules:
    highest = torch.zeros(kinds)
    meets = torch.zeros(kinds, kinds, dtype=torch.bool)
    for graph in graphs:
        degrees = graph.adjacency.sum(dim=1)
        highest.scatter_reduce_(0, graph.types, degrees, "amax")
        one, other = graph.types[graph.edges]
        meets[one, other] = True
        meets[other, one] = True
    return PatternRules(highest, meets)


def _counts(graph: TypedGraph, kinds: int) -> tuple[Tensor, Tensor]:
    one, other = graph.types[graph.edges].sort(dim=0).values
    return (
        torch.bincount(graph.types, minlength=kinds).float(),
        torch.bincount(one * kinds + other, minlength=kinds * kinds).float(),
    )
