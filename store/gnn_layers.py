"""The layers that a GNN may be described with."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_WIDTH = 1024
MAX_HEADS = 32

Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]


class Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class GcnDocument(Spec):
    """PyG's GCNConv: self-loops, symmetric normalisation, bias."""

    type: Literal["gcn"]
    out: Width


class GinDocument(Spec):
    """PyG's GINConv around Linear, ReLU, Linear."""

    type: Literal["gin"]
    out: Width
    hidden: Width
    train_eps: bool = False


class SageDocument(Spec):
    """PyG's SAGEConv: mean or maximum of the neighbours, a weight for the node itself."""

    type: Literal["sage"]
    out: Width
    bias: bool = True
    aggr: Literal["mean", "max"] = "mean"


class GraphConvDocument(Spec):
    """PyG's GraphConv: sum, mean or maximum of the neighbours, a weight for the node itself."""

    type: Literal["graph_conv"]
    out: Width
    bias: bool = True
    aggr: Literal["add", "mean", "max"] = "add"


class _AttentionDocument(Spec):
    out: Width
    heads: Annotated[int, Field(ge=1, le=MAX_HEADS)] = 1
    concat: bool = True
    negative_slope: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.2

    @property
    def width(self) -> int:
        return self.out * self.heads if self.concat else self.out


class GatDocument(_AttentionDocument):
    """PyG's GATConv with self-loops and bias; `out` is the width of one head."""

    type: Literal["gat"]


class GatV2Document(_AttentionDocument):
    """PyG's GATv2Conv with self-loops and biases; `out` is the width of one head."""

    type: Literal["gatv2"]


class LinearDocument(Spec):
    type: Literal["linear"]
    out: Width
    bias: bool = True


class ActivationDocument(Spec):
    type: Literal["activation"]
    kind: Literal["relu", "leaky_relu", "elu", "gelu", "tanh", "sigmoid"]


class DropoutDocument(Spec):
    type: Literal["dropout"]
    p: Annotated[float, Field(ge=0, lt=1, strict=False)]


class BatchNormDocument(Spec):
    type: Literal["batch_norm"]


class LayerNormDocument(Spec):
    """PyG's LayerNorm: over each node's values, as torch's, or over all values of a graph."""

    type: Literal["layer_norm"]
    mode: Literal["node", "graph"]


class GraphNormDocument(Spec):
    """PyG's GraphNorm: each value over the nodes of its graph."""

    type: Literal["graph_norm"]


class PoolDocument(Spec):
    """From nodes to graphs; `attention` is PyG's AttentionalAggregation with a linear gate."""

    type: Literal["pool"]
    op: Literal["mean", "sum", "max", "attention"]


class KeepDocument(Spec):
    """Remembers the node values for the jumps and additions behind it."""

    type: Literal["keep"]


class AddDocument(Spec):
    """A residual connection: adds what was kept last, which has the same width."""

    type: Literal["add"]


class JumpDocument(Spec):
    """PyG's JumpingKnowledge of everything kept so far, in order; before the pool.

    `cat` concatenates, `max` takes the maximum of values of one width. What the layer itself gets
    counts only if it was kept.
    """

    type: Literal["jump"]
    mode: Literal["cat", "max"]


ConvolutionDocument = (
    GcnDocument | GinDocument | SageDocument | GraphConvDocument | GatDocument | GatV2Document
)
LayerDocument = Annotated[
    ConvolutionDocument
    | LinearDocument
    | ActivationDocument
    | DropoutDocument
    | BatchNormDocument
    | LayerNormDocument
    | GraphNormDocument
    | PoolDocument
    | KeepDocument
    | AddDocument
    | JumpDocument,
    Field(discriminator="type"),
]
