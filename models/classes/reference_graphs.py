"""Reference graphs that class explanations read: of the class and of other classes, in two halves.

Patterns are found in one half and measured in the other, because the largest of many differences
is partly chance. If a side has too few graphs for two halves, both use all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from d4explain.gnn.graphs import Graph
from models.graphs.subgraph_matching import Pattern, TypedGraph
from models.graphs.subgraphs import neighbours_of
from models.realism.node_types import NodeTypes

_MOST = 80  # graphs of the class, and of other classes, in each half
_FEWEST = 20  # graphs of a half; with fewer, both halves are the same graphs


@dataclass(frozen=True)
class ReferenceSample:
    """Graphs with their positions in the list that they were drawn from."""

    graphs: list[Graph]
    positions: list[int]
    typed: list[TypedGraph]
    neighbours: list[list[list[int]]]

    @staticmethod
    def of(graphs: Sequence[Graph], positions: Sequence[int], types: NodeTypes) -> ReferenceSample:
        chosen = [graphs[position].cpu() for position in positions]
        return ReferenceSample(
            chosen,
            list(positions),
            [TypedGraph.of(graph, types.types(graph.features).tolist()) for graph in chosen],
            [neighbours_of(graph) for graph in chosen],
        )

    @property
    def count(self) -> int:
        return len(self.graphs)

    def occurrences(self, pattern: Pattern) -> dict[int, list[int]]:
        """One occurrence per graph that contains the pattern, by index in this sample."""
        found = {index: pattern.occurrence(graph) for index, graph in enumerate(self.typed)}
        return {index: nodes for index, nodes in found.items() if nodes is not None}

    def mean_count(self, pattern: Pattern) -> float:
        """Mean number of occurrences in a graph that have no node in common."""
        counts = [pattern.disjoint_occurrences(graph) for graph in self.typed]
        return sum(counts) / max(len(counts), 1)


@dataclass(frozen=True)
class ReferenceHalf:
    in_class: ReferenceSample
    elsewhere: ReferenceSample

    def count_contrast(self, pattern: Pattern) -> float:
        """How many more occurrences a graph of the class has than another one."""
        return self.in_class.mean_count(pattern) - self.elsewhere.mean_count(pattern)


@dataclass(frozen=True)
class GraphCounts:
    """Graphs of the whole reference set."""

    in_class: int
    elsewhere: int


@dataclass(frozen=True)
class ReferenceGraphs:
    search: ReferenceHalf  # patterns are found here
    measured: ReferenceHalf  # and their figures come from here
    types: NodeTypes
    totals: GraphCounts
    independent: bool  # whether the halves have no graph in common

    @staticmethod
    def of(
        graphs: Sequence[Graph], is_in_class: Sequence[bool], generator: torch.Generator
    ) -> ReferenceGraphs:
        """`is_in_class` says which graphs the GNN gives the class."""
        order = torch.randperm(len(graphs), generator=generator).tolist()
        order = [position for position in order if graphs[position].node_count > 0]
        in_class = [position for position in order if is_in_class[position]]
        elsewhere = [position for position in order if not is_in_class[position]]
        totals = GraphCounts(len(in_class), len(elsewhere))
        in_class, elsewhere = in_class[: 2 * _MOST], elsewhere[: 2 * _MOST]
        types = NodeTypes.of([graphs[position] for position in in_class + elsewhere])
        independent = min(len(in_class), len(elsewhere)) >= 2 * _FEWEST

        def half(start: int) -> ReferenceHalf:
            sides = (
                side[start::2] if len(side) >= 2 * _FEWEST else side[:_MOST]
                for side in (in_class, elsewhere)
            )
            return ReferenceHalf(*(ReferenceSample.of(graphs, side, types) for side in sides))

        return ReferenceGraphs(half(0), half(1), types, totals, independent)

    @property
    def ignores_features(self) -> bool:
        """Whether patterns match whatever some of the node features are."""
        half = self.search
        return any(
            self.types.ignores_features(graph)
            for graph in [*half.in_class.graphs, *half.elsewhere.graphs]
        )

    def pattern(self, graph: Graph) -> Pattern:
        return Pattern.of(graph, self.types.types(graph.features).tolist())

    def typed(self, graph: Graph) -> TypedGraph:
        return TypedGraph.of(graph, self.types.types(graph.features).tolist())
