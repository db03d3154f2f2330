"""What a GNN is made of: a closed list of layers that checks itself when it is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

ActivationKind: TypeAlias = Literal["relu", "leaky_relu", "elu", "gelu", "tanh", "sigmoid"]
PoolOp: TypeAlias = Literal["mean", "sum", "max"]
JumpMode: TypeAlias = Literal["cat", "max"]
Aggregation: TypeAlias = Literal["add", "mean", "max"]
SageAggregation: TypeAlias = Literal["mean", "max"]


@dataclass(frozen=True)
class GcnLayer:
    """PyG's GCNConv: self-loops, symmetric normalisation, bias."""

    out: int

    def __post_init__(self) -> None:
        _require_positive("gcn: out", self.out)


@dataclass(frozen=True)
class GinLayer:
    """PyG's GINConv around Linear, ReLU, Linear."""

    out: int
    hidden: int
    train_eps: bool = False

    def __post_init__(self) -> None:
        _require_positive("gin: out", self.out)
        _require_positive("gin: hidden", self.hidden)


@dataclass(frozen=True)
class SageLayer:
    """PyG's SAGEConv: W_l · mean or maximum of the neighbours + b + W_r · own values."""

    out: int
    bias: bool = True
    aggr: SageAggregation = "mean"

    def __post_init__(self) -> None:
        _require_positive("sage: out", self.out)
        _require_one_of("sage: aggr", self.aggr, get_args(SageAggregation))


@dataclass(frozen=True)
class GraphConvLayer:
    """PyG's GraphConv: W_rel · sum, mean or maximum of the neighbours + b + W_root · own values."""

    out: int
    bias: bool = True
    aggr: Aggregation = "add"

    def __post_init__(self) -> None:
        _require_positive("graph_conv: out", self.out)
        _require_one_of("graph_conv: aggr", self.aggr, get_args(Aggregation))


@dataclass(frozen=True)
class _AttentionLayer:
    out: int  # per head
    heads: int = 1
    concat: bool = True
    negative_slope: float = 0.2

    def __post_init__(self) -> None:
        _require_positive(f"{self.name}: out", self.out)
        _require_positive(f"{self.name}: heads", self.heads)
        if not 0 <= self.negative_slope <= 1:
            raise ValueError(
                f"{self.name}: negative_slope must be from 0 to 1; got {self.negative_slope!r}"
            )

    @property
    def name(self) -> str:
        return type(self).__name__.removesuffix("Layer").lower()

    @property
    def width(self) -> int:
        """What leaves the layer: the heads side by side, or their mean."""
        return self.out * self.heads if self.concat else self.out


@dataclass(frozen=True)
class GatLayer(_AttentionLayer):
    """PyG's GATConv: self-loops, bias."""


@dataclass(frozen=True)
class GatV2Layer(_AttentionLayer):
    """PyG's GATv2Conv: self-loops, biases, weights of its own for both ends."""


@dataclass(frozen=True)
class LinearLayer:
    out: int
    bias: bool = True

    def __post_init__(self) -> None:
        _require_positive("linear: out", self.out)


@dataclass(frozen=True)
class ActivationLayer:
    kind: ActivationKind

    def __post_init__(self) -> None:
        _require_one_of("activation: kind", self.kind, get_args(ActivationKind))


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
class PoolLayer:
    """From nodes to graphs; what comes after it sees one row per graph."""

    op: PoolOp

    def __post_init__(self) -> None:
        _require_one_of("pool: op", self.op, get_args(PoolOp))


@dataclass(frozen=True)
class KeepLayer:
    """Remembers the node values for the jumps behind it and hands them on unchanged."""


@dataclass(frozen=True)
class JumpLayer:
    """Jumping knowledge (Xu et al. 2018): everything kept so far, in order, instead of the values.

    What the layer itself gets counts only if it was kept.
    """

    mode: JumpMode

    def __post_init__(self) -> None:
        _require_one_of("jump: mode", self.mode, get_args(JumpMode))


Layer: TypeAlias = (
    GcnLayer
    | GinLayer
    | SageLayer
    | GraphConvLayer
    | GatLayer
    | GatV2Layer
    | LinearLayer
    | ActivationLayer
    | DropoutLayer
    | BatchNormLayer
    | PoolLayer
    | KeepLayer
    | JumpLayer
)


