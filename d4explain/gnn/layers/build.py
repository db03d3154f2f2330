"""Builds the module of each layer of a spec.

Every module has two forms: the sparse form is PyG's own layer, the dense form is the same function
of a soft adjacency. Rows of padding may hold any values in the dense form. They reach no real node,
because the adjacency is zero there; pools and graph norms mask them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from d4explain.gnn import spec
from d4explain.gnn.layers.attention import Gat, GatV2
from d4explain.gnn.layers.convolutions import Gcn, Gin, GinSum, GraphConvolution, Sage
from d4explain.gnn.layers.edge_convolutions import Gine
from d4explain.gnn.layers.filters import Appnp, Cheb, Egnn, Tag
from d4explain.gnn.layers.forms import GraphLayer, WeightedConvolution
from d4explain.gnn.layers.joins import Add, Combine, Constant, Join, Jump, Keep
from d4explain.gnn.layers.norms import BatchNorm, GraphNorm, layer_norm
from d4explain.gnn.layers.plugin import Plugin
from d4explain.gnn.layers.pna import Pna
from d4explain.gnn.layers.pools import Broadcast, pool
from d4explain.gnn.layers.row_wise import (
    Activation,
    Affine,
    Columns,
    Dropout,
    Embedding,
    Linear,
    Normalize,
    ShiftedRelu,
)

_Module: TypeAlias = GraphLayer | Join

_MODULES: dict[type[spec.Layer], Callable[[int, Any], _Module]] = {
    spec.GcnLayer: Gcn,
    spec.GinLayer: Gin,
    spec.GinSumLayer: GinSum,
    spec.SageLayer: Sage,
    spec.GraphConvLayer: GraphConvolution,
    spec.PnaLayer: Pna,
    spec.TagLayer: Tag,
    spec.ChebLayer: Cheb,
    spec.EgnnLayer: Egnn,
    spec.AppnpLayer: Appnp,
    spec.LinearLayer: Linear,
    spec.ActivationLayer: Activation,
    spec.ShiftedReluLayer: ShiftedRelu,
    spec.DropoutLayer: Dropout,
    spec.BatchNormLayer: BatchNorm,
    spec.LayerNormLayer: layer_norm,
    spec.GraphNormLayer: GraphNorm,
    spec.PoolLayer: pool,
    spec.KeepLayer: Keep,
    spec.AddLayer: Add,
    spec.JumpLayer: Jump,
    spec.CombineLayer: Combine,
    spec.AffineLayer: Affine,
    spec.ConstantLayer: Constant,
    spec.ColumnsLayer: Columns,
    spec.EmbeddingLayer: Embedding,
    spec.NormalizeLayer: Normalize,
    spec.BroadcastLayer: Broadcast,
    spec.PluginLayer: Plugin,
}

# These may read edge attributes.
_EDGE_MODULES: dict[type[spec.Layer], Callable[[int, Any, int], _Module]] = {
    spec.GineLayer: Gine,
    spec.GineSumLayer: Gine,
    spec.GatLayer: Gat,
    spec.GatV2Layer: GatV2,
}


def build(layer: spec.Layer, width: int, edge_width: int = 0) -> _Module:
    """The module of one layer; `width` and `edge_width` are those of its first two inputs."""
    if type(layer) in _EDGE_MODULES:
        return _EDGE_MODULES[type(layer)](width, layer, edge_width)
    return _MODULES[type(layer)](width, layer)


def build_all(whole: spec.GnnSpec) -> Iterator[_Module]:
    """The modules of all layers, in order."""
    for position, layer in enumerate(whole.layers):
        widths = whole.input_widths(position)
        module = build(layer, *widths[:2]) if widths else build(layer, 0)
        if isinstance(module, WeightedConvolution):
            module.weighted = len(widths) > 1
        yield module
