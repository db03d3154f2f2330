"""The layers that a GNN may have; each validates its fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, get_args

Kept = TypeVar("Kept")

ActivationKind: TypeAlias = Literal[
    "relu", "leaky_relu", "elu", "selu", "gelu", "silu", "softplus", "tanh", "sigmoid"
]
PoolOp: TypeAlias = Literal["mean", "sum", "max", "attention"]
JumpMode: TypeAlias = Literal["cat", "max"]
Aggregation: TypeAlias = Literal["add", "mean", "max"]
SageAggregation: TypeAlias = Literal["mean", "max"]
LayerNormMode: TypeAlias = Literal["node", "graph"]
PnaAggregator: TypeAlias = Literal["sum", "mean", "min", "max", "std"]
PnaScaler: TypeAlias = Literal[
    "identity", "amplification", "attenuation", "linear", "inverse_linear"
]


@dataclass(frozen=True)
class GcnLayer:
    """PyG's GCNConv: self-loops, symmetric normalisation, bias."""

    out: int

    def __post_init__(self) -> None:
        require_positive("gcn: out", self.out)


@dataclass(frozen=True)
class GinLayer:
    """PyG's GINConv around Linear, ReLU, Linear."""

    out: int
    hidden: int
    train_eps: bool = False

    def __post_init__(self) -> None:
        require_positive("gin: out", self.out)
        require_positive("gin: hidden", self.hidden)


@dataclass(frozen=True)
class GinSumLayer:
    """The input of the nn of PyG's GINConv: (1 + eps) · own values + the sum of the neighbours."""

    train_eps: bool = False


@dataclass(frozen=True)
class GineSumLayer:
    """The input of the nn of PyG's GINEConv: (1 + eps) x_i + Σ_j relu(x_j + W e_ij + b).

    Without `project`, the edge attributes e have the width of x and are added unchanged.
    """

    train_eps: bool = False
    project: bool = True


@dataclass(frozen=True)
class GineLayer:
    """PyG's GINEConv around Linear, ReLU, Linear."""

    out: int
    hidden: int
    train_eps: bool = False
    project: bool = True

    def __post_init__(self) -> None:
        require_positive("gine: out", self.out)
        require_positive("gine: hidden", self.hidden)


@dataclass(frozen=True)
class SageLayer:
    """PyG's SAGEConv: W_l · mean or maximum of the neighbours + b + W_r · own values."""

    out: int
    bias: bool = True
    aggr: SageAggregation = "mean"

    def __post_init__(self) -> None:
        require_positive("sage: out", self.out)
        _require_one_of("sage: aggr", self.aggr, get_args(SageAggregation))


@dataclass(frozen=True)
class GraphConvLayer:
    """PyG's GraphConv: W_rel · sum, mean or maximum of the neighbours + b + W_root · own values."""

    out: int
    bias: bool = True
    aggr: Aggregation = "add"

    def __post_init__(self) -> None:
        require_positive("graph_conv: out", self.out)
        _require_one_of("graph_conv: aggr", self.aggr, get_args(Aggregation))


@dataclass(frozen=True)
class _AttentionLayer:
    out: int  # per head
    heads: int = 1
    concat: bool = True
    negative_slope: float = 0.2
    edges: bool = False  # whether logits depend on edge attributes, too

    def __post_init__(self) -> None:
        require_positive(f"{self.name}: out", self.out)
        require_positive(f"{self.name}: heads", self.heads)
        if not 0 <= self.negative_slope <= 1:
            raise ValueError(
                f"{self.name}: negative_slope must be from 0 to 1; got {self.negative_slope!r}"
            )

    @property
    def name(self) -> str:
        return type(self).__name__.removesuffix("Layer").lower()

    @property
    def width(self) -> int:
        """Output width: the heads concatenated, or their mean."""
        return self.out * self.heads if self.concat else self.out


@dataclass(frozen=True)
class GatLayer(_AttentionLayer):
    """PyG's GATConv: self-loops, bias."""


@dataclass(frozen=True)
class GatV2Layer(_AttentionLayer):
    """PyG's GATv2Conv: self-loops, biases, separate weights for both ends."""


@dataclass(frozen=True)
class PnaLayer:
    """PyG's PNAConv without edge attributes, with one linear layer before and one after."""

    out: int
    aggregators: tuple[PnaAggregator, ...]
    scalers: tuple[PnaScaler, ...]
    towers: int = 1
    divide_input: bool = False

    def __post_init__(self) -> None:
        require_positive("pna: out", self.out)
        require_positive("pna: towers", self.towers)
        if self.out % self.towers:
            raise ValueError(f"pna: {self.towers} towers cannot share {self.out} values")
        _require_several("pna: aggregators", self.aggregators, get_args(PnaAggregator))
        _require_several("pna: scalers", self.scalers, get_args(PnaScaler))

    def tower_width(self, width: int) -> int:
        """Number of the layer's `width` values that each tower gets."""
        return width // self.towers if self.divide_input else width


