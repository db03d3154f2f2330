"""Layers that map each row separately: linear maps, activations, columns, embeddings."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d4explain.gnn.errors import NotAnEmbeddedNumberError
from d4explain.gnn.layers.forms import Rowwise
from d4explain.gnn.spec import (
    ActivationKind,
    ActivationLayer,
    AffineLayer,
    ColumnsLayer,
    DropoutLayer,
    EmbeddingLayer,
    LinearLayer,
    NormalizeLayer,
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


class Affine(Rowwise):
    def __init__(self, _width: int, layer: AffineLayer) -> None:
        super().__init__()
        self.scale, self.shift = layer.scale, layer.shift

    def rows(self, values: Tensor) -> Tensor:
        return values * self.scale + self.shift


class Columns(Rowwise):
    def __init__(self, _width: int, layer: ColumnsLayer) -> None:
        super().__init__()
        self._columns = slice(layer.start, layer.stop)

    def rows(self, values: Tensor) -> Tensor:
        return values[..., self._columns]


class Normalize(Rowwise):
    def __init__(self, _width: int, _layer: NormalizeLayer) -> None:
        super().__init__()

    def rows(self, values: Tensor) -> Tensor:
        return F.normalize(values, dim=-1)


class Embedding(Rowwise):
    def __init__(self, _width: int, layer: EmbeddingLayer) -> None:
        super().__init__()
        self.embedding = nn.Embedding(layer.count, layer.out)
        self._column = layer.column

    def rows(self, values: Tensor) -> Tensor:
        column = values[..., self._column]
        number = column.long()
        known = (number == column) & (number >= 0) & (number < self.embedding.num_embeddings)
        if not bool(known.all()):
            raise NotAnEmbeddedNumberError(
                self._column, float(column[~known][0]), self.embedding.num_embeddings
            )
        result: Tensor = self.embedding(number)
        return result
