"""Translates activation functions and modules, also those that end a classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from d4explain.export.translation import (
    FinalActivation,
    Translation,
    UnsupportedLayerError,
    require,
    require_one_of,
)
from d4explain.gnn.spec import ActivationKind, ActivationLayer

ACTIVATION_FUNCTIONS: dict[Callable[..., Any], ActivationKind] = {
    F.relu: "relu",
    torch.relu: "relu",
    F.leaky_relu: "leaky_relu",
    F.elu: "elu",
    F.selu: "selu",
    F.gelu: "gelu",
    F.silu: "silu",
    F.softplus: "softplus",
    F.tanh: "tanh",
    torch.tanh: "tanh",
    F.sigmoid: "sigmoid",
    torch.sigmoid: "sigmoid",
}
FINAL_FUNCTIONS: dict[Callable[..., Any], FinalActivation] = {
    F.log_softmax: "log_softmax",
    torch.log_softmax: "log_softmax",
    F.softmax: "softmax",
    torch.softmax: "softmax",
}
_DEFAULT_SLOPE = 0.01  # of PyTorch's LeakyReLU; the spec omits it


def _without_options(kind: ActivationKind) -> Callable[[nn.Module], Translation]:
    return lambda _layer: Translation(ActivationLayer(kind))


def _leaky_relu(layer: nn.LeakyReLU) -> Translation:
    return _sloped("negative_slope", layer.negative_slope)


def _prelu(layer: nn.PReLU) -> Translation:
    require(layer, num_parameters=1)
    return _sloped("its slope", layer.weight.item())


def _sloped(name: str, slope: float) -> Translation:
    if not 0 <= slope <= 1:
        raise UnsupportedLayerError(f"{name}={slope}; it must be between 0 and 1")
    is_default = slope == _DEFAULT_SLOPE
    return Translation(ActivationLayer("leaky_relu", None if is_default else float(slope)))


def _softplus(layer: nn.Softplus) -> Translation:
    require(layer, beta=1.0, threshold=20.0)
    return Translation(ActivationLayer("softplus"))


def _elu(layer: nn.ELU) -> Translation:
    require(layer, alpha=1.0)
    return Translation(ActivationLayer("elu"))


def _gelu(layer: nn.GELU) -> Translation:
    require(layer, approximate="none")
    return Translation(ActivationLayer("gelu"))


def _log_softmax(layer: nn.LogSoftmax) -> Translation:
    require_one_of(layer, "dim", (1, -1))
    return Translation(None, final_activation="log_softmax")


def _softmax(layer: nn.Softmax) -> Translation:
    require_one_of(layer, "dim", (1, -1))
    return Translation(None, final_activation="softmax")


ACTIVATIONS: dict[type, Callable[[Any], Translation]] = {
    nn.ReLU: _without_options("relu"),
    nn.SELU: _without_options("selu"),
    nn.SiLU: _without_options("silu"),
    nn.Tanh: _without_options("tanh"),
    nn.Sigmoid: _without_options("sigmoid"),
    nn.LeakyReLU: _leaky_relu,
    nn.PReLU: _prelu,
    nn.Softplus: _softplus,
    nn.ELU: _elu,
    nn.GELU: _gelu,
    nn.LogSoftmax: _log_softmax,
    nn.Softmax: _softmax,
}
