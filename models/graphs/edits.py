"""Edits of one graph: what the rules allow, and edit sets as sorted positions in the list of pairs.

An edit toggles one node pair. An edit set names its pairs by their position among the allowed
ones, so that a set that touches a frozen pair cannot even be written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph
from models.errors import UnknownNodeError
from models.graphs.connectivity import component_counts, reachable
from models.graphs.valences import ValenceLedger, Valences

EditSet = tuple[int, ...]  # ascending positions in EditSpace.sources and .targets
LARGE_SET = 256  # edits; sets of more are pruned by halves, and not remembered as they are

# keeps floor(0.3 · 10) at 3 although 0.3 · 10 may be a hair below it
_ROUNDING = 1e-9
_CELLS_AT_ONCE = 2**21


@dataclass(frozen=True)
class EditRules:
    """What a counterfactual may change."""

    max_edits: int | None = None
    max_ratio: float = 0.3  # of the graph's edges
    add: bool = True
    remove: bool = True
    frozen_nodes: frozenset[int] = frozenset()  # no edit touches them
    frozen_pairs: frozenset[tuple[int, int]] = frozenset()  # in either order
    keep_connected: bool = False  # nodes that were connected stay connected
    valences: Valences | None = None  # no node gets more bonds than it can have

    def __post_init__(self) -> None:
        if self.max_edits is not None and self.max_edits < 0:
            raise ValueError(f"max_edits is a number of edits, got {self.max_edits}")
        if not 0 <= self.max_ratio < float("inf"):
            raise ValueError(f"max_ratio is a share of the graph's edges, got {self.max_ratio}")

    def budget(self, edges: int) -> int:
        """Edits allowed on a graph of that many edges: min(max_edits, floor(max_ratio · |E|))."""
        by_ratio = int(self.max_ratio * edges + _ROUNDING)
        return by_ratio if self.max_edits is None else min(self.max_edits, by_ratio)


@dataclass(frozen=True)
class EditSpace:
    """The pairs of one graph that the rules allow to toggle, and how many at once."""

    graph: Graph
    base: Tensor  # [node, node] 0/1, the graph itself
    sources: Tensor  # [pair] int64
    targets: Tensor  # [pair] int64, source < target
    present: Tensor  # [pair] bool, True where the edit removes an edge
    budget: int
    keep_connected: bool
    ledger: ValenceLedger | None  # of the nodes' valences, if they count
    # [node, node, attribute], of absent edges what they would carry
    pair_attributes: Tensor | None = None

    @staticmethod
    def of(graph: Graph, rules: EditRules) -> EditSpace:
        nodes = graph.node_count
        base = graph.features.new_zeros(nodes, nodes)
        source, target = graph.edges
        base[source, target] = 1
        base[target, source] = 1
        free = torch.ones(nodes, nodes, dtype=torch.bool)
        for node in rules.frozen_nodes:
            check_node(node, nodes)
            free[node, :] = False
            free[:, node] = False
        if rules.frozen_pairs:
            one, other = torch.tensor(sorted(rules.frozen_pairs)).T
            check_node(int(torch.minimum(one, other).min()), nodes)
            check_node(int(torch.maximum(one, other).max()), nodes)
            free[one, other] = False
            free[other, one] = False
        present = base.cpu() > 0.5
        free &= (present & rules.remove) | (~present & rules.add)
        sources, targets = torch.triu(free, diagonal=1).nonzero().T.contiguous()
        edges, valences = present[sources, targets], rules.valences
        if graph.edge_attributes is not None and graph.usual is None and not bool(edges.all()):
            raise ValueError("the edges have attributes, but what an added one carries is not said")
        return EditSpace(
            graph=graph,
            base=base,
            sources=sources,
            targets=targets,
            present=edges,
            budget=rules.budget(graph.edge_count),
            keep_connected=rules.keep_connected,
            ledger=None if valences is None else valences.ledger(sources, targets, edges),
            pair_attributes=graph.pair_attributes,
        )

    @property
    def count(self) -> int:
        """Pairs that may be toggled."""
        return self.sources.shape[0]

    def of_pairs(self, values: Tensor) -> Tensor:
        """The entries of [node, node] (or [batch, node, node]) values at the allowed pairs."""
        return values[..., self.sources, self.targets]

    def adjacency(self, edit_sets: Sequence[EditSet]) -> Tensor:
        """The graph after each edit set: [set, node, node]."""
        sizes = torch.tensor([len(edits) for edits in edit_sets])
        rows = torch.repeat_interleave(torch.arange(len(edit_sets)), sizes)
        pairs = torch.tensor([pair for edits in edit_sets for pair in edits], dtype=torch.long)
        source, target = self.sources[pairs], self.targets[pairs]
        after = self.base.repeat(len(edit_sets), 1, 1)
        toggled = (~self.present[pairs]).to(after.dtype).to(after.device)
        after[rows, source, target] = toggled
        after[rows, target, source] = toggled
        return after

    def dense(self, edit_sets: Sequence[EditSet]) -> DenseGraphs:
        features = self.graph.features.expand(len(edit_sets), -1, -1)
        mask = torch.ones(
            len(edit_sets), self.graph.node_count, dtype=torch.bool, device=self.base.device
        )
        marked = self.graph.target
        targets = (
            None if marked is None else mask.new_full((len(edit_sets),), marked, dtype=torch.long)
        )
        attributes = self.pair_attributes
        if attributes is not None:
            attributes = attributes.expand(len(edit_sets), -1, -1, -1)
        return DenseGraphs(self.adjacency(edit_sets), features, mask, targets, attributes)

    def apply(self, edits: EditSet) -> Graph:
        """The discrete graph after the edits, its edges sorted."""
        (graph,) = self.apply_all([edits])
        return graph

    def apply_all(self, edit_sets: Sequence[EditSet]) -> list[Graph]:
        graphs = []
        for some in self._bounded(edit_sets):
            after = torch.triu(self.adjacency(some) > 0.5, diagonal=1)
            sizes = after.sum(dim=(1, 2)).tolist()
            edges = after.nonzero()[:, 1:].T  # [2, edge of all sets]
            graphs += [
                replace(self.graph, edges=own.contiguous(), edge_attributes=self._carried(own))
                for own in torch.split(edges, sizes, dim=1)
            ]
        return graphs

    def attributes_of(self, pair: int) -> tuple[float, ...] | None:
        """What the edge carries that an edit removes or adds; None if edges carry nothing."""
        if self.pair_attributes is None:
            return None
        return tuple(self.pair_attributes[self.sources[pair], self.targets[pair]].tolist())

    def _carried(self, edges: Tensor) -> Tensor | None:
        """Of [2, edge] edges, some of which may be added: [edge, attribute]."""
        if self.pair_attributes is None:
            return None
        return self.pair_attributes[edges[0], edges[1]]

    def allowed(self, edit_sets: Sequence[EditSet]) -> list[bool]:
        """Which sets stay within the budget and, if asked for, the valences, and tear nothing."""
        verdicts = [len(edits) <= self.budget for edits in edit_sets]
        if self.ledger is not None:
            kept = [row for some in self._bounded(edit_sets) for row in self.ledger.kept(some)]
            verdicts = [verdict and row for verdict, row in zip(verdicts, kept, strict=True)]
        if not self.keep_connected:
            return verdicts
        removes = self.present.tolist()
        # additions alone cannot disconnect anything
        doubtful = [
            edits
            for edits, verdict in zip(edit_sets, verdicts, strict=True)
            if verdict and any(removes[pair] for pair in edits)
        ]
        apart = dict(zip(doubtful, self._torn(doubtful), strict=True))
        return [
            verdict and not apart.get(edits, False)
            for edits, verdict in zip(edit_sets, verdicts, strict=True)
        ]

    def component_counts(self, edit_sets: Sequence[EditSet]) -> list[int]:
        """Connected components after each set."""
        return component_counts(self.dense(edit_sets)).tolist()

    def _torn(self, edit_sets: Sequence[EditSet]) -> list[bool]:
        """Which sets part nodes that were connected."""
        torn: list[bool] = []
        before = reachable(self.base[None])
        for some in self._bounded(edit_sets):
            after = reachable(self.adjacency(some))
            torn += (before & ~after).flatten(1).any(dim=1).tolist()
        return torn

    def _bounded(self, edit_sets: Sequence[EditSet]) -> Iterator[Sequence[EditSet]]:
        """Slices whose adjacencies fit into memory together."""
        step = max(1, _CELLS_AT_ONCE // max(1, self.graph.node_count) ** 2)
        for start in range(0, len(edit_sets), step):
            yield edit_sets[start : start + step]


class SmallestSets:
    """Edit sets none of which contains another; smaller sets have to be added first."""

    def __init__(self, edit_sets: Iterable[EditSet] = ()) -> None:
        self.kept: list[EditSet] = []
        # a set contained in another starts with one of its members: few have to be compared
        self._starting_with: dict[int, list[frozenset[int]]] = {}
        for edits in sorted(set(edit_sets), key=lambda edits: (len(edits), edits)):
            self.add(edits)

    def add(self, edits: EditSet) -> None:
        if not self.covers(edits):
            self.kept.append(edits)
            self._starting_with.setdefault(edits[0], []).append(frozenset(edits))

    def covers(self, edits: EditSet) -> bool:
        """Whether the set contains one of those kept."""
        members = frozenset(edits)
        return any(
            smaller <= members for pair in edits for smaller in self._starting_with.get(pair, ())
        )


def check_node(node: int, nodes: int) -> None:
    if not 0 <= node < nodes:
        raise UnknownNodeError(node, nodes)
