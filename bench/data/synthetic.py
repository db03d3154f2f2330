"""Synthetic benchmarks with known motifs: BA-3Motif, BA-Shapes, Tree-Cycle and Tree-Grid.

They follow the generators of GNNExplainer (Ying et al. 2019) and ReFine (Wang et al. 2021): the
first node of motif k is linked to node k·⌊base / motifs⌋ of a base graph. Half of the cycles have a
second link to a nearby base node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from models.witnesses.classifier_training import LabelledGraphs

__all__ = [
    "Ba3Class",
    "LabelledGraphs",
    "NodeDataset",
    "ba3motif",
    "ba_shapes",
    "tree_cycle",
    "tree_grid",
]

_Edge = tuple[int, int]


@dataclass(frozen=True)
class _Motif:
    roles: tuple[int, ...]  # role of each node; 0 is reserved for the base
    edges: tuple[_Edge, ...]
    second_link: bool = False

    @property
    def nodes(self) -> int:
        return len(self.roles)


_HOUSE = _Motif((1, 1, 2, 2, 3), ((0, 1), (0, 3), (0, 4), (1, 2), (1, 4), (2, 3)))
_GRID = _Motif(
    (1,) * 9,
    tuple((i, i + 1) for i in range(9) if i % 3 < 2) + tuple((i, i + 3) for i in range(6)),
)


def _cycle(nodes: int) -> _Motif:
    ring = tuple((i, i + 1) for i in range(nodes - 1))
    return _Motif((1,) * nodes, (*ring, (0, nodes - 1)), second_link=True)


class Ba3Class(Enum):
    HOUSE = 0
    GRID = 1
    CYCLE = 2


@dataclass(frozen=True)
class _Ba3Recipe:
    """How to generate one BA-3Motif class; weights are counts in the published graphs."""

    motif: _Motif
    attachments: int  # of the Barabási–Albert base of 6 nodes; 5 gives a star, 3 gives 9 edges
    # Frequency of each number of motifs, and for it the frequency of 0, 1, 2, … extra edges.
    motif_counts: dict[int, int]
    extra_edges: dict[int, tuple[int, ...]]


_EXTRA_ON_STAR = {2: (28, 60), 3: (27, 50, 16), 4: (14, 38, 31, 8)}
_BA3_RECIPES = {
    Ba3Class.HOUSE: _Ba3Recipe(_HOUSE, 5, {2: 88, 3: 93, 4: 91}, _EXTRA_ON_STAR),
    Ba3Class.GRID: _Ba3Recipe(
        _GRID, 3, {1: 80, 2: 104, 3: 83}, {1: (5, 23, 52), 2: (11, 44, 40, 9), 3: (19, 32, 22, 10)}
    ),
    Ba3Class.CYCLE: _Ba3Recipe(_cycle(5), 5, {2: 98, 3: 82, 4: 81}, _EXTRA_ON_STAR),
}
_BA3_BASE = 6


@dataclass(frozen=True)
class NodeDataset:
    """One graph whose nodes are classified."""

    graph: Graph
    labels: Tensor  # [node] int64
    motif_edges: Tensor  # [edge] bool, aligned with graph.edges


def ba3motif(
    count: int,
    generator: torch.Generator,
    *,
    features: Literal["constant", "role"] = "constant",
) -> LabelledGraphs:
    """BA-3Motif graphs in random order, classes in equal shares: 0 house, 1 grid, 2 cycle.

    Constant features are a single 1 per node, so that only structure tells the classes apart.
    Role features are ReFine's: 0.25 · one-hot(role, 4) + 0.75 · uniform(0, 1).
    """
    labels = (torch.arange(count) % len(Ba3Class))[torch.randperm(count, generator=generator)]
    graphs = []
    for label in labels.tolist():
        builder = _ba3_graph(_BA3_RECIPES[Ba3Class(label)], generator)
        graphs.append(Graph(_ba3_features(builder.roles, features, generator), builder.edge_tensor))
    return LabelledGraphs(graphs, labels)


def ba_shapes(generator: torch.Generator) -> NodeDataset:
    """80 houses on a Barabási–Albert graph of 300 nodes; classes are positions in the house."""
    base = _barabasi_albert(300, 5, generator)
    return _node_dataset(300, base, _HOUSE, 80, generator)


def tree_cycle(generator: torch.Generator) -> NodeDataset:
    """60 six-node cycles on a binary tree of 511 nodes; class 1 is in a cycle."""
    return _node_dataset(511, _binary_tree(511), _cycle(6), 60, generator)


def tree_grid(generator: torch.Generator) -> NodeDataset:
    """80 3×3 grids on a binary tree of 511 nodes; class 1 is in a grid."""
    return _node_dataset(511, _binary_tree(511), _GRID, 80, generator)


@dataclass
class _GraphBuilder:
    """A graph under construction."""

    roles: list[int]
    edges: set[_Edge]
    motif_edges: set[_Edge]

    @property
    def edge_tensor(self) -> Tensor:
        return torch.tensor(sorted(self.edges), dtype=torch.int64).T.contiguous()

    def connect(self, a: int, b: int) -> None:
        self.edges.add((min(a, b), max(a, b)))


def _ba3_graph(recipe: _Ba3Recipe, generator: torch.Generator) -> _GraphBuilder:
    motifs = _draw(list(recipe.motif_counts.items()), generator)
    base = _barabasi_albert(_BA3_BASE, recipe.attachments, generator)
    builder = _with_motifs(_BA3_BASE, base, recipe.motif, motifs, generator)
    extra = _draw(list(enumerate(recipe.extra_edges[motifs])), generator)
    # As in the published graphs, an extra edge has at least one end in the base.
    free = [
        (source, target)
        for source in range(_BA3_BASE)
        for target in range(source + 1, len(builder.roles))
        if (source, target) not in builder.edges
    ]
    for chosen in torch.randperm(len(free), generator=generator)[:extra].tolist():
        builder.edges.add(free[chosen])
    return builder


def _node_dataset(
    base_nodes: int, base: set[_Edge], motif: _Motif, motifs: int, generator: torch.Generator
) -> NodeDataset:
    builder = _with_motifs(base_nodes, base, motif, motifs, generator)
    nodes = len(builder.roles)
    extra = len(builder.edges) // 100  # 1 % random edges between any two nodes
    while extra:
        a, b = torch.randint(nodes, (2,), generator=generator).tolist()
        if a != b and (min(a, b), max(a, b)) not in builder.edges:
            builder.connect(a, b)
            extra -= 1
    return NodeDataset(
        graph=Graph(torch.ones(nodes, 10), builder.edge_tensor),
        labels=torch.tensor(builder.roles),
        motif_edges=torch.tensor([edge in builder.motif_edges for edge in sorted(builder.edges)]),
    )


def _with_motifs(
    base_nodes: int, base: set[_Edge], motif: _Motif, motifs: int, generator: torch.Generator
) -> _GraphBuilder:
    builder = _GraphBuilder([0] * base_nodes, set(base), set())
    for number in range(motifs):
        base_node = number * (base_nodes // motifs)
        start = len(builder.roles)
        builder.roles.extend(motif.roles)
        inside = {(start + a, start + b) for a, b in motif.edges}
        builder.edges |= inside
        builder.motif_edges |= inside
        builder.connect(base_node, start)
        if motif.second_link and int(torch.randint(2, (1,), generator=generator)):
            # Past the end of a small base this hits the first motif, as in the published graphs:
            # 23 % of the BA-3Motif cycle graphs join two cycles.
            on_base, on_motif = torch.randint(1, 4, (2,), generator=generator).tolist()
            builder.connect(base_node + on_base, start + on_motif)
    return builder


def _barabasi_albert(nodes: int, attachments: int, generator: torch.Generator) -> set[_Edge]:
    """Link each new node to `attachments` others with probability proportional to degree."""
    edges: set[_Edge] = set()
    ends: list[int] = []  # every node, once per incident edge
    targets = set(range(attachments))
    for node in range(attachments, nodes):
        edges |= {(target, node) for target in targets}
        ends.extend(sorted(targets))
        ends.extend([node] * attachments)
        targets = set()
        while len(targets) < attachments:
            targets.add(ends[int(torch.randint(len(ends), (1,), generator=generator))])
    return edges


def _binary_tree(nodes: int) -> set[_Edge]:
    return {((child - 1) // 2, child) for child in range(1, nodes)}


def _ba3_features(
    roles: Sequence[int], features: Literal["constant", "role"], generator: torch.Generator
) -> Tensor:
    if features == "constant":
        return torch.ones(len(roles), 1)
    one_hot = torch.nn.functional.one_hot(torch.tensor(roles), 4).float()
    return 0.25 * one_hot + 0.75 * torch.rand(one_hot.shape, generator=generator)


def _draw(weighted: Sequence[tuple[int, int]], generator: torch.Generator) -> int:
    """Draw a value with probability proportional to its weight."""
    weights = torch.tensor([float(weight) for _, weight in weighted])
    return weighted[int(torch.multinomial(weights, 1, generator=generator))][0]
