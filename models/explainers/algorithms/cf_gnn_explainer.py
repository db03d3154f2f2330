"""CF-GNNExplainer: gradient descent on a soft deletion mask until the class flips.

Lucic et al., "CF-GNNExplainer: Counterfactual Explanations for Graph Neural Networks", AISTATS
2022. Edge weights are σ(p); an edge is deleted where σ(p) < .5. The loss is β · (weight removed)
plus, while the thresholded graph keeps its class, log p(class | soft graph). All thresholded graphs
that flip are answers.
"""

from __future__ import annotations

import torch

from models.counterfactual.oracle import CounterfactualOracle
from models.explainers.algorithms.edge_gradients import dense_space
from models.explainers.interface import EditedGraphs
from models.graphs.base_edit_space import EditSet

EPOCHS = 500
LEARNING_RATE = 0.1
BETA = 0.005
_START = 1.0  # p of every edge: all edges stay at first


class CfGnnExplainer:
    """The paper's epochs and rate, but Adam, and a smaller β, chosen on validation instances.

    Plain gradient steps are too small where the GNN is sure. The authors count deleted edges, a
    term without a gradient, so that their β = .5 moves no weight.
    """

    def __init__(self, *, epochs: int = EPOCHS, beta: float = BETA) -> None:
        self._epochs = epochs
        self._beta = beta

    def explain(self, oracle: CounterfactualOracle, generator: torch.Generator) -> EditedGraphs:
        space = dense_space(oracle)
        removable = space.present.nonzero()[:, 0]  # [removable], positions among the pairs
        if not len(removable):
            return EditedGraphs(())
        source, target = space.sources[removable], space.targets[removable]
        graphs = space.dense([()]).to(oracle.device)
        flips: dict[EditSet, bool] = {}
        with torch.inference_mode(mode=False), torch.enable_grad():
            weights = torch.full((len(removable),), _START, requires_grad=True)
            optimizer = torch.optim.Adam([weights], lr=LEARNING_RATE)
            for _ in range(self._epochs):
                oracle.check_stop()
                kept = torch.sigmoid(weights)
                edits = tuple(removable[kept.detach() < 0.5].tolist())
                if edits not in flips:
                    flips[edits] = _flips(oracle, edits)
                removed = (1 - kept).sum()
                loss = self._beta * removed
                if not flips[edits]:
                    adjacency = graphs.adjacency.clone()
                    adjacency[0, source, target] = kept.to(adjacency)
                    adjacency[0, target, source] = kept.to(adjacency)
                    logits = oracle.gnn.dense(graphs.with_adjacency(adjacency))
                    loss = loss + logits.log_softmax(dim=1)[0, oracle.goal.before].cpu()
                    oracle.evaluations += 1
                    oracle.gradient_count += 1
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        oracle.gnn.zero_grad(set_to_none=True)
        return EditedGraphs(tuple(edits for edits, flip in flips.items() if flip and edits))


def _flips(oracle: CounterfactualOracle, edits: EditSet) -> bool:
    """Also for sets beyond the budget, which the descent passes through."""
    with torch.inference_mode():
        logits = oracle.space.logits(oracle.gnn, [edits], oracle.device)
    oracle.evaluations += 1
    return bool(oracle.goal.margin(logits)[0] > 0)
