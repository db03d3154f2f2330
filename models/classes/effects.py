"""The effect of a pattern on the GNN: put into graphs of other classes, and broken in the class's.

Both are changes of the class's log-odds, minus those of a random change of the same size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predicted_logits
from models.classes.joining import joined, without_edges
from models.classes.reference_graphs import ReferenceHalf, ReferenceSample
from models.graphs.subgraph_matching import Pattern, TypedGraph
from models.graphs.subgraphs import connected_subgraph

_GRAPHS = 30  # graphs that are changed, of each side
_MOST_REPEATS = 4  # random changes of each graph; large graphs get fewer
_NODES = 3_000  # changed at once, as far as one change of each graph allows
_QUICK_NODES = 400  # of all graphs that a quick meter changes
# A figure is positive beyond chance if it is this many standard errors above 0.
ERRORS_ABOVE_ZERO = 2.0
_MAX_DELETIONS = 12  # per graph; a star recurs so often that a hub would lose all its edges


@dataclass(frozen=True)
class Change:
    """Mean change of the class's log-odds beyond that of random changes of the same size."""

    mean: float
    error: float  # standard error of the mean
    graphs: int

    @staticmethod
    def of(values: Tensor) -> Change | None:
        """None if there are fewer than two values."""
        if len(values) < 2:
            return None
        return Change(
            float(values.mean()), float(values.std() / math.sqrt(len(values))), len(values)
        )


@dataclass(frozen=True)
class Effect:
    inserted: Change | None  # None if there are no graphs of other classes
    broken: Change | None  # None if too few graphs of the class contain the pattern

    @property
    def mean(self) -> float:
        """How much the pattern moves the GNN towards the class: (inserted - broken) / 2."""
        return sum(self._signed) / max(len(self._signed), 1)

    @property
    def is_positive(self) -> bool:
        """Whether putting the pattern in moves the GNN towards the class beyond chance.

        Breaking it need not change the class, as a tree without one branch is still a tree, but it
        must not outweigh the insertion.
        """
        inserted = self.inserted
        return (
            inserted is not None
            and inserted.mean > ERRORS_ABOVE_ZERO * inserted.error
            and self.mean > 0
        )

    @property
    def _signed(self) -> list[float]:
        inserted = [] if self.inserted is None else [self.inserted.mean]
        return inserted if self.broken is None else [*inserted, -self.broken.mean]


def class_log_odds(
    gnn: Gnn, graphs: Sequence[Graph], target_class: int, device: torch.device
) -> Tensor:
    """log p / (1 - p) of the class: [graph], double."""
    logits = predicted_logits(gnn, graphs, device).double()
    others = [label for label in range(logits.shape[1]) if label != target_class]
    return logits[:, target_class] - logits[:, others].logsumexp(dim=1)


