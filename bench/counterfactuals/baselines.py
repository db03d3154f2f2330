"""Plain searches to compare with: they know the GNN, but nothing about the data."""

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
    """The edited graph, if the sparse GNN gives it another class, and the work it took."""

    graph: Graph | None
    edits: int
    gnn_evaluations: int


Search = Callable[[CounterfactualOracle], EditSet | None]


def greedy(gnn: Gnn, graph: Graph, rules: EditRules, *, device: torch.device) -> BaselineOutcome:
    """The best single edit by the GNN's margin, again and again until the class flips."""
    return _run(gnn, graph, rules, _greedy, device)


def random_edits(
    gnn: Gnn, graph: Graph, rules: EditRules, *, generator: torch.Generator, device: torch.device
) -> BaselineOutcome:
    """Edits in random order until the class flips."""

    def search(judge: CounterfactualOracle) -> EditSet | None:
        order = torch.randperm(judge.space.count, generator=generator).tolist()
        prefixes = [
            tuple(sorted(order[:length]))
            for length in range(1, min(judge.space.budget, len(order)) + 1)
        ]
        margins = judge.margins(prefixes)
        return next(
            (edits for edits, margin in zip(prefixes, margins, strict=True) if margin > 0), None
        )

    return _run(gnn, graph, rules, search, device)


def _greedy(judge: CounterfactualOracle) -> EditSet | None:
    edits: EditSet = ()
    for _ in range(judge.space.budget):
        longer = [
            tuple(sorted((*edits, pair))) for pair in range(judge.space.count) if pair not in edits
        ]
        if not longer:
            return None
        margins = judge.margins(longer)
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
    judge = CounterfactualOracle(gnn, space, FlipGoal(before, None), device)
    edits = search(judge)
    if edits is None or judge.verified_margins([edits])[0] <= 0:
        return BaselineOutcome(None, 0, judge.evaluations + 1)
    return BaselineOutcome(space.apply(edits), len(edits), judge.evaluations + 1)
