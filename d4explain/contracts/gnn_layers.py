"""The built-in layers of a GNN spec: one document per layer type."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from d4explain.contracts.vocabulary.operations import (
    AffineDocument,
    BroadcastDocument,
    ColumnsDocument,
    CombineDocument,
    ConstantDocument,
    EmbeddingDocument,
    NormalizeDocument,
)
from d4explain.contracts.vocabulary.spec_model import LayerModel, SpecModel, Width

MAX_HEADS = 32
MAX_TOWERS = 32
MAX_HOPS = 16  # of one layer

Share = Annotated[float, Field(ge=0, le=1, strict=False)]


class GcnDocument(LayerModel):
    """PyG's GCNConv: self-loops, symmetric normalisation, bias."""

    type: Literal["gcn"]
    out: Width


class GinDocument(LayerModel):
    """PyG's GINConv around Linear, ReLU, Linear."""

    type: Literal["gin"]
    out: Width
    hidden: Width
    train_eps: bool = False


class GinSumDocument(LayerModel):
    """The input of the nn of PyG's GINConv: (1 + eps) · own values + the sum of the neighbours.

    Layers after it form the nn, for a GIN around anything but Linear, ReLU, Linear.
    """

    type: Literal["gin_sum"]
    train_eps: bool = False


class GineDocument(LayerModel):
    """PyG's GINEConv around Linear, ReLU, Linear; it reads edge attributes.

    With `project`, a linear layer maps the attributes to the width of the node values. Without it,
    they must have that width.
    """

    type: Literal["gine"]
    out: Width
    hidden: Width
    train_eps: bool = False
    project: bool = True


class GineSumDocument(LayerModel):
    """The input of the nn of PyG's GINEConv; it is to `gine` what `gin_sum` is to `gin`."""

    type: Literal["gine_sum"]
    train_eps: bool = False
    project: bool = True


class SageDocument(LayerModel):
    """PyG's SAGEConv: mean or maximum of the neighbours; own weights for the node itself."""

    type: Literal["sage"]
    out: Width
    bias: bool = True
    aggr: Literal["mean", "max"] = "mean"


class GraphConvDocument(LayerModel):
    """PyG's GraphConv: sum, mean or maximum of the neighbours; own weights for the node itself."""

    type: Literal["graph_conv"]
    out: Width
    bias: bool = True
    aggr: Literal["add", "mean", "max"] = "add"


class _AttentionDocument(LayerModel):
    out: Width
    heads: Annotated[int, Field(ge=1, le=MAX_HEADS)] = 1
    concat: bool = True
    negative_slope: Share = 0.2
    # Omitted if false, so that the hashes of GNNs registered before this field existed stay valid.
    edges: bool = Field(
        False,
        description="Whether the layer reads edge attributes, as with PyG's edge_dim.",
        exclude_if=lambda edges: not edges,
    )

    @property
    def width(self) -> int:
        return self.out * self.heads if self.concat else self.out


class GatDocument(_AttentionDocument):
    """PyG's GATConv with self-loops and bias; `out` is the width of one head."""

    type: Literal["gat"]


class GatV2Document(_AttentionDocument):
    """PyG's GATv2Conv with self-loops and biases; `out` is the width of one head."""

    type: Literal["gatv2"]


class PnaDocument(LayerModel):
    """PyG's PNAConv without edge attributes, with one linear layer before and one after."""

    type: Literal["pna"]
    out: Width
    aggregators: Annotated[
        list[Literal["sum", "mean", "min", "max", "std"]], Field(min_length=1, max_length=5)
    ]
    scalers: Annotated[
        list[Literal["identity", "amplification", "attenuation", "linear", "inverse_linear"]],
        Field(min_length=1, max_length=5),
    ]
    towers: Annotated[int, Field(ge=1, le=MAX_TOWERS)] = 1
    divide_input: bool = False

    def tower_width(self, width: int) -> int:
        """Number of the layer's `width` values that each tower gets."""
        return width // self.towers if self.divide_input else width


class TagDocument(LayerModel):
    """PyG's TAGConv: 0 to k hops, each with its own weights."""

    type: Literal["tag"]
    out: Width
    k: Annotated[int, Field(ge=1, le=MAX_HOPS)] = 3
    bias: bool = True


class ChebDocument(LayerModel):
    """PyG's ChebConv with normalisation `sym`: k polynomials, so k - 1 hops."""

    type: Literal["cheb"]
    out: Width
    k: Annotated[int, Field(ge=2, le=MAX_HOPS + 1)]
    bias: bool = True


