"""Attention convolutions: GAT and GATv2, with or without edge attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GATv2Conv

from d4explain.gnn.graphs import DenseGraphs, SparseGraphs, is_shared
from d4explain.gnn.layers.forms import GraphLayer, require_edge_attributes
from d4explain.gnn.layers.tiles import tiled
from d4explain.gnn.spec import GatLayer, GatV2Layer

# The gradient of an absent edge grows with exp(its logit - the largest logit), which must stay
# finite. A present edge exceeds this bound only if its weight is below e^-60.
_LARGEST_EXPONENT = 60.0


class _Attention(GraphLayer):
    """A PyG convolution and its sparse form; the subclasses add the dense form."""

    convolution: ClassVar[type[nn.Module]]

    def __init__(self, width: int, layer: GatLayer | GatV2Layer, edge_features: int) -> None:
        super().__init__()
        self.conv: Any = self.convolution(
            width,
            layer.out,
            heads=layer.heads,
            concat=layer.concat,
            negative_slope=layer.negative_slope,
            edge_dim=edge_features if layer.edges else None,
        )

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        reads_edges = self.conv.lin_edge is not None
        attributes = require_edge_attributes(graphs.edge_attributes) if reads_edges else None
        result: Tensor = self.conv(values, graphs.edge_index, attributes)
        return result


class Gat(_Attention):
    convolution = GATConv

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """Node i attends to j with the logit leaky(a_src · W x_j + a_dst · W x_i + a_e · W_e e_ij).

        Without edge attributes, the last term is missing.
        """
        conv = self.conv
        sources = conv.lin(values).unflatten(2, (conv.heads, conv.out_channels))
        source_part = (sources * conv.att_src).sum(dim=3).mT  # [batch, head, node]
        target_part = (sources * conv.att_dst).sum(dim=3).mT
        sources = sources.transpose(1, 2)  # [batch, head, node, out]
        weights = _with_self_loops(graphs.adjacency)
        edges = None if conv.lin_edge is None else _EdgeTerms.of(graphs, self._edge_term)

        def tile(some: slice, rows: slice) -> Tensor:
            logits = source_part[some, :, None, :] + target_part[some, :, rows, None]
            if edges is not None:
                logits = logits + edges.at(some, rows).squeeze(4)
            logits = F.leaky_relu(logits, conv.negative_slope)
            return _attend(logits, weights[some, rows], sources[some])

        batch, nodes = graphs.mask.shape
        return _combine_heads(conv, tiled(tile, batch, nodes, conv.heads))

    def _edge_term(self, attributes: Tensor) -> Tensor:
        conv = self.conv
        parts = conv.lin_edge(attributes).unflatten(-1, (conv.heads, conv.out_channels))
        result: Tensor = (parts * conv.att_edge[0]).sum(dim=-1, keepdim=True)
        return result


class GatV2(_Attention):
    convolution = GATv2Conv

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """Node i attends to j with the logit a · leaky(W_l x_j + W_r x_i + W_e e_ij).

        Without edge attributes, the last term is missing.
        """
        conv = self.conv
        shape = (conv.heads, conv.out_channels)
        sources = conv.lin_l(values).unflatten(2, shape).transpose(1, 2)
        targets = conv.lin_r(values).unflatten(2, shape).transpose(1, 2)
        attention = conv.att[0, :, :, None]  # [head, out, 1]
        weights = _with_self_loops(graphs.adjacency)
        edges = None if conv.lin_edge is None else _EdgeTerms.of(graphs, self._edge_term)

        def tile(some: slice, rows: slice) -> Tensor:
            pairs = sources[some, :, None] + targets[some, :, rows, None]
            if edges is not None:
                pairs = pairs + edges.at(some, rows)
            pairs = F.leaky_relu(pairs, conv.negative_slope)  # [graph, head, row, node, out]
            logits = (pairs @ attention[:, None]).squeeze(4)
            return _attend(logits, weights[some, rows], sources[some])

        batch, nodes = graphs.mask.shape
        return _combine_heads(conv, tiled(tile, batch, nodes, conv.heads * conv.out_channels))

    def _edge_term(self, attributes: Tensor) -> Tensor:
        conv = self.conv
        result: Tensor = conv.lin_edge(attributes).unflatten(-1, (conv.heads, conv.out_channels))
        return result


@dataclass(frozen=True)
class _EdgeTerms:
    """Terms of the edge attributes; a self-loop gets the mean of its node's edges, as in PyG."""

    attributes: Tensor  # [batch or 1, node, node, attribute]
    loops: Tensor  # [batch, node, attribute]
    term: Callable[[Tensor], Tensor]  # […, attribute] → […, head, width]

    @classmethod
    def of(cls, graphs: DenseGraphs, term: Callable[[Tensor], Tensor]) -> _EdgeTerms:
        attributes = require_edge_attributes(graphs.edge_attributes)
        total = torch.einsum("bij,bijd->bid", graphs.adjacency, attributes)
        # The minimum of 1 makes the mean continuous at an isolated node, where it is 0.
        loops = total / graphs.adjacency.sum(dim=2, keepdim=True).clamp(min=1)
        return cls(attributes[:1] if is_shared(attributes) else attributes, loops, term)

    def at(self, some: slice, rows: slice) -> Tensor:
        """[graph, head, row, node, width]; shared attributes are computed once."""
        shared = len(self.attributes) == 1
        pairs = self.term(self.attributes[slice(0, 1) if shared else some, rows])
        loops = self.term(self.loops[some, rows])[:, :, None]  # [graph, row, 1, head, width]
        nodes = self.attributes.shape[2]
        is_loop = torch.eye(nodes, dtype=torch.bool, device=loops.device)[rows, :, None, None]
        return torch.where(is_loop, loops, pairs).permute(0, 3, 1, 2, 4)


def _with_self_loops(adjacency: Tensor) -> Tensor:
    """A + I: every node also attends to itself."""
    nodes = adjacency.shape[2]
    return adjacency + torch.eye(nodes, dtype=adjacency.dtype, device=adjacency.device)


def _attend(logits: Tensor, weights: Tensor, sources: Tensor) -> Tensor:
    """Σ_j w_j e^l_j x_j / Σ_j w_j e^l_j: [graph, row, head, out]; logits [graph, head, row, node].

    This is the softmax of l + log w without the logarithm: numerator and denominator are linear in
    w, so the gradient is finite at w = 0. Subtracting the largest l + log w from the logits changes
    nothing but keeps the denominator at 1 or more; it needs no gradient.
    """
    weights = weights[:, None]  # [graph, 1, row, node]
    with torch.no_grad():
        largest = (logits + weights.clamp(min=0).log()).amax(dim=3, keepdim=True)
    shares = weights * (logits - largest).clamp(max=_LARGEST_EXPONENT).exp()
    return (shares @ sources / shares.sum(dim=3, keepdim=True)).transpose(1, 2)


def _combine_heads(conv: GATConv | GATv2Conv, heads: Tensor) -> Tensor:
    """Concatenates the heads or takes their mean, and adds the bias: [batch, node, width]."""
    joined = heads.flatten(start_dim=2) if conv.concat else heads.mean(dim=2)
    result: Tensor = joined + conv.bias
    return result
