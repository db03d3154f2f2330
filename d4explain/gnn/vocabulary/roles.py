"""What each layer of the vocabulary does in a GNN: its output width, its hops and its input."""

from __future__ import annotations

from collections.abc import Sequence

from d4explain.gnn.vocabulary.convolutions import (
    AppnpLayer,
    ChebLayer,
    Convolution,
    EgnnLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GineLayer,
    GineSumLayer,
    GinSumLayer,
    GraphConvLayer,
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
from d4explain.gnn.vocabulary.operations import (
    BroadcastLayer,
    ColumnsLayer,
    CombineLayer,
    ConstantLayer,
    EmbeddingLayer,
)
from d4explain.layer_graph import LayerNode, Role


def output_width(layer: Layer, widths: Sequence[int]) -> int:
    """Values per row that the layer returns, given the widths of its inputs."""
    width = widths[0] if widths else 0
    match layer:
        case GatLayer() | GatV2Layer() | PluginLayer():
            width = layer.width
        case JumpLayer(mode="cat") | CombineLayer(op="concat"):
            width = sum(widths)
        case JumpLayer(mode="max") | CombineLayer():
            width = max(widths, default=0)
        case ColumnsLayer():
            width = layer.stop - layer.start
        case GinSumLayer() | GineSumLayer() | AppnpLayer():
            pass
        case _ if isinstance(layer, Convolution | LinearLayer | ConstantLayer | EmbeddingLayer):
            width = layer.out
        case _:
            pass
    return width


def node_of(layer: Layer, inputs: tuple[int, ...] | None) -> LayerNode:
    """The layer as a node of the graph of layers; `inputs` None means the layer before."""
    return LayerNode(
        role_of(layer),
        inputs,
        reads_edges=reads_edge_attributes(layer),
        last=layer.last if isinstance(layer, JumpLayer) else None,
        takes_weights=takes_edge_weights(layer),
    )


def role_of(layer: Layer) -> Role:
    role: Role = "rows"
    match layer:
        case KeepLayer():
            role = "keep"
        case AddLayer():
            role = "add"
        case JumpLayer():
            role = "jump"
        case EgnnLayer():
            role = "first_kept"
        case CombineLayer():
            role = "join"
        case ConstantLayer():
            role = "constant"
        case BroadcastLayer():
            role = "broadcast"
        case _ if is_pool(layer):
            role = "pool"
        case _ if is_convolution(layer) or reads_whole_graph(layer):
            role = "nodes"
        case _:
            pass
    return role


def hop_count(layer: Layer) -> int:
    """Hops that the layer reads around a node; 0 if it reads no neighbours."""
    match layer:
        case TagLayer() | AppnpLayer():
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
    return isinstance(layer, GcnLayer | TagLayer | ChebLayer | EgnnLayer | AppnpLayer | PluginLayer)


def reads_whole_graph(layer: Layer) -> bool:
    """Whether the values of every node depend on all nodes of the graph."""
    if isinstance(layer, PluginLayer):
        return layer.hops is None and not layer.pools
    is_norm = isinstance(layer, GraphNormLayer) or layer == LayerNormLayer("graph")
    return is_norm or isinstance(layer, BroadcastLayer)


def reads_edge_attributes(layer: Layer) -> bool:
    if isinstance(layer, GatLayer | GatV2Layer):
        return layer.edges
    return isinstance(layer, GineLayer | GineSumLayer)


def takes_edge_weights(layer: Layer) -> bool:
    """Whether a second input of width 1 may weigh the edges of this layer."""
    if isinstance(layer, GraphConvLayer):
        return layer.aggr == "add"
    return isinstance(layer, GcnLayer | AppnpLayer)


def is_convolution(layer: Layer) -> bool:
    return isinstance(layer, Convolution | PluginLayer)


def is_pool(layer: Layer) -> bool:
    return isinstance(layer, PoolLayer) or (isinstance(layer, PluginLayer) and layer.pools)


def changes_width(layer: Layer) -> bool:
    if isinstance(layer, GinSumLayer | GineSumLayer | AppnpLayer):
        return False
    changing = LinearLayer | JumpLayer | CombineLayer | ColumnsLayer | ConstantLayer
    return is_convolution(layer) or isinstance(layer, changing | EmbeddingLayer)


def completes_convolution(layer: Layer) -> bool:
    """Whether the layer belongs to the convolution before it, as norms and activations do."""
    return isinstance(layer, AfterConvolution) or layer == CombineLayer("add")
