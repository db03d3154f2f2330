"""Aggregation over neighbours as a function of a soft adjacency."""

from __future__ import annotations

import torch
from torch import Tensor

from d4explain.gnn.layers.tiles import tiled
from d4explain.gnn.spec import Aggregation


def aggregate(aggr: Aggregation, values: Tensor, adjacency: Tensor) -> Tensor:
    """Aggregates each node's neighbours: [batch, node, width]; 0 without neighbours, as in PyG."""
    if aggr == "max":
        return _maximum(values, adjacency)
    total = torch.bmm(adjacency, values)
    return total if aggr == "add" else _mean(total, adjacency)


def _mean(total: Tensor, adjacency: Tensor) -> Tensor:
    """A X / max(degree, 1) with the weighted degrees of A.

    Below a weighted degree of 1, the mean falls to 0, the value of an isolated node. So value and
    gradient are finite there.
    """
    return total / adjacency.sum(dim=2, keepdim=True).clamp(min=1)


def _maximum(values: Tensor, adjacency: Tensor) -> Tensor:
    """The expected maximum if each neighbour is present with probability w, independently.

    With x_1 ≥ x_2 ≥ … of all nodes: Σ_k x_k · w_k · Π_{l<k} (1 - w_l); the maximum of nothing is 0.
    It is the true maximum where w is 0/1, and linear in each w. So the gradient of an edge is
    exactly the change by adding or removing it.
    """
    batch, nodes, width = values.shape
    needs_gradient = torch.is_grad_enabled() and adjacency.requires_grad
    if not needs_gradient and bool(((adjacency == 0) | (adjacency == 1)).all()):
        return tiled(
            lambda graphs, rows: _discrete_maximum(values[graphs], adjacency[graphs, rows]),
            batch,
            nodes,
            width,
        )
    ranked, order = values.mT.sort(dim=2, descending=True)  # [batch, width, node]
    return tiled(
        lambda graphs, rows: _expected_maximum(
            ranked[graphs], order[graphs], adjacency[graphs, rows]
        ),
        batch,
        nodes,
        width,
    )


def _discrete_maximum(values: Tensor, adjacency: Tensor) -> Tensor:
    """The maximum for a 0/1 adjacency, without sorting."""
    absent = adjacency[:, :, :, None] == 0  # [graph, row, node, 1]
    largest = values[:, None].masked_fill(absent, -torch.inf).amax(dim=2)
    return largest.masked_fill(absent.all(dim=2), 0)


def _expected_maximum(ranked: Tensor, order: Tensor, adjacency: Tensor) -> Tensor:
    """From the smallest value up: this value with probability w, else the maximum below it."""
    graphs, width, nodes = order.shape
    rows = adjacency.shape[1]
    index = order.flatten(1)[:, :, None].expand(-1, -1, rows)  # [graph, width·node, row]
    weights = adjacency.mT.gather(1, index).view(graphs, width, nodes, rows)
    largest = adjacency.new_zeros(graphs, width, rows)
    # unbind instead of slices: the gradient of each slice would be as large as the whole array.
    steps = zip(ranked[..., None].unbind(2), weights.unbind(2), strict=True)
    for value, weight in reversed(list(steps)):
        largest = torch.lerp(largest, value, weight)
    return largest.mT
