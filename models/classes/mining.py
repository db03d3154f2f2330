"""Patterns mined from reference graphs: connected subgraphs, grown node by node.

A beam search. Each step adds a neighbour to known occurrences of the best patterns, counts the
graphs that contain each new pattern, and keeps those with the largest contrast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from models.classes.reference_graphs import ReferenceGraphs, ReferenceSample
from models.graphs.isomorphism import graph_codes
from models.graphs.subgraph_matching import Pattern, node_set, nodes_in
from models.graphs.subgraphs import induced_subgraph
from models.realism.node_types import NodeTypes

_BEAM = 24  # patterns that grow
_GROWN_PER_GRAPH = 6  # occurrences of a pattern per graph that grow
_GROWN = 6_000  # node sets per step; hubs have many neighbours
_COUNTED = 60  # most frequent new patterns per step whose contrast is counted

Occurrences = dict[int, set[int]]  # graph of the class → node sets


@dataclass(frozen=True)
class CountedPattern:
    """A pattern with the graphs of the search half that contain it."""

    graph: Graph
    pattern: Pattern
    in_class: frozenset[int]
    elsewhere: frozenset[int]
    contrast: float


def count_pattern(graph: Graph, reference: ReferenceGraphs) -> CountedPattern:
    pattern = reference.pattern(graph)
    half = reference.search
    in_class = frozenset(half.in_class.occurrences(pattern))
    elsewhere = frozenset(half.elsewhere.occurrences(pattern))
    contrast = len(in_class) / half.in_class.count - len(elsewhere) / half.elsewhere.count
    return CountedPattern(graph, pattern, in_class, elsewhere, contrast)


def typed_codes(graphs: Sequence[Graph], types: NodeTypes) -> list[int]:
    """Codes by edges, node types and the marked node; graphs that match each other have the same.

    Codes by colour refinement: few graphs of these sizes share one without matching.
    """
    if not graphs:
        return []
    return graph_codes(
        to_dense(
            [
                replace(
                    graph,
                    features=types.types(graph.features)[:, None].float(),
                    edge_attributes=None,
                )
                for graph in graphs
            ]
        )
    )


def mined_patterns(
    reference: ReferenceGraphs,
    most_nodes: int,
    generator: torch.Generator,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[CountedPattern]:
    """Patterns of 2 to `most_nodes` nodes, no two alike; a marked node is part of each."""
    growth = _Growth(reference, generator)
    beam = growth.single_nodes()
    counted: list[CountedPattern] = []
    for _ in range(most_nodes - 1):
        if should_stop():
            break
        grown = growth.step(beam)
        counted += [pattern for pattern, _ in grown]
        beam = [occurrences for _, occurrences in grown[:_BEAM]]
    return counted


class _Growth:
    def __init__(self, reference: ReferenceGraphs, generator: torch.Generator) -> None:
        self._reference = reference
        self._sample: ReferenceSample = reference.search.in_class
        self._generator = generator
        self._matrices = [_matrix(graph) for graph in self._sample.graphs]
        self._labels = [self._label(graph) for graph in self._sample.graphs]

    def single_nodes(self) -> list[Occurrences]:
        """Occurrences of each node type, or of the marked nodes."""
        by_type: dict[int, Occurrences] = {}
        for index, graph in enumerate(self._sample.typed):
            for kind, nodes in graph.of_type.items():
                allowed = nodes if graph.target is None else nodes & 1 << graph.target
                if allowed:
                    sets = {1 << node for node in nodes_in(allowed)}
                    by_type.setdefault(kind, {})[index] = sets
        return list(by_type.values())

    def step(self, beam: Sequence[Occurrences]) -> list[tuple[CountedPattern, Occurrences]]:
        """The patterns with one node more, by contrast, with their occurrences."""
        grown = sorted({place for occurrences in beam for place in self._extended(occurrences)})
        if len(grown) > _GROWN:
            chosen = torch.randperm(len(grown), generator=self._generator)[:_GROWN]
            grown = [grown[position] for position in sorted(chosen.tolist())]
        by_code: dict[int, Occurrences] = {}
        for (index, nodes), code in zip(grown, self._codes(grown), strict=True):
            by_code.setdefault(code, {}).setdefault(index, set()).add(nodes)
        frequent = sorted(by_code.values(), key=len, reverse=True)[:_COUNTED]
        counted = [(self._counted(occurrences), occurrences) for occurrences in frequent]
        return sorted(counted, key=lambda one: -one[0].contrast)

    def _extended(self, occurrences: Occurrences) -> list[tuple[int, int]]:
        """Graph and node set of known occurrences with one neighbour more."""
        places = []
        for index, sets in sorted(occurrences.items()):
            adjacency = self._sample.typed[index].adjacency
            for nodes in self._some(sorted(sets)):
                boundary = 0
                for node in nodes_in(nodes):
                    boundary |= adjacency[node]
                places += [(index, nodes | 1 << node) for node in nodes_in(boundary & ~nodes)]
        return places

    def _some(self, sets: list[int]) -> list[int]:
        if len(sets) <= _GROWN_PER_GRAPH:
            return sets
        chosen = torch.randperm(len(sets), generator=self._generator)[:_GROWN_PER_GRAPH]
        return [sets[position] for position in chosen.tolist()]

    def _codes(self, places: Sequence[tuple[int, int]]) -> list[int]:
        """Codes of the induced subgraphs; all have the same number of nodes."""
        if not places:
            return []
        adjacency, labels = [], []
        for index, nodes in places:
            own = nodes_in(nodes)
            adjacency.append(self._matrices[index][np.ix_(own, own)])
            labels.append(self._labels[index][own])
        matrices = torch.from_numpy(np.stack(adjacency)).float()
        mask = torch.ones(matrices.shape[:2], dtype=torch.bool)
        return graph_codes(DenseGraphs(matrices, torch.from_numpy(np.stack(labels)), mask))

    def _counted(self, occurrences: Occurrences) -> CountedPattern:
        index = min(occurrences)
        nodes = nodes_in(min(occurrences[index]))
        sample = self._sample
        graph = induced_subgraph(sample.graphs[index], sample.neighbours[index], nodes)
        counted = count_pattern(graph, self._reference)
        for other in counted.in_class - occurrences.keys():
            found = counted.pattern.occurrence(sample.typed[other])
            if found is not None:
                occurrences[other] = {node_set(found)}
        return counted

    def _label(self, graph: Graph) -> npt.NDArray[np.float32]:
        """Type of each node, and whether it is marked: [node, 2]."""
        labels = torch.zeros(graph.node_count, 2)
        labels[:, 0] = self._reference.types.types(graph.features)
        if graph.target is not None:
            labels[graph.target, 1] = 1
        return labels.numpy()


def _matrix(graph: Graph) -> npt.NDArray[np.bool_]:
    matrix = np.zeros((graph.node_count, graph.node_count), dtype=bool)
    source, target = graph.edges.numpy()
    matrix[source, target] = matrix[target, source] = True
    return matrix
