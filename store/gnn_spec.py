"""The closed vocabulary a GNN is described in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from store.errors import Fault, InvalidInput

MAX_LAYERS = 32
MAX_WIDTH = 1024
MAX_HEADS = 32
# Jumps concatenate, and a jump behind a jump doubles: their width needs a limit of its own.
MAX_JUMP_WIDTH = 8 * MAX_WIDTH
MAX_FEATURES = 65_536  # of any deployment; settings.max_features is the limit of one
MIN_CLASSES, MAX_CLASSES = 2, 256

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


class PoolDocument(Spec):
    type: Literal["pool"]
    op: Literal["mean", "sum", "max"]


class KeepDocument(Spec):
    """Remembers the node values for the jumps behind it."""

    type: Literal["keep"]


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
    | PoolDocument
    | KeepDocument
    | JumpDocument,
    Field(discriminator="type"),
]
_CONVOLUTIONS = ("gcn", "gin", "sage", "graph_conv", "gat", "gatv2")
_ON_NODES = (*_CONVOLUTIONS, "keep", "jump")
_SETTING_WIDTH = (*_CONVOLUTIONS, "linear", "jump")
# Printable, so that names can be shown, logged and stored anywhere.
ClassName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


class GnnSpecDocument(Spec):
    """A graph classifier: convolutions, one pooling, then a head that ends in the classes."""

    features: Annotated[int, Field(ge=1, le=MAX_FEATURES)]
    classes: Annotated[int, Field(ge=MIN_CLASSES, le=MAX_CLASSES)]
    layers: Annotated[list[LayerDocument], Field(min_length=2, max_length=MAX_LAYERS)]
    class_names: list[ClassName] | None = None

    @model_validator(mode="after")
    def _is_a_classifier(self) -> Self:
        for fault in structure_faults(self):
            raise PydanticCustomError(
                "structure", "{detail}", {"detail": fault.detail, "pointer": fault.pointer}
            )
        return self


def structure_faults(spec: GnnSpecDocument) -> list[Fault]:
    """What keeps well-formed layers from being a graph classifier."""
    faults = []
    pools = [i for i, layer in enumerate(spec.layers) if layer.type == "pool"]
    if len(pools) != 1:
        faults.append(
            Fault(
                "/layers",
                f"has {len(pools)} pool layers; a GNN has exactly one pool layer "
                "(node classifiers, which have none, are not accepted yet)",
            )
        )
    faults += [
        Fault(f"/layers/{i}", f"{layer.type} at position {i} comes after the pool; "
              "convolutions, keeps and jumps must come before it")
        for i, layer in enumerate(spec.layers)
        if layer.type in _ON_NODES and pools and i > pools[0]
    ]  # fmt: skip
    faults += [
        Fault(f"/layers/{i}/heads", f"{layer.heads} heads of {layer.out} values are "
              f"{layer.heads * layer.out} values; all heads together have at most {MAX_WIDTH}")
        for i, layer in enumerate(spec.layers)
        if isinstance(layer, GatDocument | GatV2Document) and layer.heads * layer.out > MAX_WIDTH
    ]  # fmt: skip
    faults += _jump_faults(spec)
    widening = [i for i, layer in enumerate(spec.layers) if layer.type in _SETTING_WIDTH]
    last = spec.layers[widening[-1]] if widening else None
    if not isinstance(last, LinearDocument):
        place = f"/layers/{widening[-1]}" if widening else "/layers"
        found = f"is {last.type}" if last else "is missing"
        faults.append(
            Fault(place, f"the last layer that changes the width {found}; it must be linear")
        )
    elif last.out != spec.classes:
        faults.append(
            Fault(
                f"/layers/{widening[-1]}/out",
                f"the last linear layer gives {last.out} values but classes is {spec.classes}; "
                "they must be equal",
            )
        )
    if spec.class_names is not None and len(spec.class_names) != spec.classes:
        faults.append(
            Fault("/class_names", f"has {len(spec.class_names)} names for {spec.classes} classes")
        )
    return faults


def _jump_faults(spec: GnnSpecDocument) -> list[Fault]:
    """Jumps that have nothing to join, or that would join it to something impossible."""
    faults = []
    widths = widths_of(spec)
    kept: list[int] = []
    for i, layer in enumerate(spec.layers):
        if isinstance(layer, KeepDocument):
            kept.append(widths[i])
        if not isinstance(layer, JumpDocument):
            continue
        place = f"/layers/{i}"
        if not kept:
            faults.append(Fault(place, f"jump at position {i} has no keep before it"))
        elif layer.mode == "max" and len(set(kept)) > 1:
            said = "max needs kept values of one width"
            faults.append(Fault(f"{place}/mode", f"{said}; the widths are {_listed(kept)}"))
        elif widths[i + 1] > MAX_JUMP_WIDTH:
            said = f"the kept widths {_listed(kept)} give {widths[i + 1]} values per node"
            faults.append(Fault(place, f"{said}; a jump gives at most {MAX_JUMP_WIDTH}"))
    return faults


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers)


def widths_of(spec: GnnSpecDocument) -> list[int]:
    """How many numbers per row enter each layer, and at the end how many leave the last one."""
    widths = [spec.features]
    kept: list[int] = []
    for layer in spec.layers:
        width = widths[-1]
        match layer:
            case GcnDocument() | GinDocument() | SageDocument() | GraphConvDocument():
                width = layer.out
            case LinearDocument():
                width = layer.out
            case GatDocument() | GatV2Document():
                width = layer.width
            case KeepDocument():
                kept.append(width)
            case JumpDocument(mode="cat"):
                width = sum(kept)
            case JumpDocument(mode="max"):
                width = max(kept, default=0)
            case _:
                pass
        widths.append(width)
    return widths


def parse_spec(
    document: object, *, max_features: int = MAX_FEATURES, pointer: str = ""
) -> GnnSpecDocument:
    """Checks a parsed JSON document; InvalidInput names every place that is wrong."""
    try:
        spec = GnnSpecDocument.model_validate(document)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)[:20]
        faults = [_fault(detail, document, pointer) for detail in details]
        message = f"{faults[0].pointer or '/'}: {faults[0].detail}"
        raise InvalidInput(message, faults[0].pointer, faults=faults) from None
    if spec.features > max_features:
        raise InvalidInput(
            f"features is {spec.features}; this deployment accepts at most {max_features}",
            f"{pointer}/features",
            allowed=max_features,
        )
    return spec


def _fault(detail: ErrorDetails, document: object, prefix: str) -> Fault:
    if detail["type"] == "structure":
        return Fault(f"{prefix}{detail['ctx']['pointer']}", detail["msg"])
    place, sent = _found(detail["loc"], document)
    steps = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in place)
    return Fault(f"{prefix}{steps}", f"{detail['msg']}{_shown(sent)}")


def _found(loc: Sequence[int | str], document: object) -> tuple[list[int | str], object]:
    """The place in the document and what is there.

    Pydantic also names the branch of a union, which is not a part of the document.
    """
    place: list[int | str] = []
    here: Any = document
    for position, part in enumerate(loc):
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            if position < len(loc) - 1:
                continue
            here = None  # a field that is missing
        place.append(part)
    return place, here


def _shown(value: object) -> str:
    """Short plain values are repeated to the sender; anything else is not echoed."""
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 10**12):
        return f" (sent: {value})"
    if isinstance(value, str) and len(value) <= 40:
        return f" (sent: {value!r})"
    return ""
