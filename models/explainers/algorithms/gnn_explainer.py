"""GNNExplainer: a learned soft mask over the edges that keeps the prediction.

Ying et al., "GNNExplainer: Generating Explanations for Graph Neural Networks", NeurIPS 2019.
"""

from __future__ import annotations

import torch
from torch_geometric.explain import Explainer as PygExplainer
from torch_geometric.explain import GNNExplainer as PygGnnExplainer
from torch_geometric.explain import ModelConfig

from models.counterfactual.oracle import CounterfactualOracle
from models.explainers.algorithms.pyg_model import (
    PygModel,
    attributes_both_ways,
    both_directions,
    undirected,
)
from models.explainers.interface import EdgeScores, seeded

EPOCHS = 100  # PyG's default


class GnnExplainer:
    """PyG's implementation, which masks messages; the verified curve deletes the edges."""

    def __init__(self, *, epochs: int = EPOCHS) -> None:
        self._epochs = epochs

    def explain(self, oracle: CounterfactualOracle, generator: torch.Generator) -> EdgeScores:
        graph = oracle.space.graph
        if not (graph.edge_count and oracle.gnn.spec.convolutions):
            return EdgeScores(torch.zeros(graph.edge_count))  # PyG refuses a GNN without messages
        explainer = PygExplainer(
            model=PygModel(oracle.gnn).eval(),
            algorithm=PygGnnExplainer(epochs=self._epochs),
            explanation_type="model",
            edge_mask_type="object",
            model_config=ModelConfig("multiclass_classification", "graph", "raw"),
        )
        with seeded(generator), torch.inference_mode(mode=False), torch.enable_grad():
            explanation = explainer(
                graph.features,
                both_directions(graph),
                target_node=graph.target,
                edge_attributes=attributes_both_ways(graph),
            )
        oracle.gnn.zero_grad(set_to_none=True)  # PyG's loss leaves gradients on the weights
        oracle.evaluations += self._epochs
        oracle.gradient_count += self._epochs
        return EdgeScores(undirected(explanation.edge_mask))
