"""Gradients of the predicted class by the graph's edges, through the GNN's dense form.

The dense form is a function of the adjacency itself, so degrees and normalisation follow the edges.
Masks on messages, as in PyG's `CaptumExplainer`, leave them unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from models.counterfactual.oracle import CounterfactualOracle
from models.graphs.edits import EditSpace

_CELLS_PER_PASS = 2**20  # entries of the adjacencies of one forward and backward pass


def dense_space(oracle: CounterfactualOracle) -> EditSpace:
    """The edit space of a graph in dense form; larger graphs and black boxes are refused before."""
    space = oracle.space.dense_form
    if space is None or not oracle.gnn.has_dense:
        raise ValueError("gradients need a GNN and a graph in dense form")
    return space


def edge_gradients(
    oracle: CounterfactualOracle, weights: Tensor, score: Callable[[Tensor], Tensor]
) -> Tensor:
    """Gradient of the score of the class before, by each edge: [weight, edge].

    One row per weight [weight] that all edges of the graph get. `score` maps logits to scores, both
    [weight, class]. An undirected edge is two entries of the adjacency; their gradients add up.
    """
    space = dense_space(oracle)
    source, target = space.graph.edges
    per_pass = max(1, _CELLS_PER_PASS // max(1, space.graph.node_count) ** 2)
    rows = []
    for some in torch.split(weights, per_pass):
        oracle.check_stop()
        graphs = space.dense([()] * len(some)).to(oracle.device)
        scale = some.to(graphs.adjacency)[:, None, None]
        with torch.inference_mode(mode=False), torch.enable_grad():
            adjacency = (graphs.adjacency * scale).clone().requires_grad_()
            scores = score(oracle.gnn.dense(graphs.with_adjacency(adjacency)))
            value = scores[:, oracle.goal.before].sum()
            if value.requires_grad:
                (slope,) = torch.autograd.grad(
                    value, adjacency, allow_unused=True, materialize_grads=True
                )
            else:
                slope = torch.zeros_like(adjacency)  # a GNN that reads no edges
        oracle.evaluations += len(some)
        oracle.gradient_count += len(some)
        slope = slope.cpu()
        rows.append(slope[:, source, target] + slope[:, target, source])
    return torch.cat(rows)
