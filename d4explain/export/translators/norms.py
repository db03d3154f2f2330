"""Translates the norms of PyTorch and PyG to the vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import BatchNorm, GraphNorm, LayerNorm

from d4explain.export.translators.translation import (
    Translation,
    UnsupportedLayerError,
    prefixed_tensors,
    require,
)
from d4explain.gnn.spec import BatchNormLayer, GraphNormLayer, LayerNormLayer

_EPSILON = 1e-5  # of all norms of the vocabulary; PyTorch's default


def _batch_norm(layer: nn.BatchNorm1d | BatchNorm) -> Translation:
    norm = layer.module if isinstance(layer, BatchNorm) else layer
    require(norm, track_running_stats=True)
    tensors = _affine_tensors(norm, norm.num_features)
    if norm.eps != _EPSILON:
        # The norm divides by sqrt(variance + eps): add the difference of eps to the variance.
        variance = tensors["norm.running_var"].double() + (norm.eps - _EPSILON)
        tensors["norm.running_var"] = variance.to(tensors["norm.running_var"].dtype)
        if bool((variance < 0).any()):
            raise UnsupportedLayerError(f"eps={norm.eps}; it must be {_EPSILON} or more")
    return Translation(BatchNormLayer(), input_width=norm.num_features, tensors=tensors)


def _layer_norm(layer: LayerNorm) -> Translation:
    require(layer, eps=_EPSILON)
    return Translation(
        LayerNormLayer(layer.mode),
        input_width=layer.in_channels,
        tensors=_affine_tensors(layer, layer.in_channels),
    )


def _torch_layer_norm(layer: nn.LayerNorm) -> Translation:
    require(layer, eps=_EPSILON)
    if len(layer.normalized_shape) != 1:
        raise UnsupportedLayerError(
            f"normalized_shape={layer.normalized_shape}; it must have one dimension"
        )
    return Translation(
        LayerNormLayer("node"),
        input_width=layer.normalized_shape[0],
        tensors=_affine_tensors(layer, layer.normalized_shape[0]),
    )


def _graph_norm(layer: GraphNorm) -> Translation:
    require(layer, eps=_EPSILON)
    return Translation(
        GraphNormLayer(),
        input_width=layer.in_channels,
        tensors=prefixed_tensors("norm", layer),
    )


def _affine_tensors(norm: nn.Module, width: int) -> dict[str, Tensor]:
    """The tensors of a norm; a missing scale is ones, a missing shift zeros."""
    identity = {"norm.weight": torch.ones(width), "norm.bias": torch.zeros(width)}
    return {**identity, **prefixed_tensors("norm", norm)}


NORMS: dict[type, Callable[[Any], Translation]] = {
    nn.BatchNorm1d: _batch_norm,
    BatchNorm: _batch_norm,
    LayerNorm: _layer_norm,
    nn.LayerNorm: _torch_layer_norm,
    GraphNorm: _graph_norm,
}
