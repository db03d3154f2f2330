"""Random edge noise: remove some edges and add others."""

from __future__ import annotations

import math
from itertools import combinations

import torch

from d4explain.gnn.graphs import Graph

# Keeps ⌈0.02 · 50⌉ at 1 although the product may be slightly above it.
_ROUNDING = 1e-9


def add_noise(graph: Graph, share: float, generator: torch.Generator) -> Graph:
    """Toggle ⌈share · |E|⌉ distinct pairs; a fair coin decides between edge and absent pair.

    The count is rounded up, so a noisy graph always differs. Edges are sorted.
    """
    present = set(map(tuple, graph.edges.T.tolist()))
    absent = [pair for pair in combinations(range(graph.node_count), 2) if pair not in present]
    remaining = {True: sorted(present), False: absent}  # by whether the pair is an edge
    toggled: set[tuple[int, int]] = set()
    for _ in range(math.ceil(share * len(present) - _ROUNDING)):
        removes = bool(torch.rand((), generator=generator) < 0.5)
        pairs = remaining[removes] or remaining[not removes]
        if not pairs:
            break
        index = int(torch.randint(len(pairs), (), generator=generator))
        toggled.add(pairs.pop(index))
    edges = sorted(present.symmetric_difference(toggled))
    return Graph(
        graph.features, torch.tensor(edges).view(-1, 2).T.long().contiguous(), graph.target
    )
