"""The values that the layers of a spec read, by number, and the widths of these values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from d4explain.contracts.errors import Fault
from d4explain.contracts.gnn_layers import (
    AppnpDocument,
    ConvolutionDocument,
    GatDocument,
    GatV2Document,
    GineSumDocument,
    GinSumDocument,
    JumpDocument,
    LayerNormDocument,
    LinearDocument,
    reads_edge_attributes,
    takes_edge_weights,
)
from d4explain.contracts.plugins import ArchitecturePlugin, LayerPlugin
from d4explain.contracts.spec_checks.layer_types import PluginDocument, SpecLayer
from d4explain.contracts.vocabulary.operations import (
    ColumnsDocument,
    CombineDocument,
    ConstantDocument,
    EmbeddingDocument,
)
from d4explain.contracts.vocabulary.spec_model import INPUT_NAMES
from d4explain.layer_graph import (
    EDGE_ATTRIBUTES,
    FEATURES,
    Inputs,
    LayerNode,
    Role,
    resolve_inputs,
)

if TYPE_CHECKING:
    from d4explain.contracts.gnn_spec import GnnSpecDocument

_ROLES: dict[str, Role] = {
    "keep": "keep",
    "add": "add",
    "jump": "jump",
    "egnn": "first_kept",
    "combine": "join",
    "constant": "constant",
    "broadcast": "broadcast",
}
_NUMBERS = dict(zip(INPUT_NAMES, (FEATURES, EDGE_ATTRIBUTES), strict=True))


def name_faults(spec: GnnSpecDocument) -> Iterator[Fault]:
    """Names that are given twice, and inputs that no earlier layer has."""
    known = set(INPUT_NAMES)
    for i, layer in enumerate(spec.layers):
        for k, name in enumerate(layer.inputs or []):
            if name not in known:
                detail = f"{name!r} is not the name of an earlier layer, {' or '.join(INPUT_NAMES)}"
                yield Fault(f"/layers/{i}/inputs/{k}", detail)
        if layer.name is None:
            continue
        if layer.name in known:
            yield Fault(f"/layers/{i}/name", f"{layer.name!r} is the name of another value")
        known.add(layer.name)


def nodes_of(spec: GnnSpecDocument) -> list[LayerNode]:
    """The layers as nodes of a graph; their inputs must have valid names."""
    numbers = dict(_NUMBERS)
    nodes = []
    for position, layer in enumerate(spec.layers):
        inputs = None
        if layer.inputs is not None:
            inputs = tuple(numbers[name] for name in layer.inputs)
        nodes.append(
            LayerNode(
                role_of(layer),
                inputs,
                reads_edges=reads_edge_attributes(layer),
                last=layer.last if isinstance(layer, JumpDocument) else None,
                takes_weights=takes_edge_weights(layer),
            )
        )
        if layer.name is not None:
            numbers[layer.name] = position + 1
    return nodes


def role_of(layer: SpecLayer) -> Role:
    if is_pool(layer):
        return "pool"
    needs_nodes = isinstance(layer, ConvolutionDocument | PluginDocument)
    is_nodes = needs_nodes or reads_whole_graph(layer)
    return _ROLES.get(layer.type, "nodes" if is_nodes else "rows")


def is_pool(layer: SpecLayer) -> bool:
    if isinstance(layer, PluginDocument):
        return isinstance(layer.plugin, ArchitecturePlugin) and layer.plugin.task == "graph"
    return layer.type == "pool"


def reads_whole_graph(layer: SpecLayer) -> bool:
    if isinstance(layer, PluginDocument):
        return layer.plugin.hops(layer.fields) is None
    if isinstance(layer, LayerNormDocument):
        return layer.mode == "graph"
    return layer.type in ("graph_norm", "broadcast")


def inputs_of(spec: GnnSpecDocument) -> tuple[Inputs, ...]:
    """The values that each layer reads."""
    return resolve_inputs(nodes_of(spec))


def widths_of(spec: GnnSpecDocument) -> dict[int, int]:
    """The width of each value; the output is that of the last layer."""
    widths = {EDGE_ATTRIBUTES: spec.edge_features, FEATURES: spec.features}
    for position, (layer, read) in enumerate(zip(spec.layers, inputs_of(spec), strict=True)):
        own = [widths.get(value, 0) for value in read]
        widths[position + 1] = _output_width(layer, own, outputs_of(spec))
    return widths


def input_widths(spec: GnnSpecDocument) -> list[list[int]]:
    """The widths of the values that each layer reads."""
    widths = widths_of(spec)
    return [[widths[value] for value in read] for read in inputs_of(spec)]


def outputs_of(spec: GnnSpecDocument) -> int:
    """The number of values that the last layer must return."""
    return 1 if spec.head == "binary" else spec.classes


def _output_width(layer: SpecLayer, widths: Sequence[int], outputs: int) -> int:
    width = widths[0] if widths else 0
    match layer:
        case GatDocument() | GatV2Document():
            width = layer.width
        case GinSumDocument() | GineSumDocument() | AppnpDocument():
            pass
        case LinearDocument() | ConstantDocument() | EmbeddingDocument():
            width = layer.out
        case ColumnsDocument():
            width = layer.stop - layer.start
        case JumpDocument(mode="cat") | CombineDocument(op="concat"):
            width = sum(widths)
        case JumpDocument() | CombineDocument():
            width = max(widths, default=0)
        case PluginDocument(plugin=LayerPlugin() as plugin):
            width = plugin.width(layer.fields, width)
        case PluginDocument():
            width = outputs
        case _ if isinstance(layer, ConvolutionDocument):
            width = layer.out
        case _:
            pass
    return width
