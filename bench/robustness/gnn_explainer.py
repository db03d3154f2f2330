"""PyG's GNNExplainer (Ying et al. 2019) applied to our GNNs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig

from d4explain.gnn.graphs import Graph, SparseGraphs
from d4explain.gnn.network import Gnn

EPOCHS = 100  # PyG's default


class _SingleGraphModel(nn.Module):
    """Adapts the GNN to the call signature of PyG's explainers."""

    def __init__(self, gnn: Gnn) -> None:
        super().__init__()
        self.gnn = gnn

    def forward(self, features: Tensor, edge_index: Tensor) -> Tensor:
        nodes = features.shape[0]
        graph_of_node = torch.zeros(nodes, dtype=torch.long)
        logits: Tensor = self.gnn(SparseGraphs(features, edge_index, graph_of_node, count=1))
        return logits


def edge_importance(gnn: Gnn, graph: Graph, *, seed: int, epochs: int = EPOCHS) -> Tensor:
    """Importance of each edge for the predicted class, in [0, 1]: [edge].

    PyG masks both directions of an edge separately; we take their mean.
    """
    explainer = Explainer(
        model=_SingleGraphModel(gnn).eval(),
        algorithm=GNNExplainer(epochs=epochs),
        explanation_type="model",
        edge_mask_type="object",
        model_config=ModelConfig("multiclass_classification", "graph", "raw"),
    )
    both_ways = torch.cat([graph.edges, graph.edges.flip(0)], dim=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # PyG draws its initial mask from the global generator
        explanation = explainer(graph.features, both_ways)
    mask: Tensor = explanation.edge_mask
    gnn.zero_grad(set_to_none=True)  # PyG's loss also leaves gradients on the GNN's weights
    return mask.view(2, -1).mean(dim=0).detach()
