"""Grad-CAM: node states weighted by the gradient of the predicted class.

Selvaraju et al., "Grad-CAM", ICCV 2017; for graphs: Pope et al., "Explainability Methods for Graph
Convolutional Neural Networks", CVPR 2019. For layer l with states F [node, channel]:
α_k = mean over nodes of ∂y/∂F[n, k], heat map L[n] = ReLU(Σ_k α_k F[n, k]). We take Pope et al.'s
average over all convolutions, because the last one alone says nothing about a node's neighbours.
"""

from __future__ import annotations

import torch
from torch import Tensor

from d4explain.gnn.graphs import to_sparse
from models.counterfactual.oracle import CounterfactualOracle
from models.explainers.interface import EdgeScores, edge_scores_of_nodes


class GradCam:
    def explain(self, oracle: CounterfactualOracle, generator: torch.Generator) -> EdgeScores:
        gnn, graph = oracle.gnn, oracle.space.graph
        numbers = set(gnn.spec.state_values)
        if not numbers:
            return edge_scores_of_nodes(graph, torch.zeros(graph.node_count))
        states: list[Tensor] = []  # of each convolution: [node, channel]

        def watch(number: int, values: Tensor) -> Tensor:
            if number not in numbers:
                return values
            states.append(values if values.requires_grad else values.detach().requires_grad_())
            return states[-1]

        with torch.inference_mode(mode=False), torch.enable_grad():
            rows = gnn.sparse_values(to_sparse([graph]).to(oracle.device), watch)
            logits = rows[graph.target if gnn.spec.classifies_nodes else 0]  # [class]
            slopes = torch.autograd.grad(
                logits[oracle.goal.before], states, allow_unused=True, materialize_grads=True
            )
        oracle.evaluations += 1
        oracle.gradient_count += 1
        maps = [
            torch.relu((state.detach() * slope.mean(dim=0)).sum(dim=1)).cpu()
            for state, slope in zip(states, slopes, strict=True)
        ]
        return edge_scores_of_nodes(graph, torch.stack(maps).mean(dim=0))
