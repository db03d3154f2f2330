"""The architectures of witnesses; each is rebuilt from its name, so a stored witness is weights."""

from __future__ import annotations

from enum import Enum

from d4explain.gnn.spec import (
    ActivationLayer,
    BatchNormLayer,
    DropoutLayer,
    GcnLayer,
    GinLayer,
    GnnSpec,
    JumpLayer,
    KeepLayer,
    Layer,
    LinearLayer,
    PoolLayer,
    SageLayer,
)

_WIDTH = 48
_DROPOUT = 0.3


class Architecture(Enum):
    GIN = "gin"
    SAGE = "sage"
    GCN = "gcn"

    @property
    def convolution(self) -> Layer:
        match self:
            case Architecture.GIN:
                return GinLayer(_WIDTH, _WIDTH)
            case Architecture.SAGE:
                return SageLayer(_WIDTH)
            case Architecture.GCN:
                return GcnLayer(_WIDTH)


def witness_spec(
    architecture: Architecture, *, features: int, classes: int, depth: int, classifies_nodes: bool
) -> GnnSpec:
    """Convolutions with batch norm, a jump connection over all of them, and a two-layer head."""
    layers: list[Layer] = []
    for _ in range(depth):
        layers += [
            architecture.convolution,
            BatchNormLayer(),
            ActivationLayer("relu"),
            KeepLayer(),
        ]
    layers.append(JumpLayer("cat"))
    if not classifies_nodes:
        layers.append(PoolLayer("sum"))
    layers += [LinearLayer(_WIDTH), ActivationLayer("relu"), DropoutLayer(_DROPOUT)]
    return GnnSpec(features, classes, (*layers, LinearLayer(classes)))
