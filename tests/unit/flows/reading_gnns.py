"""GNNs with known answers that read atoms of molecules, or attributes of edges."""

from __future__ import annotations

from typing import Any

import torch
from safetensors.torch import save

MOLECULE_SPEC: dict[str, Any] = {
    "features": 5,
    "classes": 2,
    "class_names": ["few", "many"],
    "layers": [
        {"type": "gin", "out": 1, "hidden": 1},
        {"type": "pool", "op": "sum"},
        {"type": "linear", "out": 2},
    ],
    "featuriser": {"kind": "smiles", "atoms": ["C", "N", "O", "F"], "other": True},
}
MOLECULES = [
    {"smiles": text, "label": 0} for text in ("CCO", "c1ccccc1", "CC(C)N", "C1CC1", "FC(F)F")
]
STRENGTH_SPEC: dict[str, Any] = {
    "features": 1,
    "edge_features": 2,
    "classes": 2,
    "layers": [
        {"type": "gine", "out": 1, "hidden": 1},
        {"type": "pool", "op": "sum"},
        {"type": "linear", "out": 2},
    ],
}
_WEAK, _STRONG = [1.0, 0.0], [0.0, 1.0]


def bond_counter(threshold: float) -> bytes:
    """Weights of a GNN whose class is 1 if atoms + 2 · bonds > threshold."""
    return save({**_counted(torch.ones(1, 5)), **_decision(threshold)})


def strength_counter(threshold: float) -> bytes:
    """Weights of a GNN whose class is 1 if nodes + 2 · edges + 2 · strong edges > threshold."""
    edges = {
        "layers.0.conv.lin.weight": torch.tensor([[0.0, 1.0]]),
        "layers.0.conv.lin.bias": torch.zeros(1),
    }
    return save({**_counted(torch.ones(1, 1)), **edges, **_decision(threshold)})


def strong_ring(nodes: int, strong: int) -> dict[str, Any]:
    """A ring whose first edges are strong; the label is the class of `strength_counter(17.5)`."""
    kinds = [_STRONG if edge < strong else _WEAK for edge in range(nodes)]
    return {
        "nodes": [{"id": f"n{node}", "x": [1.0]} for node in range(nodes)],
        "edges": [
            {"source": f"n{node}", "target": f"n{(node + 1) % nodes}", "edge_attr": kind}
            for node, kind in enumerate(kinds)
        ],
        "label": int(3 * nodes + 2 * strong > 17.5),
    }


def _counted(first: torch.Tensor) -> dict[str, torch.Tensor]:
    return {
        "layers.0.conv.eps": torch.zeros(1),
        "layers.0.conv.nn.0.weight": first,
        "layers.0.conv.nn.0.bias": torch.zeros(1),
        "layers.0.conv.nn.2.weight": torch.ones(1, 1),
        "layers.0.conv.nn.2.bias": torch.zeros(1),
    }


def _decision(threshold: float) -> dict[str, torch.Tensor]:
    return {
        "layers.2.linear.weight": torch.tensor([[0.0], [2.0]]),
        "layers.2.linear.bias": torch.tensor([0.0, -2.0 * threshold]),
    }
