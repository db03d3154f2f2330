"""Checks the graphs and the GNN of a training."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch

from d4explain.gnn.errors import NoMarkedNodeError
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn


def are_marked(graphs: Sequence[Graph], gnn: Gnn | None, *, needs_gnn: bool) -> bool:
    """Whether the graphs mark a node; raises if a training cannot use them.

    `needs_gnn` says whether a term of the loss asks the GNN.
    """
    if not graphs:
        raise ValueError("a denoiser needs at least one reference graph")
    if needs_gnn:
        if gnn is None:
            raise ValueError("the loss of this recipe needs the GNN")
        if gnn.spec.classes < 2:
            raise ValueError(f"a counterfactual needs 2 classes, got {gnn.spec.classes}")
    marked = graphs[0].target is not None
    if any((graph.target is not None) != marked for graph in graphs):
        raise ValueError("either all reference graphs have a marked node or none has one")
    if gnn is not None and gnn.spec.classifies_nodes and not marked:
        raise NoMarkedNodeError("a denoiser for a node classifier")
    return marked


def frozen_copy(gnn: Gnn, device: torch.device) -> Gnn:
    """A copy, because the caller's GNN keeps its mode and its gradients."""
    return copy.deepcopy(gnn).to(device).eval().requires_grad_(False)
