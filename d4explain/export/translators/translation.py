"""The translation of one layer to the vocabulary, and the error for unsupported layers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from d4explain.gnn.spec import Layer

FinalActivation = Literal["log_softmax", "softmax", "sigmoid"]  # turns logits into probabilities


class UnsupportedLayerError(Exception):
    """The vocabulary does not have this layer or option."""


@dataclass(frozen=True)
class Translation:
    """One layer of the vocabulary; `layer` is None for an identity and for final activations."""

    layer: Layer | None
    input_width: int | None = None  # None if the layer accepts any width
    edge_width: int | None = None  # number of edge attributes, if the layer reads them
    tensors: dict[str, Tensor] = field(default_factory=dict)  # names after `layers.<position>.`
    final_activation: FinalActivation | None = None  # not part of the spec, which gives logits


_REQUIRED = object()


def argument(
    args: tuple[Any, ...],
    options: dict[str, Any],
    position: int,
    name: str,
    default: Any = _REQUIRED,
) -> Any:
    """An argument of a function call, by position or by name."""
    value = args[position] if len(args) > position else options.get(name, default)
    if value is _REQUIRED:
        raise UnsupportedLayerError(f"the argument {name} is missing")
    return value


def require(layer: nn.Module, **options: object) -> None:
    for name, required in options.items():
        value = getattr(layer, name)
        if value != required:
            raise UnsupportedLayerError(f"{name}={value!r}; only {name}={required!r} is supported")


def require_one_of(layer: nn.Module, name: str, supported: tuple[object, ...]) -> None:
    value = getattr(layer, name)
    if value not in supported:
        listed = " or ".join(f"{name}={one!r}" for one in supported)
        raise UnsupportedLayerError(f"{name}={value!r}; only {listed} is supported")


def require_bias(bias: Tensor | None, where: str = "") -> None:
    if bias is None:
        raise UnsupportedLayerError(f"{where}bias=False; only bias=True is supported")


def require_initialised(weight: Tensor) -> Tensor:
    if isinstance(weight, nn.UninitializedParameter):
        raise UnsupportedLayerError("its input width is not known yet; run the model once first")
    return weight


def or_zeros(tensor: Tensor | None, *shape: int) -> Tensor:
    """The tensor, or zeros, which have the same effect as a missing tensor."""
    return torch.zeros(shape) if tensor is None else tensor


def prefixed_tensors(prefix: str, layer: nn.Module) -> dict[str, Tensor]:
    """The state dict of a PyG layer under the names of the vocabulary."""
    return {f"{prefix}.{name}": tensor for name, tensor in layer.state_dict().items()}