class EffectMeter:
    """Measures effects on one half of the reference graphs."""

    def __init__(
        self,
        gnn: Gnn,
        target_class: int,
        half: ReferenceHalf,
        *,
        generator: torch.Generator,
        device: torch.device,
        is_quick: bool = False,
    ) -> None:
        """`is_quick` uses a few small graphs, to compare hundreds of patterns."""
        self._gnn = gnn
        self._target_class = target_class
        self._half = half
        self._generator = generator
        self._device = device
        hosts = half.elsewhere.graphs
        self._hosts = _few(hosts) if is_quick else _repeated(hosts[:_GRAPHS])
        self._control_odds: dict[int, Tensor] = {}  # number of nodes → [host]

    def _log_odds(self, graphs: Sequence[Graph]) -> Tensor:
        return class_log_odds(self._gnn, graphs, self._target_class, self._device)

    def effect(self, graph: Graph, pattern: Pattern, occurrences: dict[int, list[int]]) -> Effect:
        """`occurrences` are those in the class's graphs of the half."""
        return Effect(self.inserted(graph, occurrences), self._broken(graph, pattern, occurrences))

    def inserted(self, graph: Graph, occurrences: dict[int, list[int]]) -> Change | None:
        """Without occurrences, the pattern has its own node features."""
        if not self._hosts:
            return None
        with_pattern = [
            self._with(host, self._with_features(graph, occurrences)) for host in self._hosts
        ]
        return Change.of(self._log_odds(with_pattern) - self._controls(graph.node_count))

    def _controls(self, nodes: int) -> Tensor:
        """Log-odds of the hosts with random parts of a size; all patterns of the size share them.

        The chance of the draw is then the same for patterns that are compared.
        """
        if nodes not in self._control_odds:
            with_random = [self._with(host, self._random_part(nodes)) for host in self._hosts]
            self._control_odds[nodes] = self._log_odds(with_random)
        return self._control_odds[nodes]

    def _with_features(self, graph: Graph, occurrences: dict[int, list[int]]) -> Graph:
        """The pattern with the node features of a random occurrence.

        Types match anyway; features that are ignored in matching may matter to the GNN.
        """
        if not occurrences:
            return graph
        index = sorted(occurrences)[self._draw(len(occurrences))]
        return replace(
            graph, features=self._half.in_class.graphs[index].features[occurrences[index]]
        )

    def _with(self, host: Graph, part: Graph) -> Graph:
        return joined(host, part, (self._draw(host.node_count), self._draw(part.node_count)))

    def _random_part(self, nodes: int) -> Graph:
        sample = self._half.elsewhere
        index = self._draw(sample.count)
        return connected_subgraph(
            sample.graphs[index], sample.neighbours[index], nodes, self._generator
        )

    def _broken(
        self, graph: Graph, pattern: Pattern, occurrences: dict[int, list[int]]
    ) -> Change | None:
        sample = self._half.in_class
        some = sorted(occurrences)[:_GRAPHS]
        edges = graph.edges.T.tolist()
        if not edges or len(some) < 2:
            return None
        indices = some * _repeats([sample.graphs[index] for index in some])
        broken, random = [], []
        for index in indices:
            host = sample.graphs[index]
            pairs = self._breaking(edges, pattern, sample.typed[index], occurrences[index])
            broken.append(without_edges(host, pairs))
            random.append(without_edges(host, self._random_edges(sample, index, graph, len(pairs))))
        odds = self._log_odds([*broken, *random])
        return Change.of(odds[: len(indices)] - odds[len(indices) :])

    def _breaking(
        self,
        edges: list[list[int]],
        pattern: Pattern,
        graph: TypedGraph,
        occurrence: list[int] | None,
    ) -> list[tuple[int, int]]:
        """Random edges of occurrences, one after the other, until none is left."""
        pairs: list[tuple[int, int]] = []
        while occurrence is not None and len(pairs) < _MAX_DELETIONS:
            source, target = edges[self._draw(len(edges))]
            pair = (occurrence[source], occurrence[target])
            pairs.append(pair)
            graph = graph.without_edge(*pair)
            occurrence = pattern.occurrence(graph)
        return pairs

    def _random_edges(
        self, sample: ReferenceSample, index: int, pattern: Graph, count: int
    ) -> list[tuple[int, int]]:
        """Random edges of a graph; of a node's, those as near the node as the pattern's.

        Farther edges hardly change the GNN's answer, so deleting them would be no comparison.
        """
        host = sample.graphs[index]
        edges: list[tuple[int, int]] = [(source, end) for source, end in host.edges.T.tolist()]
        if host.target is not None:
            distances = _distances(sample.neighbours[index], host.target)
            reach = pattern.node_count - 1
            edges = [edge for edge in edges if min(distances[end] for end in edge) < reach]
        chosen = torch.randperm(len(edges), generator=self._generator)[:count].tolist()
        return [edges[position] for position in chosen]

    def _draw(self, count: int) -> int:
        return int(torch.randint(count, (1,), generator=self._generator))


def _repeats(graphs: Sequence[Graph]) -> int:
    nodes = sum(graph.node_count for graph in graphs)
    return max(1, min(_MOST_REPEATS, _NODES // max(nodes, 1)))


def _few(graphs: list[Graph]) -> list[Graph]:
    """The smallest graphs that have _QUICK_NODES nodes together, at least two."""
    smallest = sorted(graphs, key=lambda graph: graph.node_count)
    nodes = torch.tensor([graph.node_count for graph in smallest]).cumsum(0)
    return smallest[: max(2, int((nodes <= _QUICK_NODES).sum()))]


def _repeated(graphs: list[Graph]) -> list[Graph]:
    return graphs * _repeats(graphs)


def _distances(neighbours: list[list[int]], start: int) -> list[float]:
    """Hops from a node to each node."""
    distances = [math.inf] * len(neighbours)
    distances[start] = 0
    boundary = [start]
    while boundary:
        reached = []
        for node in boundary:
            for other in neighbours[node]:
                if distances[other] == math.inf:
                    distances[other] = distances[node] + 1
                    reached.append(other)
        boundary = reached
    return distances
