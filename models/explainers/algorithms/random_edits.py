"""Random edits: the baseline that every explainer has to beat."""

from __future__ import annotations

import torch

from models.counterfactual.oracle import CounterfactualOracle
from models.explainers.interface import EditOrder


class RandomEdits:
    def explain(self, oracle: CounterfactualOracle, generator: torch.Generator) -> EditOrder:
        return EditOrder(tuple(torch.randperm(oracle.space.count, generator=generator).tolist()))
