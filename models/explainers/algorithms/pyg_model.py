"""Our GNN with the call signature of PyG's explainers, which mask the messages of its layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from d4explain.gnn.graphs import Graph, SparseGraphs
from d4explain.gnn.network import Gnn


class PygModel(nn.Module):
    """Logits of one graph [1, class]; or of all its nodes [node, class], if `per_node`."""

    def __init__(self, gnn: Gnn, *, per_node: bool = False) -> None:
        super().__init__()
        self.gnn = gnn
        self._per_node = per_node

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        target_node: int | None = None,
        edge_attributes: Tensor | None = None,
    ) -> Tensor:
        graphs = SparseGraphs(
            x,
            edge_index,
            torch.zeros(x.shape[0], dtype=torch.long, device=x.device),
            count=1,
            targets=None if target_node is None else torch.tensor([target_node]),
            edge_attributes=edge_attributes,
        )
        logits: Tensor = self.gnn.node_logits(graphs) if self._per_node else self.gnn(graphs)
        return logits


def both_directions(graph: Graph) -> Tensor:
    """The [2, 2·edge] edge index: all edges, then all edges reversed."""
    return torch.cat([graph.edges, graph.edges.flip(0)], dim=1)


def attributes_both_ways(graph: Graph) -> Tensor | None:
    attributes = graph.edge_attributes
    return None if attributes is None else torch.cat([attributes, attributes])


def undirected(mask: Tensor) -> Tensor:
    """The mean of a [2·edge] mask over both directions: [edge]."""
    return mask.detach().view(2, -1).mean(dim=0)
