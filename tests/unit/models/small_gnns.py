"""Small graphs with node types, and GNNs with random or hand-made weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv

from d4explain.gnn.graphs import Graph, to_sparse
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import (
    ActivationLayer,
    GcnLayer,
    GinLayer,
    GnnSpec,
    GraphConvLayer,
    Layer,
    LinearLayer,
    PluginLayer,
    PoolLayer,
)

TYPES = 3


def graph_of(
    nodes: int,
    edges: Iterable[tuple[int, int]],
    types: Sequence[int] | None = None,
    *,
    target: int | None = None,
) -> Graph:
    """Node types become one-hot features; without types all nodes have the feature 1."""
    ends = torch.tensor(sorted(edges), dtype=torch.int64).reshape(-1, 2).T.contiguous()
    features = torch.ones(nodes, 1) if types is None else torch.eye(TYPES)[torch.tensor(types)]
    return Graph(features, ends, target)


def random_graph(
    seed: int, nodes: int, density: float = 0.5, *, target: int | None = None
) -> Graph:
    rng = torch.Generator().manual_seed(seed)
    pairs = list(combinations(range(nodes), 2))
    drawn = torch.rand(len(pairs), generator=rng) < density
    types = torch.randint(TYPES, (nodes,), generator=rng).tolist()
    edges = [pair for pair, is_edge in zip(pairs, drawn.tolist(), strict=True) if is_edge]
    return graph_of(nodes, edges, types, target=target)


def random_gnn(
    seed: int, like: Graph, classes: int = 2, *, one_logit: bool = False, bias: float = 0.0
) -> Gnn:
    """Random weights, with logits spread over random graphs so that every class occurs.

    It classifies nodes if the graph has a marked node.
    """
    kind = GinLayer(6, 6) if seed % 2 else GcnLayer(6)
    width = 1 if one_logit else classes
    pool: tuple[Layer, ...] = () if like.target is not None else (PoolLayer("sum"),)
    layers = (kind, ActivationLayer("tanh"), kind, *pool, LinearLayer(width))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        gnn = Gnn(GnnSpec(like.features.shape[1], classes, layers)).eval()
    others = [random_graph(1000 + draw, like.node_count) for draw in range(64)]
    graphs = [Graph(like.features.float(), graph.edges, like.target) for graph in others]
    last = gnn.layers[-1].linear
    with torch.no_grad():
        values = gnn(to_sparse(graphs))[:, -width:]
        scale = values.std(dim=0).clamp(min=1e-3)
        last.weight.copy_(last.weight / scale[:, None])
        last.bias.copy_((last.bias - values.mean(dim=0)) / scale)
        last.bias[-1] += bias
    return gnn


def edge_counter(threshold: float) -> Gnn:
    """Graphs with more edges than the threshold have class 1, by a margin of 2 per edge."""
    gnn = Gnn(GnnSpec(1, 2, (GraphConvLayer(1), PoolLayer("sum"), LinearLayer(2)))).eval()
    convolution, _, head = gnn.layers
    with torch.no_grad():
        convolution.conv.lin_rel.weight.fill_(1)
        convolution.conv.lin_rel.bias.zero_()
        convolution.conv.lin_root.weight.zero_()
        head.linear.weight.copy_(torch.tensor([[0.0], [1.0]]))
        head.linear.bias.copy_(torch.tensor([0.0, -2 * threshold]))
    return gnn


def mixed_edge_counter(threshold: float) -> Gnn:
    """Class 1 if 0.9 · (edges between types 0 and 1) + 0.1 · (edges) is above the threshold.

    Type 2 must not occur, and degrees must stay below 20.
    """
    layers = (GraphConvLayer(2), ActivationLayer("relu"), PoolLayer("sum"), LinearLayer(2))
    gnn = Gnn(GnnSpec(TYPES, 2, layers)).eval()
    convolution, head = gnn.layers[0], gnn.layers[-1]
    with torch.no_grad():
        # Per node: its neighbours of type 1 if it has type 0 itself, and all its neighbours.
        convolution.conv.lin_rel.weight.copy_(torch.tensor([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]))
        convolution.conv.lin_rel.bias.copy_(torch.tensor([-20.0, 0.0]))
        convolution.conv.lin_root.weight.copy_(torch.tensor([[20.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
        head.linear.weight.copy_(torch.tensor([[0.0, 0.0], [0.9, 0.05]]))
        head.linear.bias.copy_(torch.tensor([0.0, -threshold]))
    return gnn


class SparseGin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = GINConv(nn.Linear(TYPES, 4))

    def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.conv(values, edge_index)


def plugin_gnn() -> Gnn:
    """A GNN without a dense form."""
    layers = (PluginLayer("sparse_gin", 4, SparseGin, hops=1), PoolLayer("sum"), LinearLayer(2))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Gnn(GnnSpec(TYPES, 2, layers)).eval()
