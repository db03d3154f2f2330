"""Builds the module of each layer of a spec.

Every module has two forms: the sparse form is PyG's own layer, the dense form is the same function
of a soft adjacency. Rows of padding may hold any values in the dense form. They reach no real node,
because the adjacency is zero there; pools and graph norms mask them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from d4explain.gnn import spec
from d4explain.gnn.layers.attention import Gat, GatV2
from d4explain.gnn.layers.convolutions import Gcn, Gin, GinSum, GraphConvolution, Sage
from d4explain.gnn.layers.edge_convolutions import Gine
from d4explain.gnn.layers.filters import Cheb, Egnn, Tag
from d4explain.gnn.layers.forms import GraphLayer
from d4explain.gnn.layers.norms import BatchNorm, GraphNorm, layer_norm
from d4explain.gnn.layers.plugin import Plugin
from d4explain.gnn.layers.pna import Pna
from d4explain.gnn.layers.pools import pool
from d4explain.gnn.layers.row_wise import Activation, Dropout, Linear, ShiftedRelu
from d4explain.gnn.layers.skip_connections import Add, Jump, Keep

_Module: TypeAlias = GraphLayer | Keep | Add | Jump

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
    spec.PluginLayer: Plugin,
}

# These may read edge attributes.
_EDGE_MODULES: dict[type[spec.Layer], Callable[[int, Any, int], _Module]] = {
    spec.GineLayer: Gine,
    spec.GineSumLayer: Gine,
    spec.GatLayer: Gat,
    spec.GatV2Layer: GatV2,
}


def build(layer: spec.Layer, width: int, edge_features: int = 0) -> _Module:
    """The module of one layer; `width` is its input width."""
    if type(layer) in _EDGE_MODULES:
        return _EDGE_MODULES[type(layer)](width, layer, edge_features)
    return _MODULES[type(layer)](width, layer)
