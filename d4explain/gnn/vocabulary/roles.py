"""What each layer of the vocabulary does in a GNN: its output width, its hops and its input."""

from __future__ import annotations

from collections.abc import Sequence

from d4explain.gnn.vocabulary.convolutions import (
    ChebLayer,
    Convolution,
    EgnnLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GineLayer,
    GineSumLayer,
    GinSumLayer,
    TagLayer,
)
from d4explain.gnn.vocabulary.layers import (
    AddLayer,
    AfterConvolution,
    GraphNormLayer,
    JumpLayer,
    KeepLayer,
    Layer,
    LayerNormLayer,
    LinearLayer,
    PluginLayer,
    PoolLayer,
)


def output_width(layer: Layer, width: int, kept: Sequence[int]) -> int:
    """Values per row that the layer returns, given its input width and the kept widths."""
    match layer:
        case GatLayer() | GatV2Layer() | PluginLayer():
            width = layer.width
        case JumpLayer(mode="cat"):
            width = sum(layer.joined(kept))
        case JumpLayer(mode="max"):
            width = max(layer.joined(kept), default=0)
        case GinSumLayer() | GineSumLayer():
            pass
        case _ if isinstance(layer, Convolution | LinearLayer):
            width = layer.out
        case _:
            pass
    return width


def hop_count(layer: Layer) -> int:
    """Hops that the layer reads around a node; 0 if it reads no neighbours."""
    match layer:
        case TagLayer():
            return layer.k
        case ChebLayer():
            return layer.k - 1
        case PluginLayer():
            return layer.hops or 0
        case _:
            return int(isinstance(layer, Convolution))


def reads_far_degrees(layer: Layer) -> bool:
    """Whether the layer reads the degrees of the farthest nodes that it sees.

    A normalised convolution (GCN) does. Others divide by the degree of the aggregating node only.
    Nothing is known about plug-ins.
    """
    return isinstance(layer, GcnLayer | TagLayer | ChebLayer | EgnnLayer | PluginLayer)


def reads_whole_graph(layer: Layer) -> bool:
    """Whether the values of every node depend on all nodes of the graph."""
    if isinstance(layer, PluginLayer):
        return layer.hops is None and not layer.pools
    return isinstance(layer, GraphNormLayer) or layer == LayerNormLayer("graph")


def reads_edge_attributes(layer: Layer) -> bool:
    if isinstance(layer, GatLayer | GatV2Layer):
        return layer.edges
    return isinstance(layer, GineLayer | GineSumLayer)


def is_convolution(layer: Layer) -> bool:
    return isinstance(layer, Convolution | PluginLayer)


def is_pool(layer: Layer) -> bool:
    return isinstance(layer, PoolLayer) or (isinstance(layer, PluginLayer) and layer.pools)


def needs_nodes(layer: Layer) -> bool:
    """Whether the layer must come before the pool."""
    uses_nodes = is_convolution(layer) or isinstance(layer, KeepLayer | AddLayer | JumpLayer)
    return uses_nodes or reads_whole_graph(layer)


def changes_width(layer: Layer) -> bool:
    if isinstance(layer, GinSumLayer | GineSumLayer):
        return False
    return is_convolution(layer) or isinstance(layer, LinearLayer | JumpLayer)


def completes_convolution(layer: Layer) -> bool:
    """Whether the layer belongs to the convolution before it, as norms and activations do."""
    return isinstance(layer, AfterConvolution)