@dataclass(frozen=True)
class TagLayer:
    """PyG's TAGConv: Σ W_n P^n X from 0 to k hops, P = D^(-1/2) A D^(-1/2)."""

    out: int
    k: int = 3
    bias: bool = True

    def __post_init__(self) -> None:
        require_positive("tag: out", self.out)
        require_positive("tag: k", self.k)


@dataclass(frozen=True)
class ChebLayer:
    """PyG's ChebConv: Σ W_n T_n(-P) X of the Chebyshev polynomials below degree k, P as in tag.

    The normalisation is `sym`, with an assumed largest eigenvalue of 2.
    """

    out: int
    k: int
    bias: bool = True

    def __post_init__(self) -> None:
        require_positive("cheb: out", self.out)
        require_positive("cheb: k", self.k)
        if self.k < 2:
            raise ValueError("cheb: k must be at least 2, or no neighbour is seen; got 1")


@dataclass(frozen=True)
class EgnnLayer:
    """The energetic GNN of Zhou et al. 2021: [(1 - alpha - beta) P X + alpha X + beta X_0] W.

    P is GCN's; X_0 is the first kept value. The paper's c_min is alpha + beta.
    """

    out: int
    alpha: float
    beta: float

    def __post_init__(self) -> None:
        require_positive("egnn: out", self.out)
        if not (self.alpha >= 0 and self.beta >= 0 and self.alpha + self.beta <= 1):
            raise ValueError(
                "egnn: alpha and beta must be at least 0 and together at most 1; "
                f"got {self.alpha!r} and {self.beta!r}"
            )


@dataclass(frozen=True)
class LinearLayer:
    out: int
    bias: bool = True

    def __post_init__(self) -> None:
        require_positive("linear: out", self.out)


@dataclass(frozen=True)
class ActivationLayer:
    kind: ActivationKind
    slope: float | None = None  # of leaky_relu below 0; None means PyTorch's 0.01

    def __post_init__(self) -> None:
        _require_one_of("activation: kind", self.kind, get_args(ActivationKind))
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
    """PyG's LayerNorm; its own default is `graph`, torch.nn.LayerNorm is `node`.

    `node` normalises over the values of a node, `graph` over all values of all nodes of a graph.
    """

    mode: LayerNormMode

    def __post_init__(self) -> None:
        _require_one_of("layer_norm: mode", self.mode, get_args(LayerNormMode))


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
        _require_one_of("pool: op", self.op, get_args(PoolOp))


@dataclass(frozen=True)
class KeepLayer:
    """Stores the node values for later layers and passes them on unchanged."""


@dataclass(frozen=True)
class AddLayer:
    """A residual connection: adds the last kept values."""


@dataclass(frozen=True)
class JumpLayer:
    """Jumping knowledge (Xu et al. 2018): replaces the values by all kept values, in order.

    The layer's own input counts only if it was kept. With `last`, only that many of the kept values
    are used; the others were kept for a residual connection.
    """

    mode: JumpMode
    last: int | None = None

    def __post_init__(self) -> None:
        _require_one_of("jump: mode", self.mode, get_args(JumpMode))
        if self.last is not None:
            require_positive("jump: last", self.last)

    def joined(self, kept: Sequence[Kept]) -> list[Kept]:
        """The part of the kept values, or of any list parallel to them, that is joined."""
        return list(kept if self.last is None else kept[-self.last :])


@dataclass(frozen=True)
class PluginLayer:
    """An external layer or a whole external GNN; `make` builds its module.

    The module takes values, edge_index and the graph of each node, as PyG's do, and may have a
    `dense` form that takes values, adjacency and mask.
    """

    name: str
    width: int  # output width
    make: Callable[[], Any]  # a torch module
    hops: int | None  # hops that it reads around a node; None means the whole graph
    pools: bool = False  # a whole graph classifier: its output is one row per graph

    def __post_init__(self) -> None:
        require_positive(f"{self.name}: width", self.width)
        if self.hops is not None and self.hops < 0:
            raise ValueError(f"{self.name}: hops must not be negative; got {self.hops!r}")


Layer: TypeAlias = (
    GcnLayer
    | GinLayer
    | GinSumLayer
    | GineLayer
    | GineSumLayer
    | SageLayer
    | GraphConvLayer
    | GatLayer
    | GatV2Layer
    | PnaLayer
    | TagLayer
    | ChebLayer
    | EgnnLayer
    | LinearLayer
    | ActivationLayer
    | ShiftedReluLayer
    | DropoutLayer
    | BatchNormLayer
    | LayerNormLayer
    | GraphNormLayer
    | PoolLayer
    | KeepLayer
    | AddLayer
    | JumpLayer
    | PluginLayer
)


def reads_edge_attributes(layer: Layer) -> bool:
    attending = isinstance(layer, GatLayer | GatV2Layer) and layer.edges
    return attending or isinstance(layer, GineLayer | GineSumLayer)


def require_positive(what: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{what} must be a whole number of at least 1; got {value!r}")


def _require_one_of(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{what} must be one of {', '.join(allowed)}; got {value!r}")


def _require_several(what: str, values: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    for value in values:
        _require_one_of(what, value, allowed)
    if not values or len(set(values)) < len(values):
        raise ValueError(f"{what} must be one or more different words; got {values!r}")
