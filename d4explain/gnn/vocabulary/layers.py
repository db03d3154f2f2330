"""All layers that a GNN may have besides convolutions; each validates its fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, get_args

from d4explain.gnn.vocabulary.choices import ActivationKind, JumpMode, LayerNormMode, PoolOp
from d4explain.gnn.vocabulary.convolutions import Convolution
from d4explain.gnn.vocabulary.field_checks import require_one_of, require_positive
from d4explain.gnn.vocabulary.operations import AffineLayer, NormalizeLayer, Operation

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class LinearLayer:
    out: int
    bias: bool = True

    def __post_init__(self) -> None:
        require_positive("linear: out", self.out)


@dataclass(frozen=True)
class ActivationLayer:
    kind: ActivationKind
    slope: float | None = None  # of leaky_relu below 0; None means 0.01, as in PyTorch

    def __post_init__(self) -> None:
        require_one_of("activation: kind", self.kind, get_args(ActivationKind))
        if self.slope is not None and (self.kind != "leaky_relu" or not 0 <= self.slope <= 1):
            raise ValueError(
                f"activation: slope is for leaky_relu, from 0 to 1; got {self.slope!r} "
                f"for {self.kind}"
            )


@dataclass(frozen=True)
class ShiftedReluLayer:
    """max(x, b) with one trained b per value."""


@dataclass(frozen=True)
class DropoutLayer:
    p: float

    def __post_init__(self) -> None:
        if not 0 <= self.p < 1:
            raise ValueError(f"dropout: p must be at least 0 and below 1; got {self.p!r}")


@dataclass(frozen=True)
class BatchNormLayer:
    pass


@dataclass(frozen=True)
class LayerNormLayer:
    """PyG's LayerNorm: `node` normalises over the values of a node, `graph` over those of a graph.

    torch.nn.LayerNorm is `node`; the default of PyG is `graph`.
    """

    mode: LayerNormMode

    def __post_init__(self) -> None:
        require_one_of("layer_norm: mode", self.mode, get_args(LayerNormMode))


@dataclass(frozen=True)
class GraphNormLayer:
    """PyG's GraphNorm: normalises each value over the nodes of its graph."""


@dataclass(frozen=True)
class PoolLayer:
    """Pools nodes into graphs; later layers get one row per graph.

    `attention` is PyG's AttentionalAggregation with a linear gate.
    """

    op: PoolOp

    def __post_init__(self) -> None:
        require_one_of("pool: op", self.op, get_args(PoolOp))


@dataclass(frozen=True)
class KeepLayer:
    """Stores the node values for later layers and passes them on unchanged."""


@dataclass(frozen=True)
class AddLayer:
    """A residual connection: adds the last kept values."""


@dataclass(frozen=True)
class JumpLayer:
    """Jumping knowledge (Xu et al. 2018): replaces the values by all kept values, in order.

    The layer's own input counts only if it was kept. With `last`, it uses only that many of the
    last kept values; the others serve residual connections.
    """

    mode: JumpMode
    last: int | None = None

    def __post_init__(self) -> None:
        require_one_of("jump: mode", self.mode, get_args(JumpMode))
        if self.last is not None:
            require_positive("jump: last", self.last)

    def joined(self, kept: Sequence[Kept]) -> list[Kept]:
        """The entries that this layer joins, of a list with one entry per kept value."""
        return list(kept if self.last is None else kept[-self.last :])


@dataclass(frozen=True)
class PluginLayer:
    """A layer or a whole GNN of a plug-in; `make` builds its module.

    The module takes values, edge_index and batch, as in PyG. It may have a method `dense` that
    takes values, adjacency and mask.
    """

    name: str
    width: int  # output width
    make: Callable[[], Any]  # a torch module
    hops: int | None  # hops that it reads around a node; None means the whole graph
    pools: bool = False  # True for a whole graph classifier: its output has one row per graph

    def __post_init__(self) -> None:
        require_positive(f"{self.name}: width", self.width)
        if self.hops is not None and self.hops < 0:
            raise ValueError(f"{self.name}: hops must not be negative; got {self.hops!r}")


# Layers that belong to the convolution before them.
AfterConvolution: TypeAlias = (
    BatchNormLayer
    | LayerNormLayer
    | GraphNormLayer
    | ActivationLayer
    | ShiftedReluLayer
    | DropoutLayer
    | AddLayer
    | AffineLayer
    | NormalizeLayer
)
Layer: TypeAlias = (
    Convolution
    | LinearLayer
    | AfterConvolution
    | PoolLayer
    | KeepLayer
    | JumpLayer
    | Operation
    | PluginLayer
)
