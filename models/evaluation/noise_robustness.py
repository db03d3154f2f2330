"""Robustness: whether a class survives a few random edits."""

from __future__ import annotations

import torch

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.evaluation.answers import toggled

COPIES = 20
NOISE = 0.05  # toggled pairs / edges; at least one


def kept_share(
    gnn: Gnn, graph: Graph, wanted: int, *, seed: int, device: torch.device, copies: int = COPIES
) -> float | None:
    """The share of noisy copies to which the GNN gives the wanted class.

    Each copy toggles max(1, round(0.05 · edges)) random pairs, half of them edges of the graph if
    there are several: all pairs alike would hardly remove an edge. None for a graph of one node.
    """
    nodes = graph.node_count
    if nodes < 2:
        return None
    generator = torch.Generator().manual_seed(seed)
    present = list(map(tuple, graph.edges.T.tolist()))
    count = max(1, round(NOISE * len(present)))
    noisy = []
    for _ in range(copies):
        pairs: set[tuple[int, int]] = set()
        while len(pairs) < min(count, nodes * (nodes - 1) // 2):
            if present and torch.rand(1, generator=generator) < 0.5:
                pairs.add(present[int(torch.randint(len(present), (1,), generator=generator))])
            else:
                one, other = torch.randint(nodes, (2,), generator=generator).tolist()
                if one != other:
                    pairs.add((min(one, other), max(one, other)))
        noisy.append(toggled(graph, sorted(pairs)))
    classes = predict(gnn, noisy, device).argmax(dim=1)
    return float((classes == wanted).double().mean())