class EgnnDocument(LayerModel):
    """The energetic GNN (Zhou et al. 2021): [(1 - alpha - beta) P X + alpha X + beta X_0] W.

    P is GCN's propagation matrix; X_0 is the first kept value. The paper's c_min is alpha + beta.
    """

    type: Literal["egnn"]
    out: Width
    alpha: Share
    beta: Share


class AppnpDocument(LayerModel):
    """PyG's APPNP: k times Z = (1 - alpha) P Z + alpha X, P as in GCN; alpha 0 gives P^k X."""

    type: Literal["appnp"]
    k: Annotated[int, Field(ge=1, le=MAX_HOPS)]
    alpha: Share


class LinearDocument(LayerModel):
    type: Literal["linear"]
    out: Width
    bias: bool = True


class ActivationDocument(LayerModel):
    type: Literal["activation"]
    kind: Literal[
        "relu", "leaky_relu", "elu", "selu", "gelu", "silu", "softplus", "tanh", "sigmoid"
    ]
    # Omitted if None, so that the hashes of GNNs registered before this field existed stay valid.
    slope: Share | None = Field(
        None,
        description="Slope of `leaky_relu` below 0; the default is 0.01.",
        exclude_if=lambda slope: slope is None,
    )


class ShiftedReluDocument(LayerModel):
    """max(x, b) with one trained b per value: the activation of the energetic GNN."""

    type: Literal["srelu"]


class DropoutDocument(LayerModel):
    type: Literal["dropout"]
    p: Annotated[float, Field(ge=0, lt=1, strict=False)]


class BatchNormDocument(LayerModel):
    type: Literal["batch_norm"]


class LayerNormDocument(LayerModel):
    """PyG's LayerNorm: over the values of each node, as in torch, or over all values of a graph."""

    type: Literal["layer_norm"]
    mode: Literal["node", "graph"]


class GraphNormDocument(LayerModel):
    """PyG's GraphNorm: normalises each value over the nodes of its graph."""

    type: Literal["graph_norm"]


class PoolDocument(LayerModel):
    """Pools nodes into graphs; `attention` is PyG's AttentionalAggregation with a linear gate."""

    type: Literal["pool"]
    op: Literal["mean", "sum", "max", "attention"]


class KeepDocument(LayerModel):
    """Stores the node values for later `add`, `jump` and `egnn` layers."""

    type: Literal["keep"]


class AddDocument(LayerModel):
    """A residual connection: adds the last kept values, which must have the same width."""

    type: Literal["add"]


class JumpDocument(LayerModel):
    """PyG's JumpingKnowledge over all kept values, in order; it must come before the pool.

    `cat` concatenates; `max` takes the maximum and needs values of one width. The layer's own input
    counts only if it was kept. `last` restricts the layer to the last so many kept values.
    """

    type: Literal["jump"]
    mode: Literal["cat", "max"]
    last: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None,
        description="Number of kept values to join; the default is all.",
        exclude_if=lambda last: last is None,
    )


ConvolutionDocument = (
    GcnDocument
    | GinDocument
    | GinSumDocument
    | GineDocument
    | GineSumDocument
    | SageDocument
    | GraphConvDocument
    | GatDocument
    | GatV2Document
    | PnaDocument
    | TagDocument
    | ChebDocument
    | EgnnDocument
    | AppnpDocument
)
LayerDocument = Annotated[
    ConvolutionDocument
    | LinearDocument
    | ActivationDocument
    | ShiftedReluDocument
    | DropoutDocument
    | BatchNormDocument
    | LayerNormDocument
    | GraphNormDocument
    | PoolDocument
    | KeepDocument
    | AddDocument
    | JumpDocument
    | CombineDocument
    | AffineDocument
    | ConstantDocument
    | ColumnsDocument
    | EmbeddingDocument
    | NormalizeDocument
    | BroadcastDocument,
    Field(discriminator="type"),
]


def reads_edge_attributes(layer: SpecModel) -> bool:
    if isinstance(layer, GatDocument | GatV2Document):
        return layer.edges
    return isinstance(layer, GineDocument | GineSumDocument)


def takes_edge_weights(layer: SpecModel) -> bool:
    """Whether a second input of width 1 may weigh the edges of this layer."""
    if isinstance(layer, GraphConvDocument):
        return layer.aggr == "add"
    return isinstance(layer, GcnDocument | AppnpDocument)
