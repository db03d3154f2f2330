"""Hill climbing: from a random graph, the best single toggle until none raises the confidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph, from_dense, to_dense
from d4explain.gnn.network import Gnn
from models.classes.node_features import ClassParts

_GRAPHS_PER_PASS = 512


def climb(
    gnn: Gnn,
    label: int,
    parts: ClassParts,
    *,
    sizes: Sequence[int],
    steps: int,
    generator: torch.Generator,
    device: torch.device,
    should_stop: Callable[[], bool],
    on_step: Callable[[int], None],
) -> list[Graph]:
    """One local maximum per size, or what `steps` toggles reach.

    A climb starts from ER(N, 1/2) with the node features of a part of a class graph.
    """
    found = []
    for number, size in enumerate(sizes):
        if should_stop():
            break
        start = to_dense([parts.draw(size)])
        pairs = torch.triu_indices(size, size, offset=1)  # [2, pair]
        drawn = (torch.rand(pairs.shape[1], generator=generator) < 0.5).float()
        current = _with_pairs(start, pairs, drawn[None])
        (best,) = log_confidence(gnn, label, current, device).tolist()
        for _ in range(steps):
            toggled = drawn.repeat(len(drawn), 1)
            toggled.fill_diagonal_(0).add_(torch.diag(1 - drawn))
            values = log_confidence(gnn, label, _with_pairs(start, pairs, toggled), device)
            if not len(values) or float(values.max()) <= best:
                break
            best, drawn = float(values.max()), toggled[int(values.argmax())]
        found += from_dense(_with_pairs(start, pairs, drawn[None]))
        on_step(number + 1)
    return found


def log_confidence(gnn: Gnn, label: int, graphs: DenseGraphs, device: torch.device) -> Tensor:
    """log p(class | graph) of each graph: [graph]."""
    rows = []
    for start in range(0, graphs.count, _GRAPHS_PER_PASS):
        some = graphs.select(slice(start, start + _GRAPHS_PER_PASS))
        with torch.inference_mode():
            logits = gnn.answers(some.to(device)).cpu()
        rows.append(logits.log_softmax(dim=1)[:, label])
    return torch.cat(rows) if rows else torch.empty(0)


def _with_pairs(graph: DenseGraphs, pairs: Tensor, values: Tensor) -> DenseGraphs:
    """The graph with each of the [graph, pair] 0/1 values."""
    adjacency = graph.adjacency.new_zeros(len(values), *graph.adjacency.shape[1:])
    adjacency[:, pairs[0], pairs[1]] = values
    adjacency[:, pairs[1], pairs[0]] = values
    return graph.select(torch.zeros(len(values), dtype=torch.long)).with_adjacency(adjacency)
