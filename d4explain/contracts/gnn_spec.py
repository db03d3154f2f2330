"""What a GNN is described with: layers of a closed vocabulary that make a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from d4explain.contracts.errors import Fault, InvalidInput, pointer
from d4explain.contracts.feature_schema import FeatureSchemaDocument, schema_faults
from d4explain.contracts.featurisers import SmilesFeaturiser, bond_faults, featuriser_faults
from d4explain.contracts.gnn_layers import (
    MAX_WIDTH,
    STORED,
    ActivationDocument,
    AddDocument,
    ChebDocument,
    EgnnDocument,
    GatDocument,
    GatV2Document,
    GcnDocument,
    GinDocument,
    GineDocument,
    GineSumDocument,
    GraphConvDocument,
    JumpDocument,
    KeepDocument,
    LayerNormDocument,
    LinearDocument,
    PluggedDocument,
    PnaDocument,
    SageDocument,
    Spec,
    SpecLayer,
    TagDocument,
    reads_edge_attributes,
)
from d4explain.contracts.plugins import ArchitecturePlugin, LayerPlugin

MAX_LAYERS = 64
# Jumps concatenate, and a jump behind a jump doubles: their width needs a limit of its own.
MAX_JUMP_WIDTH = 8 * MAX_WIDTH
MAX_FEATURES = 65_536  # of any deployment; settings.max_features is the limit of one
MAX_EDGE_FEATURES = 64  # of one edge; they are held for every pair of nodes
MIN_CLASSES, MAX_CLASSES = 2, 256

_CONVOLUTIONS = (
    "gcn", "gin", "gine", "sage", "graph_conv", "gat", "gatv2", "pna", "tag", "cheb", "egnn",
)  # fmt: skip
_ON_NODES = (*_CONVOLUTIONS, "gin_sum", "gine_sum", "keep", "add", "jump")
_SETTING_WIDTH = (*_CONVOLUTIONS, "linear", "jump")
# Printable, so that names can be shown, logged and stored anywhere.
ClassName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


class GnnSpecDocument(Spec):
    """A classifier of graphs: convolutions, one pooling, then a head that ends in the classes.

    With `task` `node` one of nodes: without pooling, it ends in the classes of every node. With
    `head` `binary` it ends in one value z for two classes, whose logits are 0 and z.
    """

    task: Literal["graph", "node"] = "graph"
    head: Literal["softmax", "binary"] = "softmax"
    features: Annotated[int, Field(ge=1, le=MAX_FEATURES)]
    classes: Annotated[int, Field(ge=MIN_CLASSES, le=MAX_CLASSES)]
    layers: Annotated[list[SpecLayer], Field(min_length=1, max_length=MAX_LAYERS)]
    class_names: list[ClassName] | None = None
    feature_schema: FeatureSchemaDocument | None = None
    featuriser: SmilesFeaturiser | None = None
    # Left out of documents and hashes where there are none, as before there could be any.
    edge_features: Annotated[int, Field(ge=0, le=MAX_EDGE_FEATURES)] = Field(
        0,
        description="Numbers per edge, for GNNs with layers that read them.",
        exclude_if=lambda count: count == 0,
    )

    @model_validator(mode="after")
    def _is_a_classifier(self) -> Self:
        for fault in structure_faults(self):
            raise PydanticCustomError(
                "structure", "{detail}", {"detail": fault.detail, "pointer": fault.pointer}
            )
        return self


class AskedSpecDocument(Spec):
    """What goes into a GNN that is asked by URL, and what comes out: it has no layers here."""

    features: Annotated[int, Field(ge=1, le=MAX_FEATURES)]
    classes: Annotated[int, Field(ge=MIN_CLASSES, le=MAX_CLASSES)]
    class_names: list[ClassName] | None = None
    feature_schema: FeatureSchemaDocument | None = None
    featuriser: SmilesFeaturiser | None = None


def structure_faults(spec: GnnSpecDocument) -> list[Fault]:
    """What keeps well-formed layers from being a classifier."""
    plugged = [layer for layer in spec.layers if isinstance(layer, PluggedDocument)]
    if not all(layer.is_installed for layer in plugged):
        return []  # only a stored spec has such layers; it was checked when it came
    if faults := _plugged_faults(spec):
        return faults
    faults = _graph_faults(spec) if spec.task == "graph" else _node_faults(spec)
    faults += [
        Fault(f"/layers/{i}/heads", f"{layer.heads} heads of {layer.out} values are "
              f"{layer.heads * layer.out} values; all heads together have at most {MAX_WIDTH}")
        for i, layer in enumerate(spec.layers)
        if isinstance(layer, GatDocument | GatV2Document) and layer.heads * layer.out > MAX_WIDTH
    ]  # fmt: skip
    faults += _slope_faults(spec)
    faults += _pna_faults(spec)
    faults += _egnn_faults(spec)
    faults += _kept_faults(spec)
    faults += _ending_faults(spec)
    faults += _edge_faults(spec)
    if spec.class_names is not None and len(spec.class_names) != spec.classes:
        faults.append(
            Fault("/class_names", f"has {len(spec.class_names)} names for {spec.classes} classes")
        )
    if spec.feature_schema is not None:
        faults += schema_faults(spec.feature_schema, spec.features, "/feature_schema")
    if spec.featuriser is not None:
        faults += featuriser_faults(spec.featuriser, spec.features, "/featuriser")
        faults += bond_faults(spec.featuriser, spec.edge_features, "/featuriser")
    return faults


def _slope_faults(spec: GnnSpecDocument) -> list[Fault]:
    sloped = [
        (i, layer.kind)
        for i, layer in enumerate(spec.layers)
        if isinstance(layer, ActivationDocument) and layer.slope is not None
    ]
    return [
        Fault(f"/layers/{i}/slope", f"is for leaky_relu only, not for {kind}")
        for i, kind in sloped
        if kind != "leaky_relu"
    ]


def _graph_faults(spec: GnnSpecDocument) -> list[Fault]:
    pools = _pools(spec)
    faults = []
    if len(pools) != 1:
        hint = "" if pools else '; for a node classifier, which has none, say "task": "node"'
        faults.append(
            Fault(
                "/layers",
                f"has {len(pools)} pool layers; a graph classifier has exactly one{hint}",
            )
        )
    faults += [
        Fault(f"/layers/{i}", f"{layer.type} at position {i} comes after the pool; "
              "what needs nodes must come before it")
        for i, layer in enumerate(spec.layers)
        if (_needs_nodes(layer) or _spans_graph(layer)) and pools and i > pools[0]
    ]  # fmt: skip
    return faults


def _node_faults(spec: GnnSpecDocument) -> list[Fault]:
    faults = [
        Fault(f"/layers/{i}", "is a pool; the task is node, and a node classifier has none")
        for i in _pools(spec)
    ]
    faults += [
        Fault(f"/layers/{i}", f"{layer.type} at position {i} reads the whole graph; "
              "a node classifier must answer from a node's neighbourhood")
        for i, layer in enumerate(spec.layers)
        if _spans_graph(layer)
    ]  # fmt: skip
    return faults


def _ending_faults(spec: GnnSpecDocument) -> list[Fault]:
    """The last layer that changes the width gives the classes."""
    widening = [i for i, layer in enumerate(spec.layers) if _sets_width(layer)]
    last = spec.layers[widening[-1]] if widening else None
    of_nodes = spec.task == "node"
    if isinstance(last, PluggedDocument) and last.is_architecture:
        return []
    ends = isinstance(last, PluggedDocument) or (last is not None and last.type in _CONVOLUTIONS)
    if last is None or not (last.type == "linear" or (of_nodes and ends)):
        place = f"/layers/{widening[-1]}" if widening else "/layers"
        found = f"is {last.type}" if last else "is missing"
        allowed = "linear or a convolution" if of_nodes else "linear"
        said = f"the last layer that changes the width {found}; it must be {allowed}"
        return [Fault(place, said)]
    width = widths_of(spec)[-1]
    gives = f"the last {last.type} layer gives {width} values"
    if spec.head == "binary":
        if spec.classes != 2:
            return [Fault("/classes", f"is {spec.classes}; a binary head has 2 classes")]
        if width != 1:
            return [Fault(f"/layers/{widening[-1]}/out", f"{gives}; a binary head gives 1")]
    elif width != spec.classes:
        said = f"{gives} but classes is {spec.classes}; they must be equal"
        hint = '; for one logit of two classes say "head": "binary"' if width == 1 else ""
        return [Fault(f"/layers/{widening[-1]}/out", said + hint)]
    return []


def _sets_width(layer: SpecLayer) -> bool:
    return layer.type in _SETTING_WIDTH or isinstance(layer, PluggedDocument)


def _plugged_faults(spec: GnnSpecDocument) -> list[Fault]:
    """What plug-ins themselves have to say, and whole GNNs that are not alone."""
    faults = []
    for i, layer in enumerate(spec.layers):
        if not isinstance(layer, PluggedDocument):
            continue
        if isinstance(layer.plugin, ArchitecturePlugin):
            if len(spec.layers) > 1:
                said = f"{layer.type} is a whole GNN; it must be the only layer"
                faults.append(Fault(f"/layers/{i}", said))
            elif layer.plugin.task != spec.task:
                said = f"is {spec.task}, but {layer.type} classifies {layer.plugin.task}s"
                faults.append(Fault("/task", said))
            continue
        try:
            width = widths_of(spec.model_copy(update={"layers": spec.layers[: i + 1]}))[-1]
        except ValueError as error:
            return [*faults, Fault(f"/layers/{i}", f"{layer.type}: {error}")]
        if not 1 <= width <= MAX_WIDTH:
            said = f"{layer.type} gives {width} values per node; 1 to {MAX_WIDTH} are accepted"
            faults.append(Fault(f"/layers/{i}", said))
    return faults


def _pna_faults(spec: GnnSpecDocument) -> list[Fault]:
    faults = []
    for i, (layer, width) in enumerate(zip(spec.layers, widths_of(spec), strict=False)):
        if not isinstance(layer, PnaDocument):
            continue
        for field in ("aggregators", "scalers"):
            words = getattr(layer, field)
            if len(set(words)) < len(words):
                said = f"{', '.join(words)}: each may be there once"
                faults.append(Fault(f"/layers/{i}/{field}", said))
        place, said = f"/layers/{i}/towers", f"{layer.towers} towers"
        if layer.out % layer.towers:
            faults.append(Fault(place, f"{said} cannot share the {layer.out} values of out"))
        if layer.divide_input and width % layer.towers:
            faults.append(Fault(place, f"{said} cannot divide the {width} values they get"))
    return faults


def _egnn_faults(spec: GnnSpecDocument) -> list[Fault]:
    return [
        Fault(f"/layers/{i}/beta", f"alpha {layer.alpha} and beta {layer.beta} are together more "
              "than 1, and nothing is left for the neighbours")
        for i, layer in enumerate(spec.layers)
        if isinstance(layer, EgnnDocument) and layer.alpha + layer.beta > 1
    ]  # fmt: skip


def _edge_faults(spec: GnnSpecDocument) -> list[Fault]:
    """Edge attributes that nobody reads, that are not there, or that do not fit."""
    reading = [i for i, layer in enumerate(spec.layers) if reads_edge_attributes(layer)]
    sent = spec.edge_features
    if sent and not reading:
        said = f"is {sent}, but no layer reads edge attributes"
        hint = "gine and gine_sum do, and gat and gatv2 with edges"
        return [Fault("/edge_features", f"{said}; {hint}")]
    if reading and not sent:
        said = f"is 0, but {spec.layers[reading[0]].type} at position {reading[0]} reads"
        return [Fault("/edge_features", f"{said} edge attributes")]
    return [
        Fault(f"/layers/{i}/project", f"is false, so {sent} edge attributes would be added to "
              f"{width} values; they must be equally many")
        for i, (layer, width) in enumerate(zip(spec.layers, widths_of(spec), strict=False))
        if isinstance(layer, GineDocument | GineSumDocument)
        and not layer.project and width != sent
    ]  # fmt: skip


def _pools(spec: GnnSpecDocument) -> list[int]:
    return [i for i, layer in enumerate(spec.layers) if _is_pool(layer)]


def _is_pool(layer: SpecLayer) -> bool:
    if isinstance(layer, PluggedDocument):
        return isinstance(layer.plugin, ArchitecturePlugin) and layer.plugin.task == "graph"
    return layer.type == "pool"


def _needs_nodes(layer: SpecLayer) -> bool:
    return layer.type in _ON_NODES or isinstance(layer, PluggedDocument)


def _spans_graph(layer: SpecLayer) -> bool:
    """Whether every node's values come from all nodes of the graph."""
    if isinstance(layer, PluggedDocument):
        return layer.plugin.hops(layer.fields) is None
    over_graph = isinstance(layer, LayerNormDocument) and layer.mode == "graph"
    return over_graph or layer.type == "graph_norm"


