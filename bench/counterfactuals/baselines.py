"""Baseline searches that query the GNN but use no training data; `methods` registers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.oracle import FORBIDDEN, CounterfactualOracle, FlipGoal
from models.graphs.edits import EditRules, EditSet, EditSpace


@dataclass(frozen=True)
class BaselineOutcome:
    """The edited graph, or None if the sparse GNN confirms no flip, and the cost."""

    graph: Graph | None
    edits: int
    gnn_evaluations: int


Search = Callable[[CounterfactualOracle], EditSet | None]


def greedy(gnn: Gnn, graph: Graph, rules: EditRules, *, device: torch.device) -> BaselineOutcome:
    """Repeat the best single edit by the GNN's margin until the class flips."""
    return _run(gnn, graph, rules, _greedy, device)


def random_edits(
    gnn: Gnn, graph: Graph, rules: EditRules, *, generator: torch.Generator, device: torch.device
) -> BaselineOutcome:
    """Apply edits in random order until the class flips."""

    def search(oracle: CounterfactualOracle) -> EditSet | None:
        order = torch.randperm(oracle.space.count, generator=generator).tolist()
        prefixes = [
            tuple(sorted(order[:length]))
            for length in range(1, min(oracle.space.budget, len(order)) + 1)
        ]
        margins = oracle.margins(prefixes)
        return next(
            (edits for edits, margin in zip(prefixes, margins, strict=True) if margin > 0), None
        )

    return _run(gnn, graph, rules, search, device)


def _greedy(oracle: CounterfactualOracle) -> EditSet | None:
    edits: EditSet = ()
    for _ in range(oracle.space.budget):
        longer = [
            tuple(sorted((*edits, pair))) for pair in range(oracle.space.count) if pair not in edits
        ]
        if not longer:
            return None
        margins = oracle.margins(longer)
        best = max(range(len(longer)), key=margins.__getitem__)
        if margins[best] == FORBIDDEN:
            return None
        edits = longer[best]
        if margins[best] > 0:
            return edits
    return None


def _run(
    gnn: Gnn, graph: Graph, rules: EditRules, search: Search, device: torch.device
) -> BaselineOutcome:
    gnn.eval()
    space = EditSpace.of(graph, rules)
    before = int(predict(gnn, [graph], device)[0].argmax())
    oracle = CounterfactualOracle(gnn, space, FlipGoal(before, None), device)
    edits = search(oracle)
    if edits is None or oracle.verified_margins([edits])[0] <= 0:
        return BaselineOutcome(None, 0, oracle.evaluations + 1)
    return BaselineOutcome(space.apply(edits), len(edits), oracle.evaluations + 1)
