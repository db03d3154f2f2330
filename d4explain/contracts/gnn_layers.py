"""The layers that a GNN may be described with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from d4explain.contracts.errors import PluginError
from d4explain.contracts.plugins import (
    BLACK_BOX,
    ArchitecturePlugin,
    Fields,
    LayerPlugin,
    installed,
)

MAX_WIDTH = 1024
MAX_HEADS = 32
MAX_TOWERS = 32
MAX_HOPS = 16  # of one layer

Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]
Share = Annotated[float, Field(ge=0, le=1, strict=False)]


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


class GinSumDocument(Spec):
    """What PyG's GINConv gives to its nn: own values times 1 + eps and the sum of the neighbours.

    A GIN around anything but Linear, ReLU, Linear is this layer and its nn as layers behind it.
    """

    type: Literal["gin_sum"]
    train_eps: bool = False


class GineDocument(Spec):
    """PyG's GINEConv around Linear, ReLU, Linear; it reads the edges' attributes.

    With `project` they go through a linear layer first; without, they are as wide as the values.
    """

    type: Literal["gine"]
    out: Width
    hidden: Width
    train_eps: bool = False
    project: bool = True


class GineSumDocument(Spec):
    """What PyG's GINEConv gives to its nn, as `gin_sum` is to `gin`."""

    type: Literal["gine_sum"]
    train_eps: bool = False
    project: bool = True


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
    # Left out of documents and hashes where it is false, as before it could be true.
    edges: bool = Field(
        False,
        description="Whether edge attributes are read, as with PyG's edge_dim.",
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


class PnaDocument(Spec):
    """PyG's PNAConv without edge attributes, with one linear layer before and one behind."""

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
        """How many of the layer's `width` values each tower gets."""
        return width // self.towers if self.divide_input else width


class TagDocument(Spec):
    """PyG's TAGConv: 0 to k hops, each with a weight of its own."""

    type: Literal["tag"]
    out: Width
    k: Annotated[int, Field(ge=1, le=MAX_HOPS)] = 3
    bias: bool = True


class ChebDocument(Spec):
    """PyG's ChebConv with normalisation `sym`: k polynomials, hence k - 1 hops."""

    type: Literal["cheb"]
    out: Width
    k: Annotated[int, Field(ge=2, le=MAX_HOPS + 1)]
    bias: bool = True


class EgnnDocument(Spec):
    """The energetic GNN (Zhou et al. 2021): [(1 - alpha - beta) P X + alpha X + beta X_0] W.

    P is GCN's; X_0 is what was kept first. The paper's c_min is alpha + beta.
    """

    type: Literal["egnn"]
    out: Width
    alpha: Share
    beta: Share


class LinearDocument(Spec):
    type: Literal["linear"]
    out: Width
    bias: bool = True


class ActivationDocument(Spec):
    type: Literal["activation"]
    kind: Literal[
        "relu", "leaky_relu", "elu", "selu", "gelu", "silu", "softplus", "tanh", "sigmoid"
    ]
    # Left out of documents and hashes where it is not given, as before it could be.
    slope: Share | None = Field(
        None,
        description="Of `leaky_relu` below 0; 0.01 if not given.",
        exclude_if=lambda slope: slope is None,
    )


class ShiftedReluDocument(Spec):
    """max(x, b) with a trained b for each value: the energetic GNN's activation."""

    type: Literal["srelu"]


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
    counts only if it was kept. `last` joins only so many of the kept values, the latest ones.
    """

    type: Literal["jump"]
    mode: Literal["cat", "max"]
    last: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None,
        description="How many of the kept values are joined; all, if not given.",
        exclude_if=lambda last: last is None,
    )

    def joined(self, kept: Sequence[int]) -> list[int]:
        return list(kept if self.last is None else kept[-self.last :])


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
    | JumpDocument,
    Field(discriminator="type"),
]


class PluggedDocument(Spec):
    """A layer or a whole GNN of a plug-in; beside `type` it has the plug-in's own fields."""

    model_config = ConfigDict(extra="allow")

    type: str

    @property
    def is_installed(self) -> bool:
        return self.type in installed()

    @property
    def plugin(self) -> LayerPlugin | ArchitecturePlugin:
        return installed()[self.type].plugin

    @property
    def fields(self) -> Fields:
        return self.plugin.fields.model_validate(self.model_extra)

    @property
    def is_architecture(self) -> bool:
        return isinstance(self.plugin, ArchitecturePlugin)


def reads_edge_attributes(layer: Spec) -> bool:
    attending = isinstance(layer, GatDocument | GatV2Document) and layer.edges
    return attending or isinstance(layer, GineDocument | GineSumDocument)


BUILT_IN: frozenset[str] = frozenset(
    get_args(layer.model_fields["type"].annotation)[0]
    for layer in get_args(get_args(LayerDocument)[0])
)
_BUILT_IN: TypeAdapter[Any] = TypeAdapter(LayerDocument)


def check_plugins() -> None:
    """Raises PluginError if a plug-in of this environment is broken or takes a name of ours."""
    for name in sorted(BUILT_IN & installed().keys()):
        raise PluginError(name, "a layer of the vocabulary has this name")


# In the context of a validation: the spec was accepted once, and what is gone since is no fault.
STORED = {"stored": True}


def _read(value: object, _: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
    """By the type that is named: of the vocabulary, else of a plug-in."""
    name = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(name, str) or name in BUILT_IN:
        return value if isinstance(value, Spec) else _BUILT_IN.validate_python(value)
    if name in installed():
        sent = {key: entry for key, entry in value.items() if key != "type"}
        fields = installed()[name].plugin.fields.model_validate(sent)
        return PluggedDocument(type=name, **fields.model_dump(mode="json"))
    if info.context == STORED:
        return PluggedDocument(**value)
    plugged = sorted(installed().keys() - {BLACK_BOX})
    known = [*sorted(BUILT_IN), *(f"{other} (plug-in)" for other in plugged)]
    raise PydanticCustomError(
        "layer_type",
        "type {name} is not known to this deployment; it knows {known}",
        {"name": repr(name[:40]), "known": ", ".join(known)},
    )


SpecLayer = Annotated[LayerDocument | SkipJsonSchema[PluggedDocument], WrapValidator(_read)]