def _kept_faults(spec: GnnSpecDocument) -> list[Fault]:
    """What reads kept values and finds none, or none that it can be joined with."""
    faults = []
    widths = widths_of(spec)
    kept: list[int] = []
    for i, layer in enumerate(spec.layers):
        if isinstance(layer, KeepDocument):
            kept.append(widths[i])
        if not isinstance(layer, JumpDocument | AddDocument | EgnnDocument):
            continue
        place = f"/layers/{i}"
        if not kept:
            faults.append(Fault(place, f"{layer.type} at position {i} has no keep before it"))
        elif isinstance(layer, AddDocument):
            if kept[-1] != widths[i]:
                said = f"add gets {widths[i]} values per node but {kept[-1]} were kept last"
                faults.append(Fault(place, f"{said}; they must be equal"))
        elif isinstance(layer, EgnnDocument):
            if kept[0] != widths[i]:
                said = f"egnn gets {widths[i]} values per node but {kept[0]} were kept first"
                faults.append(Fault(place, f"{said}; they must be equal"))
        else:
            faults += _jump_faults(layer, kept, widths[i + 1], place)
    return faults


def _jump_faults(layer: JumpDocument, kept: Sequence[int], gives: int, place: str) -> list[Fault]:
    if layer.last is not None and layer.last > len(kept):
        return [Fault(f"{place}/last", f"is {layer.last}, but {len(kept)} values were kept")]
    joined = layer.joined(kept)
    if layer.mode == "max" and len(set(joined)) > 1:
        said = "max needs kept values of one width"
        return [Fault(f"{place}/mode", f"{said}; the widths are {_listed(joined)}")]
    if gives > MAX_JUMP_WIDTH:
        said = f"the kept widths {_listed(joined)} give {gives} values per node"
        return [Fault(place, f"{said}; a jump gives at most {MAX_JUMP_WIDTH}")]
    return []


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers)


