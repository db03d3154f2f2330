"""Translates layers and functions of PyTorch and PyG to the vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import (
    BatchNorm,
    GlobalAttention,
    GraphNorm,
    JumpingKnowledge,
    LayerNorm,
    Linear,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.nn.aggr import (
    AttentionalAggregation,
    MaxAggregation,
    MeanAggregation,
    SumAggregation,
)

from d4explain.export.convolutions import CONVOLUTIONS
from d4explain.export.translation import (
    Ending,
    InexpressibleError,
    Translated,
    initialised,
    named,
    or_zeros,
    require,
    require_one_of,
)
from d4explain.gnn.spec import (
    ActivationKind,
    ActivationLayer,
    AddLayer,
    BatchNormLayer,
    DropoutLayer,
    GraphNormLayer,
    JumpLayer,
    JumpMode,
    KeepLayer,
    LayerNormLayer,
    LinearLayer,
    PoolLayer,
    PoolOp,
)

_FUNCTIONS: dict[Callable[..., Any], ActivationKind] = {
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
_ENDINGS: dict[Callable[..., Any], Ending] = {
    F.log_softmax: "log_softmax",
    torch.log_softmax: "log_softmax",
    F.softmax: "softmax",
    torch.softmax: "softmax",
}
_POOL_FUNCTIONS: dict[Callable[..., Any], PoolOp] = {
    global_mean_pool: "mean",
    global_add_pool: "sum",
    global_max_pool: "max",
}
_POOL_MODULES: dict[type[nn.Module], PoolOp] = {
    MeanAggregation: "mean",
    SumAggregation: "sum",
    MaxAggregation: "max",
}
_PLAIN_ACTIVATIONS: dict[type[nn.Module], ActivationKind] = {
    nn.ReLU: "relu",
    nn.SELU: "selu",
    nn.SiLU: "silu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid",
}

_EPSILON = 1e-5  # of our norms, which is PyTorch's default

# Names that may stand in a chain of layers.
WORDS: dict[str, Translated] = {
    **{kind: Translated(ActivationLayer(kind)) for kind in get_args(ActivationKind)},
    "keep": Translated(KeepLayer()),
    "add": Translated(AddLayer()),
    "log_softmax": Translated(None, ending="log_softmax"),
    "softmax": Translated(None, ending="softmax"),
}


@dataclass(frozen=True)
class Jump:
    """A JumpingKnowledge of the last `last` kept values instead of all of them."""

    layer: JumpingKnowledge
    last: int


def translate(layer: object) -> Translated:
    """Translate one layer; exact types only, since a subclass may compute something else."""
    kind = type(layer)
    if isinstance(layer, str):
        if layer not in WORDS:
            raise InexpressibleError(f"{layer!r} is not a known name; known are {', '.join(WORDS)}")
        result = WORDS[layer]
    elif kind in _POOL_MODULES:
        result = Translated(PoolLayer(_POOL_MODULES[kind]), needs="batch")
    elif kind in _PLAIN_ACTIVATIONS:
        result = Translated(ActivationLayer(_PLAIN_ACTIVATIONS[kind]))
    elif kind in _TRANSLATORS:
        result = _TRANSLATORS[kind](layer)
    elif isinstance(layer, nn.Module) or not callable(layer):
        raise InexpressibleError(f"known are {', '.join(known_layers())}")
    else:
        result = _function(layer)
    return result


def _function(function: Callable[..., Any]) -> Translated:
    if function in _FUNCTIONS:
        return Translated(ActivationLayer(_FUNCTIONS[function]))
    if function in _POOL_FUNCTIONS:
        return Translated(PoolLayer(_POOL_FUNCTIONS[function]), needs="batch")
    if function in _ENDINGS:
        return Translated(None, ending=_ENDINGS[function])
    name = getattr(function, "__name__", repr(function))
    raise InexpressibleError(f"the function {name} is not known")


def known_layers() -> list[str]:
    names = {kind.__name__ for kind in _KNOWN if kind is not Jump}
    kinds = {name for name in names if not name.startswith("Gin")}
    return sorted(kinds | {"GINConv", "GINEConv"}) + [
        function.__name__ for function in _POOL_FUNCTIONS
    ]


def _linear(layer: nn.Linear | Linear) -> Translated:
    weight = initialised(layer.weight)
    tensors = {"linear.weight": weight}
    if layer.bias is not None:
        tensors["linear.bias"] = layer.bias
    return Translated(
        LinearLayer(weight.shape[0], bias=layer.bias is not None),
        width=weight.shape[1],
        tensors=tensors,
    )


def _leaky_relu(layer: nn.LeakyReLU) -> Translated:
    return _sloped("negative_slope", layer.negative_slope)


def _prelu(layer: nn.PReLU) -> Translated:
    require(layer, num_parameters=1)
    return _sloped("its slope", layer.weight.item())


def _sloped(name: str, slope: float) -> Translated:
    if not 0 <= slope <= 1:
        raise InexpressibleError(f"{name}={slope}; it must be from 0 to 1")
    return Translated(ActivationLayer("leaky_relu", None if slope == 0.01 else float(slope)))


def _softplus(layer: nn.Softplus) -> Translated:
    require(layer, beta=1.0, threshold=20.0)
    return Translated(ActivationLayer("softplus"))


def _elu(layer: nn.ELU) -> Translated:
    require(layer, alpha=1.0)
    return Translated(ActivationLayer("elu"))


def _gelu(layer: nn.GELU) -> Translated:
    require(layer, approximate="none")
    return Translated(ActivationLayer("gelu"))


def _dropout(layer: nn.Dropout) -> Translated:
    if not layer.p < 1:
        raise InexpressibleError(f"p={layer.p}; it must be below 1")
    return Translated(DropoutLayer(float(layer.p)))


def _batch_norm(layer: nn.BatchNorm1d | BatchNorm) -> Translated:
    norm = layer.module if isinstance(layer, BatchNorm) else layer
    require(norm, track_running_stats=True)
    tensors = _scaled(norm, norm.num_features)
    if norm.eps != _EPSILON:
        # It divides by sqrt(variance + eps), so a different eps is a shift of the variance.
        variance = tensors["norm.running_var"].double() + (norm.eps - _EPSILON)
        tensors["norm.running_var"] = variance.to(tensors["norm.running_var"].dtype)
        if bool((variance < 0).any()):
            raise InexpressibleError(f"eps={norm.eps}; it must be {_EPSILON} or more")
    return Translated(BatchNormLayer(), width=norm.num_features, tensors=tensors)


def _scaled(norm: nn.Module, width: int) -> dict[str, Tensor]:
    """The tensors of a norm, with ones and zeros if it has no scale and shift."""
    ones = {"norm.weight": torch.ones(width), "norm.bias": torch.zeros(width)}
    return {**ones, **named("norm", norm)}


def _layer_norm(layer: LayerNorm) -> Translated:
    require(layer, eps=_EPSILON)
    return Translated(
        LayerNormLayer(layer.mode),
        needs="batch" if layer.mode == "graph" else "nothing",
        width=layer.in_channels,
        tensors=_scaled(layer, layer.in_channels),
    )


def _torch_layer_norm(layer: nn.LayerNorm) -> Translated:
    require(layer, eps=_EPSILON)
    if len(layer.normalized_shape) != 1:
        raise InexpressibleError(f"normalized_shape={layer.normalized_shape}; it must be a width")
    return Translated(
        LayerNormLayer("node"),
        width=layer.normalized_shape[0],
        tensors=_scaled(layer, layer.normalized_shape[0]),
    )


def _graph_norm(layer: GraphNorm) -> Translated:
    require(layer, eps=_EPSILON)
    return Translated(
        GraphNormLayer(),
        needs="batch",
        width=layer.in_channels,
        tensors=named("norm", layer),
    )


def _attention_pool(layer: AttentionalAggregation) -> Translated:
    gate = layer.gate_nn
    if not isinstance(gate, nn.Linear | Linear) or initialised(gate.weight).shape[0] != 1:
        inside = layer.gate_mlp if gate is None else gate
        raise InexpressibleError(f"its gate_nn must be a linear layer to 1 value; got {inside}")
    require(layer, nn=None, mlp=None)
    return Translated(
        PoolLayer("attention"),
        needs="batch",
        width=gate.weight.shape[1],
        tensors={"pool.gate_nn.weight": gate.weight, "pool.gate_nn.bias": or_zeros(gate.bias, 1)},
    )


def _identity(_layer: nn.Identity) -> Translated:
    return Translated(None)


def _jump(layer: JumpingKnowledge) -> Translated:
    require_one_of(layer, "mode", get_args(JumpMode))
    return Translated(JumpLayer(layer.mode))


def _some_jump(jump: Jump) -> Translated:
    require_one_of(jump.layer, "mode", get_args(JumpMode))
    return Translated(JumpLayer(jump.layer.mode, jump.last))


def _log_softmax(layer: nn.LogSoftmax) -> Translated:
    require_one_of(layer, "dim", (1, -1))
    return Translated(None, ending="log_softmax")


def _softmax(layer: nn.Softmax) -> Translated:
    require_one_of(layer, "dim", (1, -1))
    return Translated(None, ending="softmax")


_TRANSLATORS: dict[type, Callable[[Any], Translated]] = {
    **CONVOLUTIONS,
    nn.Linear: _linear,
    Linear: _linear,
    nn.LeakyReLU: _leaky_relu,
    nn.PReLU: _prelu,
    nn.Softplus: _softplus,
    nn.ELU: _elu,
    nn.GELU: _gelu,
    nn.Dropout: _dropout,
    nn.BatchNorm1d: _batch_norm,
    BatchNorm: _batch_norm,
    LayerNorm: _layer_norm,
    nn.LayerNorm: _torch_layer_norm,
    GraphNorm: _graph_norm,
    AttentionalAggregation: _attention_pool,
    GlobalAttention: _attention_pool,
    JumpingKnowledge: _jump,
    Jump: _some_jump,
    nn.Identity: _identity,
    nn.LogSoftmax: _log_softmax,
    nn.Softmax: _softmax,
}
_KNOWN = (*_TRANSLATORS, *_PLAIN_ACTIVATIONS, *_POOL_MODULES)
