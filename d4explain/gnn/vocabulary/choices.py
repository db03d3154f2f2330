"""The values that fields of layers may have."""

from __future__ import annotations

from typing import Literal, TypeAlias

ActivationKind: TypeAlias = Literal[
    "relu", "leaky_relu", "elu", "selu", "gelu", "silu", "softplus", "tanh", "sigmoid"
]
Aggregation: TypeAlias = Literal["add", "mean", "max"]
SageAggregation: TypeAlias = Literal["mean", "max"]
PnaAggregator: TypeAlias = Literal["sum", "mean", "min", "max", "std"]
PnaScaler: TypeAlias = Literal[
    "identity", "amplification", "attenuation", "linear", "inverse_linear"
]
LayerNormMode: TypeAlias = Literal["node", "graph"]
PoolOp: TypeAlias = Literal["mean", "sum", "max", "attention"]
JumpMode: TypeAlias = Literal["cat", "max"]
CombineOp: TypeAlias = Literal[
    "concat", "add", "subtract", "multiply", "divide", "maximum", "minimum", "mean"
]
