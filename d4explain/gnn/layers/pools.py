"""Pools nodes into graphs and gives graph rows back to nodes; padding is no node."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import (
    AttentionalAggregation,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)

from d4explain.gnn.graphs import DenseGraphs, SparseGraphs
from d4explain.gnn.layers.forms import GraphLayer
from d4explain.gnn.spec import BroadcastLayer, PoolLayer, PoolOp

_SPARSE_POOLS = {"mean": global_mean_pool, "sum": global_add_pool, "max": global_max_pool}


class PlainPool(GraphLayer):
    def __init__(self, op: PoolOp) -> None:
        super().__init__()
        self.op: PoolOp = op

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        pooled: Tensor = _SPARSE_POOLS[self.op](values, graphs.graph_of_node, size=graphs.count)
        return pooled

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """Pools real nodes only; a graph without nodes gives zeros, as in PyG."""
        padding = ~graphs.mask[:, :, None]  # [batch, node, 1]
        if self.op == "max":
            empty = padding.all(dim=1)  # [batch, 1]
            return values.masked_fill(padding, -torch.inf).amax(dim=1).masked_fill(empty, 0)
        total = values.masked_fill(padding, 0).sum(dim=1)
        if self.op == "sum":
            return total
        return total / graphs.mask.sum(dim=1, keepdim=True).clamp(min=1)


class AttentionPool(GraphLayer):
    """PyG's AttentionalAggregation with a linear gate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.pool = AttentionalAggregation(nn.Linear(width, 1))

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        pooled: Tensor = self.pool(values, graphs.graph_of_node, dim_size=graphs.count)
        return pooled

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """Σ softmax(gate(x)) · x over real nodes only; a graph without nodes gives zeros."""
        padding = ~graphs.mask[:, :, None]  # [batch, node, 1]
        # The softmax of all -inf is NaN. If all rows are padding, their shares are set to 0 below.
        excluded = padding & ~padding.all(dim=1, keepdim=True)
        shares = self.pool.gate_nn(values).masked_fill(excluded, -torch.inf).softmax(dim=1)
        pooled: Tensor = (shares.masked_fill(padding, 0) * values).sum(dim=1)
        return pooled


def pool(width: int, layer: PoolLayer) -> PlainPool | AttentionPool:
    return AttentionPool(width) if layer.op == "attention" else PlainPool(layer.op)


class Broadcast(GraphLayer):
    """Gives each node the row of its graph."""

    def __init__(self, _width: int, _layer: BroadcastLayer) -> None:
        super().__init__()

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        return values[graphs.graph_of_node]

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        return values[:, None].expand(-1, graphs.mask.shape[1], -1)
