"""All layers in both forms: PyG's own on sparse graphs, and the same function of a soft adjacency.

The dense forms are written so that rows of padding may hold anything: the adjacency is zero there,
hence they reach no real node; pooling and norms over graphs are the places that mask them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d4explain.gnn.layers.attention import Gat, GatV2
from d4explain.gnn.layers.convolutions import Gcn, Gin, GinSum, GraphConvolution, Sage
from d4explain.gnn.layers.edge_convolutions import Gine
from d4explain.gnn.layers.filters import Cheb, Egnn, Tag
from d4explain.gnn.layers.forms import GraphLayer, Rowwise
from d4explain.gnn.layers.norms import BatchNorm, GraphNorm, layer_norm
from d4explain.gnn.layers.plugin import Plugin
from d4explain.gnn.layers.pna import Pna
from d4explain.gnn.layers.pools import pool
from d4explain.gnn.spec import (
    ActivationKind,
    ActivationLayer,
    AddLayer,
    BatchNormLayer,
    ChebLayer,
    DropoutLayer,
    EgnnLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GineLayer,
    GineSumLayer,
    GinLayer,
    GinSumLayer,
    GraphConvLayer,
    GraphNormLayer,
    JumpLayer,
    KeepLayer,
    Layer,
    LayerNormLayer,
    LinearLayer,
    PluginLayer,
    PnaLayer,
    PoolLayer,
    SageLayer,
    ShiftedReluLayer,
    TagLayer,
)


class Linear(Rowwise):
    def __init__(self, width: int, layer: LinearLayer) -> None:
        super().__init__()
        self.linear = nn.Linear(width, layer.out, bias=layer.bias)

    def rows(self, values: Tensor) -> Tensor:
        result: Tensor = self.linear(values)
        return result


_ACTIVATIONS: dict[ActivationKind, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "selu": F.selu,
    "gelu": F.gelu,
    "silu": F.silu,
    "softplus": F.softplus,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


class Activation(Rowwise):
    def __init__(self, _width: int, layer: ActivationLayer) -> None:
        super().__init__()
        self._layer = layer

    def rows(self, values: Tensor) -> Tensor:
        if self._layer.slope is not None:
            return F.leaky_relu(values, self._layer.slope)
        return _ACTIVATIONS[self._layer.kind](values)


class ShiftedRelu(Rowwise):
    def __init__(self, width: int, _layer: ShiftedReluLayer) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(width))

    def rows(self, values: Tensor) -> Tensor:
        return torch.maximum(values, self.shift)


class Dropout(Rowwise):
    def __init__(self, _width: int, layer: DropoutLayer) -> None:
        super().__init__()
        self.p = layer.p

    def rows(self, values: Tensor) -> Tensor:
        return F.dropout(values, self.p, self.training)


class Keep(nn.Module):
    """Marks where the network remembers its node values; has no weights."""

    def __init__(self, _width: int, _layer: KeepLayer) -> None:
        super().__init__()


class Add(nn.Module):
    """Adds what the network has kept last; has no weights."""

    def __init__(self, _width: int, _layer: AddLayer) -> None:
        super().__init__()


class Jump(nn.Module):
    """PyG's JumpingKnowledge of what the network has kept; the same in both forms."""

    def __init__(self, _width: int, layer: JumpLayer) -> None:
        super().__init__()
        self._layer = layer

    def joined(self, kept: Sequence[Tensor]) -> Tensor:
        """[…, width] of every keep, in order → […, width of all] or, for the maximum, […, width]"""
        values = self._layer.joined(kept)
        if self._layer.mode == "cat":
            return torch.cat(values, dim=-1)
        return torch.stack(values).amax(dim=0)


_Module: TypeAlias = GraphLayer | Keep | Add | Jump

_MODULES: dict[type[Layer], Callable[[int, Any], _Module]] = {
    GcnLayer: Gcn,
    GinLayer: Gin,
    GinSumLayer: GinSum,
    SageLayer: Sage,
    GraphConvLayer: GraphConvolution,
    PnaLayer: Pna,
    TagLayer: Tag,
    ChebLayer: Cheb,
    EgnnLayer: Egnn,
    LinearLayer: Linear,
    ActivationLayer: Activation,
    ShiftedReluLayer: ShiftedRelu,
    DropoutLayer: Dropout,
    BatchNormLayer: BatchNorm,
    LayerNormLayer: layer_norm,
    GraphNormLayer: GraphNorm,
    PoolLayer: pool,
    KeepLayer: Keep,
    AddLayer: Add,
    JumpLayer: Jump,
    PluginLayer: Plugin,
}

# These may read edge attributes.
_EDGE_MODULES: dict[type[Layer], Callable[[int, Any, int], _Module]] = {
    GineLayer: Gine,
    GineSumLayer: Gine,
    GatLayer: Gat,
    GatV2Layer: GatV2,
}


def build(layer: Layer, width: int, edge_features: int = 0) -> _Module:
    """The module of one layer that gets `width` numbers per row."""
    if type(layer) in _EDGE_MODULES:
        return _EDGE_MODULES[type(layer)](width, layer, edge_features)
    return _MODULES[type(layer)](width, layer)
