"""Noise on a graph that is explained: some of its edges removed, others added."""

from __future__ import annotations

import math
from itertools import combinations

import torch

from d4explain.gnn.graphs import Graph

# keeps ⌈.02 · 50⌉ at 1 although .02 · 50 may be a hair above it
_ROUNDING = 1e-9


def noisy(graph: Graph, share: float, generator: torch.Generator) -> Graph:
    """⌈share · |E|⌉ different pairs toggled, each by a fair coin an edge or an absent pair.

    Rounded up, so that no noisy graph is the graph itself; edges are sorted as everywhere.
    """
    present = set(map(tuple, graph.edges.T.tolist()))
    absent = [pair for pair in combinations(range(graph.node_count), 2) if pair not in present]
    left = {True: sorted(present), False: absent}
    toggled: set[tuple[int, int]] = set()
    for _ in range(math.ceil(share * len(present) - _ROUNDING)):
        removes = bool(torch.rand((), generator=generator) < 0.5)
        pairs = left[removes] or left[not removes]
        if not pairs:
            break
        place = int(torch.randint(len(pairs), (), generator=generator))
        toggled.add(pairs.pop(place))
    edges = sorted(present.symmetric_difference(toggled))
    return Graph(
        graph.features, torch.tensor(edges).view(-1, 2).T.long().contiguous(), graph.target
    )
