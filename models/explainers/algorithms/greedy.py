"""Greedy search: the best single edit by the GNN's margin, again and again."""

from __future__ import annotations

import torch

from models.counterfactual.oracle import FORBIDDEN, CounterfactualOracle
from models.explainers.interface import EditOrder


class Greedy:
    """Adds and removes edges as the rules allow; stops at the first flip, or goes on to the budget.

    Going on ranks further edits, which the robustness benchmark compares.
    """

    def __init__(self, *, stop_at_flip: bool = True) -> None:
        self._stop_at_flip = stop_at_flip

    def explain(self, oracle: CounterfactualOracle, generator: torch.Generator) -> EditOrder:
        order: list[int] = []
        while len(order) < min(oracle.space.budget, oracle.space.count):
            left = [pair for pair in range(oracle.space.count) if pair not in order]
            margins = oracle.margins([tuple(sorted((*order, pair))) for pair in left])
            best = max(range(len(left)), key=margins.__getitem__)
            if margins[best] == FORBIDDEN:
                break
            order.append(left[best])
            if self._stop_at_flip and margins[best] > 0:
                break
        return EditOrder(tuple(order))