@dataclass(frozen=True)
class GnnSpec:
    """A classifier: `features` numbers per node in, `classes` logits per graph out.

    With a pool it classifies graphs; without, the marked node of each graph.
    """

    features: int
    classes: int
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        _require_positive("features", self.features)
        if self.classes < 2:
            raise ValueError(f"classes: a classifier has at least 2; got {self.classes!r}")
        for position, layer in enumerate(self.layers):
            if not isinstance(layer, Layer):
                raise ValueError(
                    f"layers[{position}]: not a layer of the vocabulary; got {layer!r}"
                )
        pools = [i for i, layer in enumerate(self.layers) if isinstance(layer, PoolLayer)]
        if len(pools) > 1:
            raise ValueError(f"layers: at most one may be a pool; got {len(pools)} (at {pools})")
        for position, layer in enumerate(self.layers):
            if isinstance(layer, _ON_NODES) and pools and position > pools[0]:
                raise ValueError(
                    f"layers[{position}]: {type(layer).__name__} needs nodes, "
                    f"but layers[{pools[0]}] has pooled them"
                )
        self._check_jumps()
        last = next((layer for layer in reversed(self.layers) if isinstance(layer, _WIDTH)), None)
        if not isinstance(last, LinearLayer):
            raise ValueError(
                "layers: the last one that sets the width must be a linear layer; got "
                f"{type(last).__name__ if last else 'none at all'}"
            )
        if last.out != self.classes:
            raise ValueError(
                f"layers: the last linear layer must give {self.classes} classes; got {last.out}"
            )

    @property
    def classifies_nodes(self) -> bool:
        return not any(isinstance(layer, PoolLayer) for layer in self.layers)

    @property
    def convolutions(self) -> int:
        """How many layers look at neighbours, hence how many hops away an answer comes from."""
        return sum(isinstance(layer, _CONVOLUTIONS) for layer in self.layers)

    @property
    def state_positions(self) -> tuple[int, ...]:
        """The layers that get what a convolution made of the nodes, normed and activated."""
        positions = []
        fresh = False
        for position, layer in enumerate(self.layers):
            if fresh and not isinstance(layer, BatchNormLayer | ActivationLayer | DropoutLayer):
                positions.append(position)
                fresh = False
            fresh = fresh or isinstance(layer, _CONVOLUTIONS)
        return tuple(positions)

    @property
    def state_width(self) -> int:
        """Numbers that all convolutions together say about a node."""
        widths = self.widths()
        return sum(widths[position] for position in self.state_positions)

    @property
    def sight(self) -> int:
        """Hops around a node that hold all its logits depend on.

        As many as there are convolutions, and one more where one of them is normalised by both
        ends' degrees: a GCN reads the degrees of the farthest nodes it sees, hence whether they
        have neighbours. The others read nothing of them but their values: a mean or an
        attention divides by what the gathering node has.
        """
        normalised = any(isinstance(layer, GcnLayer) for layer in self.layers)
        return self.convolutions + normalised

    def widths(self) -> tuple[int, ...]:
        """How many numbers enter each layer, and at the end how many leave the last one."""
        widths = [self.features]
        kept: list[int] = []
        for layer in self.layers:
            width = widths[-1]
            match layer:
                case GcnLayer() | GinLayer() | SageLayer() | GraphConvLayer() | LinearLayer():
                    width = layer.out
                case GatLayer() | GatV2Layer():
                    width = layer.width
                case KeepLayer():
                    kept.append(width)
                case JumpLayer(mode="cat"):
                    width = sum(kept)
                case JumpLayer(mode="max"):
                    width = kept[0]
                case _:
                    pass
            widths.append(width)
        return tuple(widths)

    def _check_jumps(self) -> None:
        kept: list[int] = []
        for position, layer in enumerate(self.layers):
            if isinstance(layer, KeepLayer):
                kept.append(position)
            if not isinstance(layer, JumpLayer):
                continue
            if not kept:
                raise ValueError(f"layers[{position}]: JumpLayer has no KeepLayer before it")
            widths = [self.widths()[keep] for keep in kept]
            if layer.mode == "max" and len(set(widths)) > 1:
                raise ValueError(
                    f"layers[{position}]: the maximum needs kept values of one width; got {widths}"
                )


_CONVOLUTIONS = GcnLayer | GinLayer | SageLayer | GraphConvLayer | GatLayer | GatV2Layer
_ON_NODES = _CONVOLUTIONS | KeepLayer | JumpLayer
_WIDTH = _CONVOLUTIONS | LinearLayer | JumpLayer


def _require_positive(what: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{what} must be a whole number of at least 1; got {value!r}")


def _require_one_of(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{what} must be one of {', '.join(allowed)}; got {value!r}")
