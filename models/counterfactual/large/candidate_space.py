"""Candidate pairs of a large graph: their number grows with the edges, not with N².

Candidates are the edges, pairs with a common neighbour, and pairs that are far apart, at most eight
per edge. Hubs contribute a sample of their neighbours' pairs. Far pairs are drawn between the
surroundings of two random nodes, so that one patch contains many of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph, to_sparse
from d4explain.gnn.network import Gnn
from models.graphs.base_edit_space import BaseEditSpace, EditSet
from models.graphs.csr_graph import CsrGraph, Numbers, rows_of
from models.graphs.edge_lists import (
    Edges,
    LocalShape,
    component_labels,
    refined_code,
)
from models.graphs.edits import EditRules, check_node
from models.graphs.hashing import Words

_HUB = 24  # a node with more neighbours contributes as many random pairs as 24 neighbours have
_CODE_ROUNDS = 8
_ROWS_PER_PASS = 2**16  # nodes and directed edges of one sparse pass
_SETS_PER_PASS = 64  # small passes, so that the search notices a stop request soon
_FAR_HOPS = 8  # more than the surroundings of far pairs need


@dataclass(frozen=True)
class CandidateConfig:
    """When and how the candidate pairs are limited."""

    above_nodes: int = 512  # smaller graphs use all pairs
    per_edge: int = 8  # most candidates per edge
    patch_nodes: int = 64  # nodes of a patch that the denoiser reads
    far_per_patch: int = 64
    pool: int = 256  # candidates tried as single edits; four times as many if search.pool is None
    probes: int = 32  # random candidates whose measured effects scale the predictions

    def __post_init__(self) -> None:
        if self.above_nodes < 0 or min(self.per_edge, self.pool, self.probes) < 1:
            raise ValueError(f"per_edge, pool and probes must be at least 1, got {self}")
        if self.patch_nodes < 4:
            raise ValueError(f"patch_nodes must be at least 4, got {self.patch_nodes}")

    def restricts(self, graph: Graph) -> bool:
        """Whether the graph is too large for all pairs; node instances have bounded size."""
        return graph.target is None and graph.node_count > self.above_nodes


@dataclass(frozen=True)
class CandidateSpace(BaseEditSpace):
    """The candidate pairs of one large graph, without any [node, node] tensor."""

    rows: CsrGraph = field(kw_only=True)
    # Patches that contain the far pairs.
    far_patches: tuple[Numbers, ...] = field(kw_only=True)

    @staticmethod
    def restricted(
        graph: Graph, rules: EditRules, config: CandidateConfig, seed: int
    ) -> CandidateSpace:
        """Draws at most `per_edge` candidates per edge; takes all pairs if there are no more."""
        rng = np.random.default_rng(seed)
        nodes, rows = graph.node_count, rows_of(graph.features.numpy(), graph.edges.numpy())
        edges = _codes(graph.edges.numpy(), nodes)
        most = config.per_edge * graph.edge_count
        far: list[Numbers] = []
        patches: list[Numbers] = []
        if nodes * (nodes - 1) // 2 <= most:
            near = _codes(np.stack(np.triu_indices(nodes, 1)), nodes)
        else:
            near = _near(rows, rng)
            far, patches = _far(rows, graph.edge_count, config, rng)
        room = max(most - len(edges), 0)
        drawn = np.setdiff1d(np.concatenate([np.empty(0, dtype=np.int64), *far]), edges)
        drawn = _sample(drawn, room, rng)
        near = _sample(np.setdiff1d(near, np.union1d(edges, drawn)), room - len(drawn), rng)
        wanted = [*([edges] if rules.remove else []), *([near, drawn] if rules.add else [])]
        codes = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *wanted]))
        codes = _allowed(codes, nodes, rules)
        sources, targets = torch.from_numpy(codes // nodes), torch.from_numpy(codes % nodes)
        present = torch.from_numpy(np.isin(codes, edges))
        valences = rules.valences
        return CandidateSpace(
            graph=graph,
            sources=sources,
            targets=targets,
            present=present,
            budget=rules.budget(graph.edge_count),
            keep_connected=rules.keep_connected,
            ledger=None if valences is None else valences.ledger(sources, targets, present),
            rows=rows,
            far_patches=tuple(patches),
        )

    def pairs(self, edits: EditSet) -> list[tuple[int, int]]:
        chosen = torch.tensor(edits, dtype=torch.long)
        ends = zip(self.sources[chosen].tolist(), self.targets[chosen].tolist(), strict=True)
        return list(ends)

    def apply_all(self, edit_sets: Sequence[EditSet]) -> list[Graph]:
        return [
            self.graph.with_edges(torch.from_numpy(_ends(self._edited(edits), self._nodes)))
            for edits in edit_sets
        ]

    def attributes_of(self, pair: int) -> tuple[float, ...] | None:
        ends = torch.stack([self.sources[pair], self.targets[pair]])[:, None]
        carried = self.graph.with_edges(ends).edge_attributes
        return None if carried is None else tuple(carried[0].tolist())

    def component_counts(self, edit_sets: Sequence[EditSet]) -> list[int]:
        return [len(np.unique(self._labels(edits))) for edits in edit_sets]

    @property
    def dense_form(self) -> None:
        return None

    def statistics_shift(self, edit_sets: Sequence[EditSet]) -> list[float]:
        """Shift of degrees and clustering alone: spectra take too long on large graphs."""
        return [self._shape.shift(self.pairs(edits)) for edits in edit_sets]

    def symmetry_codes(self, edit_sets: Sequence[EditSet]) -> list[int]:
        return [self._code(edits) for edits in edit_sets]

    def logits(self, gnn: Gnn, edit_sets: Sequence[EditSet], device: torch.device) -> Tensor:
        logits: Tensor = gnn(to_sparse(self.apply_all(edit_sets)).to(device))
        return logits

    def sets_per_pass(self, gnn: Gnn) -> int:
        rows = self.graph.node_count + 2 * self.graph.edge_count
        return max(1, min(_ROWS_PER_PASS // rows, _SETS_PER_PASS))

    def _disconnects(self, edit_sets: Sequence[EditSet]) -> list[bool]:
        before = self._labels(())
        disconnects = []
        for edits in edit_sets:
            after = self._labels(edits)
            # The label of a component is its first node; an intact component keeps one label.
            disconnects.append(bool((after != after[before]).any()))
        return disconnects

    def _code(self, edits: EditSet) -> int:
        chosen = torch.tensor(edits, dtype=torch.long)
        toggled = (self.sources[chosen] * self._nodes + self.targets[chosen]).numpy()
        removed = toggled[self.present[chosen].numpy()]
        kept = np.setdiff1d(self._base, removed, assume_unique=True)
        added = np.setdiff1d(toggled, removed, assume_unique=True)
        relations = [added]
        for kind in self._edge_kinds:
            relations += [np.intersect1d(kept, kind), np.intersect1d(removed, kind)]
        ends = [_ends(codes, self._nodes) for codes in relations]
        return refined_code(self._colours, ends, _CODE_ROUNDS)

    def _edited(self, edits: EditSet) -> Numbers:
        """Codes of the edges after the edits, ascending: [edge]."""
        chosen = torch.tensor(edits, dtype=torch.long)
        toggled = (self.sources[chosen] * self._nodes + self.targets[chosen]).numpy()
        return np.setxor1d(self._base, toggled, assume_unique=True)

    def _labels(self, edits: EditSet) -> Edges:
        return component_labels(self._nodes, _ends(self._edited(edits), self._nodes))

    @property
    def _nodes(self) -> int:
        return self.graph.node_count

    @cached_property
    def _base(self) -> Numbers:
        return np.sort(_codes(self.graph.edges.numpy(), self._nodes))

    @cached_property
    def _edge_kinds(self) -> list[Numbers]:
        """Edge codes grouped by attributes; one group if edges have none."""
        if self.graph.edge_attributes is None:
            return [self._base]
        codes = _codes(self.graph.edges.numpy(), self._nodes)
        rows = self.graph.edge_attributes.numpy()
        kinds = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        return [codes[kinds == kind] for kind in range(int(kinds.max(initial=0)) + 1)]

    @cached_property
    def _shape(self) -> LocalShape:
        return LocalShape(self._nodes, self.graph.edges.numpy())

    @cached_property
    def _colours(self) -> Words:
        kinds = np.unique(self.graph.features.numpy(), axis=0, return_inverse=True)[1]
        return kinds.astype(np.uint64)


def _near(rows: CsrGraph, rng: np.random.Generator) -> Numbers:
    """Codes of pairs with a common neighbour, a sample of them for hubs: [pair]."""
    nodes = rows.node_count
    groups = [np.empty(0, dtype=np.int64)]
    for node in range(nodes):
        row = rows.row(node).astype(np.int64)
        if len(row) > _HUB:
            ends = row[rng.integers(0, len(row), (2, _HUB * (_HUB - 1) // 2))]
            ends = ends[:, ends[0] != ends[1]]
        else:
            first, second = np.triu_indices(len(row), 1)
            ends = np.stack([row[first], row[second]])
        groups.append(_codes(ends, nodes))
    return np.unique(np.concatenate(groups))


def _far(
    rows: CsrGraph, wanted: int, config: CandidateConfig, rng: np.random.Generator
) -> tuple[list[Numbers], list[Numbers]]:
    """About `wanted` pairs in groups, and the patch that contains each group."""
    groups, patches = [], []
    for _ in range(-(-wanted // config.far_per_patch)):
        one, other = (
            rows.ball(int(rng.integers(rows.node_count)), _FAR_HOPS, config.patch_nodes // 2).nodes
            for _ in range(2)
        )
        ends = np.stack(
            [rng.choice(side, config.far_per_patch) for side in (one, other)]
        )  # [2, pair]
        groups.append(_codes(ends[:, ends[0] != ends[1]], rows.node_count))
        patches.append(np.union1d(one, other))
    return groups, patches


def _sample(codes: Numbers, count: int, rng: np.random.Generator) -> Numbers:
    return codes if len(codes) <= count else rng.choice(codes, count, replace=False)


def _allowed(codes: Numbers, nodes: int, rules: EditRules) -> Numbers:
    """The codes without frozen nodes and pairs."""
    for node in rules.frozen_nodes:
        check_node(node, nodes)
    frozen = np.array(sorted(rules.frozen_nodes), dtype=np.int64)
    free = ~(np.isin(codes // nodes, frozen) | np.isin(codes % nodes, frozen))
    if rules.frozen_pairs:
        pairs = np.array(sorted(rules.frozen_pairs), dtype=np.int64).T
        for node in (int(pairs.min()), int(pairs.max())):
            check_node(node, nodes)
        free &= ~np.isin(codes, _codes(pairs, nodes))
    return codes[free]


def _codes(ends: Numbers, nodes: int) -> Numbers:
    """One number per unordered pair: [pair]."""
    codes: Numbers = ends.min(axis=0) * nodes + ends.max(axis=0)
    return codes


def _ends(codes: Numbers, nodes: int) -> Numbers:
    return np.stack([codes // nodes, codes % nodes])