def widths_of(spec: GnnSpecDocument) -> list[int]:
    """How many numbers per row enter each layer, and at the end how many leave the last one."""
    widths = [spec.features]
    kept: list[int] = []
    for layer in spec.layers:
        width = widths[-1]
        match layer:
            case GatDocument() | GatV2Document():
                width = layer.width
            case GcnDocument() | GinDocument() | SageDocument() | GraphConvDocument():
                width = layer.out
            case GineDocument():
                width = layer.out
            case PnaDocument() | TagDocument() | ChebDocument() | EgnnDocument():
                width = layer.out
            case LinearDocument():
                width = layer.out
            case KeepDocument():
                kept.append(width)
            case JumpDocument(mode="cat"):
                width = sum(layer.joined(kept))
            case JumpDocument(mode="max"):
                width = max(layer.joined(kept), default=0)
            case PluggedDocument(plugin=LayerPlugin() as plugin):
                width = plugin.width(layer.fields, width)
            case PluggedDocument():
                width = outputs_of(spec)
            case _:
                pass
        widths.append(width)
    return widths


def outputs_of(spec: GnnSpecDocument) -> int:
    """How many values the last layer gives."""
    return 1 if spec.head == "binary" else spec.classes


def stored_spec(document: object) -> GnnSpecDocument:
    """A spec that was accepted before; plug-ins that are gone since are shown as they were."""
    return GnnSpecDocument.model_validate(document, context=STORED)


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
    return Fault(f"{prefix}{pointer(*place)}", f"{detail['msg']}{_shown(sent)}")


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
