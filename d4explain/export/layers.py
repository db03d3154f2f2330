"""Translates layers and functions of PyTorch and PyG to the vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from torch import nn
from torch_geometric.nn import (
    GlobalAttention,
    JumpingKnowledge,
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

from d4explain.export.activations import ACTIVATION_FUNCTIONS, ACTIVATIONS, FINAL_FUNCTIONS
from d4explain.export.convolutions import CONVOLUTIONS
from d4explain.export.norms import NORMS
from d4explain.export.translation import (
    Translation,
    UnsupportedLayerError,
    or_zeros,
    require,
    require_initialised,
    require_one_of,
)
from d4explain.gnn.spec import (
    ActivationKind,
    ActivationLayer,
    AddLayer,
    DropoutLayer,
    JumpLayer,
    JumpMode,
    KeepLayer,
    LinearLayer,
    PoolLayer,
    PoolOp,
)

_POOL_FUNCTIONS: dict[Callable[..., Any], PoolOp] = {
    global_mean_pool: "mean",
    global_add_pool: "sum",
    global_max_pool: "max",
}

# The strings that a Chain accepts as parts.
NAMED_PARTS: dict[str, Translation] = {
    **{kind: Translation(ActivationLayer(kind)) for kind in get_args(ActivationKind)},
    "keep": Translation(KeepLayer()),
    "add": Translation(AddLayer()),
    "log_softmax": Translation(None, final_activation="log_softmax"),
    "softmax": Translation(None, final_activation="softmax"),
}


@dataclass(frozen=True)
class Jump:
    """A JumpingKnowledge of the last `last` kept values instead of all of them."""

    layer: JumpingKnowledge
    last: int


def translate(part: object) -> Translation:
    """Translate one part; exact types only, since a subclass may compute something else."""
    if isinstance(part, str):
        if part not in NAMED_PARTS:
            raise UnsupportedLayerError(
                f"unknown name {part!r}; allowed names: {', '.join(NAMED_PARTS)}"
            )
        return NAMED_PARTS[part]
    if type(part) in _TRANSLATORS:
        return _TRANSLATORS[type(part)](part)
    if isinstance(part, nn.Module) or not callable(part):
        raise UnsupportedLayerError(f"supported layers: {', '.join(supported_layers())}")
    return _translate_function(part)


def _translate_function(function: Callable[..., Any]) -> Translation:
    if function in ACTIVATION_FUNCTIONS:
        return Translation(ActivationLayer(ACTIVATION_FUNCTIONS[function]))
    if function in _POOL_FUNCTIONS:
        return Translation(PoolLayer(_POOL_FUNCTIONS[function]), needs="batch")
    if function in FINAL_FUNCTIONS:
        return Translation(None, final_activation=FINAL_FUNCTIONS[function])
    name = getattr(function, "__name__", repr(function))
    raise UnsupportedLayerError(f"the function {name} is not supported")


def supported_layers() -> list[str]:
    """Names for error messages: classes of PyTorch and PyG, then functions of PyG."""
    classes = {kind.__name__ for kind in _TRANSLATORS if kind.__module__.startswith("torch")}
    functions = [function.__name__ for function in _POOL_FUNCTIONS]
    return sorted(classes | {"GINConv", "GINEConv"}) + functions


def _linear(layer: nn.Linear | Linear) -> Translation:
    weight = require_initialised(layer.weight)
    tensors = {"linear.weight": weight}
    if layer.bias is not None:
        tensors["linear.bias"] = layer.bias
    return Translation(
        LinearLayer(weight.shape[0], bias=layer.bias is not None),
        input_width=weight.shape[1],
        tensors=tensors,
    )


def _dropout(layer: nn.Dropout) -> Translation:
    if not layer.p < 1:
        raise UnsupportedLayerError(f"p={layer.p}; it must be below 1")
    return Translation(DropoutLayer(float(layer.p)))


def _pool(op: PoolOp) -> Callable[[nn.Module], Translation]:
    return lambda _layer: Translation(PoolLayer(op), needs="batch")


def _attention_pool(layer: AttentionalAggregation) -> Translation:
    gate = layer.gate_nn
    if not isinstance(gate, nn.Linear | Linear) or require_initialised(gate.weight).shape[0] != 1:
        found = layer.gate_mlp if gate is None else gate
        raise UnsupportedLayerError(f"its gate_nn must be a linear layer to 1 value; got {found}")
    require(layer, nn=None, mlp=None)
    return Translation(
        PoolLayer("attention"),
        needs="batch",
        input_width=gate.weight.shape[1],
        tensors={"pool.gate_nn.weight": gate.weight, "pool.gate_nn.bias": or_zeros(gate.bias, 1)},
    )


def _identity(_layer: nn.Identity) -> Translation:
    return Translation(None)


def _jumping_knowledge(layer: JumpingKnowledge) -> Translation:
    require_one_of(layer, "mode", get_args(JumpMode))
    return Translation(JumpLayer(layer.mode))


def _jump(jump: Jump) -> Translation:
    require_one_of(jump.layer, "mode", get_args(JumpMode))
    return Translation(JumpLayer(jump.layer.mode, jump.last))


_TRANSLATORS: dict[type, Callable[[Any], Translation]] = {
    **CONVOLUTIONS,
    **ACTIVATIONS,
    **NORMS,
    nn.Linear: _linear,
    Linear: _linear,
    nn.Dropout: _dropout,
    MeanAggregation: _pool("mean"),
    SumAggregation: _pool("sum"),
    MaxAggregation: _pool("max"),
    AttentionalAggregation: _attention_pool,
    GlobalAttention: _attention_pool,
    JumpingKnowledge: _jumping_knowledge,
    Jump: _jump,
    nn.Identity: _identity,
}
