"""Edits of one graph: the rules for them, and the dense space of all allowed node pairs.

An edit toggles one node pair. An edit set lists its pairs by position among the allowed pairs, so
no edit set can contain a frozen pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph
from d4explain.gnn.network import Gnn
from models.errors import UnknownNodeError
from models.graphs.base_edit_space import LARGE_SET, BaseEditSpace, EditSet
from models.graphs.connectivity import component_counts, reachable
from models.graphs.isomorphism import marked_codes
from models.graphs.statistics import statistics_shift
from models.graphs.valences import Valences

__all__ = ["LARGE_SET", "BaseEditSpace", "EditRules", "EditSet", "EditSpace", "check_node"]

# Keeps floor(0.3 · 10) at 3 if 0.3 · 10 rounds to slightly less.
_ROUNDING = 1e-9
# Node pairs of one dense pass. A pass of this size stays in a core's cache at usual widths, and it
# bounds memory for large graphs.
_CELLS_PER_PASS = 2**18
# A GNN without a dense form is slower; small passes let it check for a stop request in time.
_SPARSE_PER_PASS = 64


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
    valences: Valences | None = None  # no node gets more bonds than its valence allows

    def __post_init__(self) -> None:
        if self.max_edits is not None and self.max_edits < 0:
            raise ValueError(f"max_edits must be at least 0, got {self.max_edits}")
        if not 0 <= self.max_ratio < float("inf"):
            raise ValueError(f"max_ratio must be finite and at least 0, got {self.max_ratio}")

    def budget(self, edges: int) -> int:
        """Edits allowed on a graph of that many edges: min(max_edits, floor(max_ratio · |E|))."""
        by_ratio = int(self.max_ratio * edges + _ROUNDING)
        return by_ratio if self.max_edits is None else min(self.max_edits, by_ratio)


@dataclass(frozen=True)
class EditSpace(BaseEditSpace):
    """All node pairs of one graph that the rules allow, in dense form."""

    base: Tensor  # [node, node] 0/1 adjacency of the unedited graph
    # [node, node, attribute]; an absent edge has the attributes that it would get
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
            raise ValueError("the edges have attributes, but those of an added edge are unknown")
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
    def dense_form(self) -> EditSpace:
        return self

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

    def apply_all(self, edit_sets: Sequence[EditSet]) -> list[Graph]:
        graphs = []
        for some in self._bounded(edit_sets):
            after = torch.triu(self.adjacency(some) > 0.5, diagonal=1)
            sizes = after.sum(dim=(1, 2)).tolist()
            edges = after.nonzero()[:, 1:].T  # [2, edge of all sets]
            graphs += [
                replace(
                    self.graph,
                    edges=own.contiguous(),
                    edge_attributes=self._attributes_of_edges(own),
                )
                for own in torch.split(edges, sizes, dim=1)
            ]
        return graphs

    def attributes_of(self, pair: int) -> tuple[float, ...] | None:
        if self.pair_attributes is None:
            return None
        return tuple(self.pair_attributes[self.sources[pair], self.targets[pair]].tolist())

    def _attributes_of_edges(self, edges: Tensor) -> Tensor | None:
        """Attributes of existing or added [2, edge] edges: [edge, attribute]."""
        if self.pair_attributes is None:
            return None
        return self.pair_attributes[edges[0], edges[1]]

    def component_counts(self, edit_sets: Sequence[EditSet]) -> list[int]:
        return component_counts(self.dense(edit_sets)).tolist()

    def statistics_shift(self, edit_sets: Sequence[EditSet]) -> list[float]:
        return statistics_shift(self.dense([(), *edit_sets]))

    def symmetry_codes(self, edit_sets: Sequence[EditSet]) -> list[int]:
        return marked_codes(self, edit_sets)

    def logits(self, gnn: Gnn, edit_sets: Sequence[EditSet], device: torch.device) -> Tensor:
        return gnn.answers(self.dense(edit_sets).to(device))

    def sets_per_pass(self, gnn: Gnn) -> int:
        # All edited graphs share one view of the features, so their number does not matter.
        affordable = max(1, _CELLS_PER_PASS // max(self.graph.node_count, 1) ** 2)
        return affordable if gnn.has_dense else min(affordable, _SPARSE_PER_PASS)

    def _disconnects(self, edit_sets: Sequence[EditSet]) -> list[bool]:
        disconnects: list[bool] = []
        before = reachable(self.base[None])
        for some in self._bounded(edit_sets):
            after = reachable(self.adjacency(some))
            disconnects += (before & ~after).flatten(1).any(dim=1).tolist()
        return disconnects


def check_node(node: int, nodes: int) -> None:
    if not 0 <= node < nodes:
        raise UnknownNodeError(node, nodes)
