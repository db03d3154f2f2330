"""The convolutions that a GNN may have; each validates its fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, get_args

from d4explain.gnn.vocabulary.choices import (
    Aggregation,
    PnaAggregator,
    PnaScaler,
    SageAggregation,
)
from d4explain.gnn.vocabulary.field_checks import (
    require_distinct,
    require_one_of,
    require_positive,
)


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
        require_one_of("sage: aggr", self.aggr, get_args(SageAggregation))


@dataclass(frozen=True)
class GraphConvLayer:
    """PyG's GraphConv: W_rel · sum, mean or maximum of the neighbours + b + W_root · own values."""

    out: int
    bias: bool = True
    aggr: Aggregation = "add"

    def __post_init__(self) -> None:
        require_positive("graph_conv: out", self.out)
        require_one_of("graph_conv: aggr", self.aggr, get_args(Aggregation))


@dataclass(frozen=True)
class _AttentionLayer:
    out: int  # per head
    heads: int = 1
    concat: bool = True
    negative_slope: float = 0.2
    edges: bool = False  # whether attention reads edge attributes

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
            raise ValueError(f"pna: {self.towers} towers cannot share {self.out} output values")
        require_distinct("pna: aggregators", self.aggregators, get_args(PnaAggregator))
        require_distinct("pna: scalers", self.scalers, get_args(PnaScaler))

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
    """PyG's ChebConv: Σ W_n T_n(-P) X of the Chebyshev polynomials below degree k, P as in TAG.

    The normalisation is `sym`, with an assumed largest eigenvalue of 2.
    """

    out: int
    k: int
    bias: bool = True

    def __post_init__(self) -> None:
        require_positive("cheb: out", self.out)
        require_positive("cheb: k", self.k)
        if self.k < 2:
            raise ValueError("cheb: k must be at least 2, because k = 1 reads no neighbour; got 1")


@dataclass(frozen=True)
class EgnnLayer:
    """The energetic GNN of Zhou et al. 2021: [(1 - alpha - beta) P X + alpha X + beta X_0] W.

    P is GCN's propagation matrix; X_0 is the first kept value. The paper's c_min is alpha + beta.
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
class AppnpLayer:
    """PyG's APPNP: k times Z = (1 - alpha) P Z + alpha X, P as in GCN; alpha 0 gives P^k X."""

    k: int
    alpha: float

    def __post_init__(self) -> None:
        require_positive("appnp: k", self.k)
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"appnp: alpha must be from 0 to 1; got {self.alpha!r}")


Convolution: TypeAlias = (
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
    | AppnpLayer
)
