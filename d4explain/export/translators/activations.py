"""Translates activation functions and modules, also those that end a classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from d4explain.export.translators.translation import (
    Translation,
    UnsupportedLayerError,
    argument,
    require,
    require_one_of,
)
from d4explain.gnn.spec import ActivationKind, ActivationLayer

_DEFAULT_SLOPE = 0.01  # of PyTorch's LeakyReLU; the spec omits it


# Options of functions, by position, and the values that the vocabulary has.
_OPTIONS: dict[str, tuple[tuple[str, object], ...]] = {
    "elu": (("alpha", 1.0),),
    "gelu": (("approximate", "none"),),
    "softplus": (("beta", 1), ("threshold", 20)),
}


def activation_function(
    name: str, args: tuple[Any, ...], options: dict[str, Any]
) -> ActivationLayer:
    """The layer of a call such as F.relu(x) or x.tanh()."""
    if name == "leaky_relu":
        slope = argument(args, options, 1, "negative_slope", _DEFAULT_SLOPE)
        layer = _sloped("negative_slope", slope).layer
        assert isinstance(layer, ActivationLayer)
        return layer
    for position, (option, supported) in enumerate(_OPTIONS.get(name, ()), 1):
        value = argument(args, options, position, option, supported)
        if value != supported:
            raise UnsupportedLayerError(
                f"{option}={value!r}; only {option}={supported!r} is supported"
            )
    kind: Any = name
    return ActivationLayer(kind)


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
