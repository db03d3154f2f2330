"""The translation of one layer, and the error if there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from d4explain.gnn.spec import Layer

Needs = Literal["nothing", "edges", "attributes", "batch"]  # inputs besides the values
Ending = Literal["log_softmax", "softmax", "sigmoid"]  # what turns logits into probabilities


class InexpressibleError(Exception):
    """The vocabulary does not have this layer or option."""


@dataclass(frozen=True)
class Translated:
    """One layer of the vocabulary; `layer` is None for an identity."""

    layer: Layer | None
    needs: Needs = "nothing"  # "attributes" includes the edges
    width: int | None = None  # input width, if the layer fixes it
    edge_width: int | None = None  # number of edge attributes, if it reads them
    tensors: dict[str, Tensor] = field(default_factory=dict)  # names below `layers.<i>.`
    ending: Ending | None = None  # applied to the logits; our GNNs end there


def require(layer: nn.Module, **options: object) -> None:
    for name, wanted in options.items():
        got = getattr(layer, name)
        if got != wanted:
            raise InexpressibleError(f"{name}={got!r}; only {name}={wanted!r} can be expressed")


def require_one_of(layer: nn.Module, name: str, known: tuple[object, ...]) -> None:
    got = getattr(layer, name)
    if got not in known:
        said = " or ".join(f"{name}={one!r}" for one in known)
        raise InexpressibleError(f"{name}={got!r}; only {said} can be expressed")


def require_bias(bias: Tensor | None, where: str = "") -> None:
    if bias is None:
        raise InexpressibleError(f"{where}bias=False; only bias=True can be expressed")


def or_zeros(tensor: Tensor | None, *shape: int) -> Tensor:
    """A missing tensor has the same effect as zeros."""
    return torch.zeros(shape) if tensor is None else tensor


def initialised(weight: Tensor) -> Tensor:
    if isinstance(weight, nn.UninitializedParameter):
        raise InexpressibleError("its input width is not known yet; run the model once first")
    return weight


def named(prefix: str, layer: nn.Module) -> dict[str, Tensor]:
    """The tensors of the layer under the names of our layer."""
    return {f"{prefix}.{name}": tensor for name, tensor in layer.state_dict().items()}
