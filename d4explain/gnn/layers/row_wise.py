"""Layers that map each row separately: linear maps, activations, dropout."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d4explain.gnn.layers.forms import Rowwise
from d4explain.gnn.spec import (
    ActivationKind,
    ActivationLayer,
    DropoutLayer,
    LinearLayer,
    ShiftedReluLayer,
)

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


class Linear(Rowwise):
    def __init__(self, width: int, layer: LinearLayer) -> None:
        super().__init__()
        self.linear = nn.Linear(width, layer.out, bias=layer.bias)

    def rows(self, values: Tensor) -> Tensor:
        result: Tensor = self.linear(values)
        return result


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
