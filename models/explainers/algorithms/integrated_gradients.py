"""Integrated gradients from the graph without edges to the graph itself.

Sundararajan et al., "Axiomatic Attribution for Deep Networks", ICML 2017. The scores of the edges
sum to the difference in probability between both graphs, if the GNN is continuous on the path.
"""

from __future__ import annotations

import numpy as np
import torch

from models.counterfactual.oracle import CounterfactualOracle
from models.explainers.algorithms.edge_gradients import edge_gradients
from models.explainers.interface import EdgeScores

STEPS = 50


class IntegratedGradients:
    """Gauss-Legendre quadrature of the gradient along equal weights of all edges from 0 to 1."""

    def __init__(self, *, steps: int = STEPS) -> None:
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        self._edge_weights = torch.from_numpy((nodes + 1) / 2).float()  # [step]
        self._quadrature = torch.from_numpy(weights / 2).float()  # [step], sums to 1

    def explain(self, oracle: CounterfactualOracle, generator: torch.Generator) -> EdgeScores:
        slopes = edge_gradients(oracle, self._edge_weights, lambda logits: logits.softmax(dim=1))
        return EdgeScores((self._quadrature[:, None] * slopes).sum(dim=0))
