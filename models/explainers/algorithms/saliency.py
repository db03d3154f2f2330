"""Saliency: the size of the gradient of the predicted class by each edge.

Simonyan et al., "Deep Inside Convolutional Networks", ICLR Workshop 2014; for graphs: Baldassarre
and Azizpour, "Explainability Techniques for Graph Convolutional Networks", 2019.
"""

from __future__ import annotations

import torch

from models.counterfactual.oracle import CounterfactualOracle
from models.explainers.algorithms.edge_gradients import edge_gradients
from models.explainers.interface import EdgeScores


class Saliency:
    def explain(self, oracle: CounterfactualOracle, generator: torch.Generator) -> EdgeScores:
        slopes = edge_gradients(oracle, torch.ones(1), lambda logits: logits.log_softmax(dim=1))
        return EdgeScores(slopes[0].abs())
