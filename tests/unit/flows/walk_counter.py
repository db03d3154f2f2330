"""A node classifier with a known answer: it counts walks."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import torch
from safetensors.torch import save

THRESHOLD = 10.0
_GIN = {"type": "gin", "out": 2, "hidden": 2}
SPEC: dict[str, Any] = {
    "task": "node",
    "features": 1,
    "classes": 2,
    "layers": [_GIN, _GIN, {"type": "linear", "out": 2}],
}


def walk_counter_weights() -> bytes:
    """A node has class 1 if more than THRESHOLD walks of two steps start at it.

    A step may stay at its node.
    """
    tensors = {
        "layers.0.conv.nn.0.weight": torch.ones(2, 1),
        "layers.1.conv.nn.0.weight": torch.eye(2),
        "layers.2.linear.weight": torch.tensor([[0.0, 0.0], [0.5, 0.5]]),
        "layers.2.linear.bias": torch.tensor([0.0, -THRESHOLD]),
    }
    for layer in (0, 1):
        tensors[f"layers.{layer}.conv.eps"] = torch.zeros(1)
        tensors[f"layers.{layer}.conv.nn.0.bias"] = torch.zeros(2)
        tensors[f"layers.{layer}.conv.nn.2.weight"] = torch.eye(2)
        tensors[f"layers.{layer}.conv.nn.2.bias"] = torch.zeros(2)
    return save(tensors)


def count_walks(graph: nx.Graph) -> dict[Any, float]:
    """The number of walks that start at each node, from the square of A + I."""
    nodes = list(graph)
    steps = nx.to_numpy_array(graph, nodes) + np.eye(len(nodes))
    return dict(zip(nodes, (steps @ steps).sum(axis=1).tolist(), strict=True))
