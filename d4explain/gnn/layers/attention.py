"""Attention convolutions: PyG's own on sparse graphs, and the same function of soft edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GATv2Conv

from d4explain.gnn.graphs import DenseGraphs, SparseGraphs, is_shared
from d4explain.gnn.layers.forms import GraphLayer, required
from d4explain.gnn.layers.tiles import tiled
from d4explain.gnn.spec import GatLayer, GatV2Layer

# An absent edge has a slope in proportion to exp(its logit above the others'), which must stay
# finite; a present one is beyond this only if its weight is below e^-60.
_LARGEST_EXPONENT = 60.0


class _Attention(GraphLayer):
    """PyG's convolution and its sparse form; the dense form differs."""

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
        attributes = required(graphs.edge_attributes) if reads_edges else None
        result: Tensor = self.conv(values, graphs.edge_index, attributes)
        return result


class Gat(_Attention):
    convolution = GATConv

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """Node i attends to j with the logit leaky(a_src · W x_j + a_dst · W x_i + a_e · W_e e_ij).

        The last only where edge attributes are read.
        """
        conv = self.conv
        sources = conv.lin(values).unflatten(2, (conv.heads, conv.out_channels))
        to_source = (sources * conv.att_src).sum(dim=3).mT  # [batch, head, node]
        to_target = (sources * conv.att_dst).sum(dim=3).mT
        sources = sources.transpose(1, 2)  # [batch, head, node, out]
        weights = _with_loops(graphs.adjacency)
        edges = None if conv.lin_edge is None else _EdgeParts.of(graphs, self._of_edges)

        def tile(some: slice, rows: slice) -> Tensor:
            logits = to_source[some, :, None, :] + to_target[some, :, rows, None]
            if edges is not None:
                logits = logits + edges.at(some, rows).squeeze(4)
            logits = F.leaky_relu(logits, conv.negative_slope)
            return _attended(logits, weights[some, rows], sources[some])

        batch, nodes = graphs.mask.shape
        return _joined(conv, tiled(tile, batch, nodes, conv.heads))

    def _of_edges(self, attributes: Tensor) -> Tensor:
        conv = self.conv
        parts = conv.lin_edge(attributes).unflatten(-1, (conv.heads, conv.out_channels))
        result: Tensor = (parts * conv.att_edge[0]).sum(dim=-1, keepdim=True)
        return result


class GatV2(_Attention):
    convolution = GATv2Conv

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """Node i attends to j with the logit a · leaky(W_l x_j + W_r x_i + W_e e_ij).

        The last only where edge attributes are read.
        """
        conv = self.conv
        shape = (conv.heads, conv.out_channels)
        sources = conv.lin_l(values).unflatten(2, shape).transpose(1, 2)
        targets = conv.lin_r(values).unflatten(2, shape).transpose(1, 2)
        attention = conv.att[0, :, :, None]  # [head, out, 1]
        weights = _with_loops(graphs.adjacency)
        edges = None if conv.lin_edge is None else _EdgeParts.of(graphs, self._of_edges)

        def tile(some: slice, rows: slice) -> Tensor:
            pairs = sources[some, :, None] + targets[some, :, rows, None]
            if edges is not None:
                pairs = pairs + edges.at(some, rows)
            pairs = F.leaky_relu(pairs, conv.negative_slope)  # [graph, head, row, node, out]
            logits = (pairs @ attention[:, None]).squeeze(4)
            return _attended(logits, weights[some, rows], sources[some])

        batch, nodes = graphs.mask.shape
        return _joined(conv, tiled(tile, batch, nodes, conv.heads * conv.out_channels))

    def _of_edges(self, attributes: Tensor) -> Tensor:
        conv = self.conv
        result: Tensor = conv.lin_edge(attributes).unflatten(-1, (conv.heads, conv.out_channels))
        return result


@dataclass(frozen=True)
class _EdgeParts:
    """What edge attributes add to each pair; a loop has the mean of its node's edges, as in PyG."""

    attributes: Tensor  # [batch or 1, node, node, attribute]
    loops: Tensor  # [batch, node, attribute]
    part: Callable[[Tensor], Tensor]  # […, attribute] → […, head, width]

    @classmethod
    def of(cls, graphs: DenseGraphs, part: Callable[[Tensor], Tensor]) -> _EdgeParts:
        attributes = required(graphs.edge_attributes)
        total = torch.einsum("bij,bijd->bid", graphs.adjacency, attributes)
        # fades to the 0 of a lone node where the weights add up to less than one edge
        loops = total / graphs.adjacency.sum(dim=2, keepdim=True).clamp(min=1)
        return cls(attributes[:1] if is_shared(attributes) else attributes, loops, part)

    def at(self, some: slice, rows: slice) -> Tensor:
        """[graph, head, row, node, width]; of shared attributes, only loops differ by graph."""
        shared = len(self.attributes) == 1
        pairs = self.part(self.attributes[slice(0, 1) if shared else some, rows])
        loops = self.part(self.loops[some, rows])[:, :, None]  # [graph, row, 1, head, width]
        nodes = self.attributes.shape[2]
        own = torch.eye(nodes, dtype=torch.bool, device=loops.device)[rows, :, None, None]
        return torch.where(own, loops, pairs).permute(0, 3, 1, 2, 4)


def _with_loops(adjacency: Tensor) -> Tensor:
    """Every node attends to itself too: A + I."""
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
