"""Convolutions by attention: PyG's own on sparse graphs, and the same of a soft adjacency."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GATConv, GATv2Conv

from models.gnn.forms import GraphLayer
from models.gnn.spec import GatLayer, GatV2Layer
from models.gnn.tiles import tiled
from models.graphs import DenseGraphs, SparseGraphs

# An absent edge has a slope in proportion to exp(its logit above the others'), which must stay
# finite; a present one is beyond this only if its weight is below e^-60.
_LARGEST_EXPONENT = 60.0


class Gat(GraphLayer):
    def __init__(self, width: int, layer: GatLayer) -> None:
        super().__init__()
        self.conv = GATConv(
            width,
            layer.out,
            heads=layer.heads,
            concat=layer.concat,
            negative_slope=layer.negative_slope,
        )

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.conv(values, graphs.edge_index)
        return result

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """Node i looks at j with the logit leaky(a_src · W x_j + a_dst · W x_i)."""
        conv = self.conv
        sources = conv.lin(values).unflatten(2, (conv.heads, conv.out_channels))
        to_source = (sources * conv.att_src).sum(dim=3).mT  # [batch, head, node]
        to_target = (sources * conv.att_dst).sum(dim=3).mT
        sources = sources.transpose(1, 2)  # [batch, head, node, out]
        weights = _with_loops(graphs.adjacency)

        def tile(some: slice, rows: slice) -> Tensor:
            logits = to_source[some, :, None, :] + to_target[some, :, rows, None]
            logits = F.leaky_relu(logits, conv.negative_slope)
            return _attended(logits, weights[some, rows], sources[some])

        batch, nodes = graphs.mask.shape
        return _joined(conv, tiled(tile, batch, nodes, conv.heads))


class GatV2(GraphLayer):
    def __init__(self, width: int, layer: GatV2Layer) -> None:
        super().__init__()
        self.conv = GATv2Conv(
            width,
            layer.out,
            heads=layer.heads,
            concat=layer.concat,
            negative_slope=layer.negative_slope,
        )

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.conv(values, graphs.edge_index)
        return result

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """Node i looks at j with the logit a · leaky(W_l x_j + W_r x_i)."""
        conv = self.conv
        shape = (conv.heads, conv.out_channels)
        sources = conv.lin_l(values).unflatten(2, shape).transpose(1, 2)
        targets = conv.lin_r(values).unflatten(2, shape).transpose(1, 2)
        look = conv.att[0, :, :, None]  # [head, out, 1]
        weights = _with_loops(graphs.adjacency)

        def tile(some: slice, rows: slice) -> Tensor:
            pairs = sources[some, :, None] + targets[some, :, rows, None]
            pairs = F.leaky_relu(pairs, conv.negative_slope)  # [graph, head, row, node, out]
            logits = (pairs @ look[:, None]).squeeze(4)
            return _attended(logits, weights[some, rows], sources[some])

        batch, nodes = graphs.mask.shape
        return _joined(conv, tiled(tile, batch, nodes, conv.heads * conv.out_channels))


def _with_loops(adjacency: Tensor) -> Tensor:
    """Every node looks at itself too: A + I."""
    nodes = adjacency.shape[2]
    return adjacency + torch.eye(nodes, dtype=adjacency.dtype, device=adjacency.device)


def _attended(logits: Tensor, weights: Tensor, sources: Tensor) -> Tensor:
    """Σ_j w_j e^l_j x_j / Σ_j w_j e^l_j: [graph, row, head, out]; logits [graph, head, row, node].

    The softmax of l + log w, without the logarithm: linear in w above and below the line, so its
    slope is finite where w is 0. Taking the largest l + log w off the logits cancels out; it keeps
    the sum at 1 or more, and is not followed by gradients.
    """
    weights = weights[:, None]  # [graph, 1, row, node]
    with torch.no_grad():
        largest = (logits + weights.clamp(min=0).log()).amax(dim=3, keepdim=True)
    shares = weights * (logits - largest).clamp(max=_LARGEST_EXPONENT).exp()
    return (shares @ sources / shares.sum(dim=3, keepdim=True)).transpose(1, 2)


def _joined(conv: GATConv | GATv2Conv, heads: Tensor) -> Tensor:
    """The heads side by side or their mean, and the bias: [batch, node, width]."""
    joined = heads.flatten(start_dim=2) if conv.concat else heads.mean(dim=2)
    result: Tensor = joined + conv.bias
    return result
