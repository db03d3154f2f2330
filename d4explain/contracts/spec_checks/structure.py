"""Checks that the layers of a spec form a classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from d4explain.contracts.errors import Fault
from d4explain.contracts.features.feature_schema import schema_faults
from d4explain.contracts.features.featurisers import bond_faults, featuriser_faults
from d4explain.contracts.gnn_layers import ConvolutionDocument
from d4explain.contracts.plugins import ArchitecturePlugin
from d4explain.contracts.spec_checks.layer_fields import edge_faults, field_faults, kept_faults
from d4explain.contracts.spec_checks.layer_types import PluginDocument, SpecLayer
from d4explain.contracts.spec_checks.wiring import (
    inputs_of,
    is_pool,
    name_faults,
    nodes_of,
    reads_whole_graph,
    widths_of,
)
from d4explain.contracts.vocabulary.spec_model import MAX_WIDTH
from d4explain.layer_graph import graph_problems, rows_of_values

if TYPE_CHECKING:
    from d4explain.contracts.gnn_spec import GnnSpecDocument

_CHANGE_WIDTH = ("linear", "jump", "combine", "columns", "constant", "embedding")
_KEEP_WIDTH = ("gin_sum", "gine_sum", "appnp")  # convolutions


def structure_faults(spec: GnnSpecDocument) -> list[Fault]:
    """Why valid layers do not form a classifier; empty if they do."""
    plugins = [layer for layer in spec.layers if isinstance(layer, PluginDocument)]
    if not all(layer.is_installed for layer in plugins):
        return []  # only a stored spec has such layers, and it was checked at registration
    if faults := list(name_faults(spec)) or _plugin_faults(spec):
        return faults
    if faults := _wiring_faults(spec):
        return faults
    faults = _graph_faults(spec) if spec.task == "graph" else _node_faults(spec)
    faults += field_faults(spec)
    faults += kept_faults(spec)
    faults += _output_faults(spec)
    faults += edge_faults(spec)
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


def _plugin_faults(spec: GnnSpecDocument) -> list[Fault]:
    """Widths that plug-ins reject or that are too large, and misplaced whole GNNs."""
    faults = []
    for i, layer in enumerate(spec.layers):
        place = f"/layers/{i}"
        if not isinstance(layer, PluginDocument):
            continue
        if isinstance(layer.plugin, ArchitecturePlugin):
            if len(spec.layers) > 1:
                detail = f"{layer.type} is a whole GNN; it must be the only layer"
                faults.append(Fault(place, detail))
            elif layer.plugin.task != spec.task:
                detail = f"is {spec.task}, but {layer.type} classifies {layer.plugin.task}s"
                faults.append(Fault("/task", detail))
            continue
        try:
            part = spec.model_copy(update={"layers": spec.layers[: i + 1]})
            width = widths_of(part)[i + 1]
        except ValueError as error:
            return [*faults, Fault(place, f"{layer.type}: {error}")]
        if not 1 <= width <= MAX_WIDTH:
            detail = f"{layer.type} gives {width} values per node; 1 to {MAX_WIDTH} are accepted"
            faults.append(Fault(place, detail))
    return faults


def _wiring_faults(spec: GnnSpecDocument) -> list[Fault]:
    """Layers that cannot read the rows of their inputs."""
    problems = graph_problems(nodes_of(spec), inputs_of(spec))
    return [
        Fault(f"/layers/{i}", f"{spec.layers[i].type} at position {i} {detail}")
        for i, detail in problems
    ]


def _graph_faults(spec: GnnSpecDocument) -> list[Fault]:
    rows = rows_of_values(nodes_of(spec), inputs_of(spec))[len(spec.layers)]
    if not _pools(spec):
        hint = 'a node classifier has none and needs "task": "node"'
        detail = f"has 0 pool layers; a graph classifier has at least one; {hint}"
        return [Fault("/layers", detail)]
    if rows != "graph":
        return [Fault("/layers", f"the last layer gives {rows} values; the task is graph")]
    return []


def _node_faults(spec: GnnSpecDocument) -> list[Fault]:
    faults = [
        Fault(f"/layers/{i}", "is a pool; the task is node, and a node classifier has no pool")
        for i in _pools(spec)
    ]
    for i, layer in enumerate(spec.layers):
        if reads_whole_graph(layer):
            reads = f"{layer.type} at position {i} reads the whole graph"
            rule = "a node classifier may read only the neighbourhood of a node"
            faults.append(Fault(f"/layers/{i}", f"{reads}; {rule}"))
    rows = rows_of_values(nodes_of(spec), inputs_of(spec))[len(spec.layers)]
    if not faults and rows != "node":
        faults.append(Fault("/layers", f"the last layer gives {rows} values; the task is node"))
    return faults


def _output_faults(spec: GnnSpecDocument) -> list[Fault]:
    """The last layer that changes the width must have an allowed type and return the classes."""
    positions = [i for i, layer in enumerate(spec.layers) if _changes_width(layer)]
    joined = "linear, combine or columns"
    allowed = f"a convolution, {joined}" if spec.task == "node" else joined
    if not positions:
        detail = f"the last layer that changes the width is missing; it must be {allowed}"
        return [Fault("/layers", detail)]
    position = positions[-1]
    last = spec.layers[position]
    if isinstance(last, PluginDocument) and last.is_architecture:
        return []
    is_convolution = isinstance(last, PluginDocument | ConvolutionDocument)
    is_joined = last.type in ("linear", "combine", "columns")
    if not is_joined and not (spec.task == "node" and is_convolution):
        detail = f"the last layer that changes the width is {last.type}; it must be {allowed}"
        return [Fault(f"/layers/{position}", detail)]
    field = "" if last.type in ("combine", "columns") else "/out"
    return _class_faults(spec, last.type, f"/layers/{position}{field}")


def _class_faults(spec: GnnSpecDocument, last: str, place: str) -> list[Fault]:
    """The layer `last` must return one value per class, or one value for a binary head."""
    width = widths_of(spec)[len(spec.layers)]
    returns = f"the last {last} layer gives {width} values"
    if spec.head == "binary":
        if spec.classes != 2:
            return [Fault("/classes", f"is {spec.classes}; a binary head has 2 classes")]
        if width != 1:
            return [Fault(place, f"{returns}; a binary head gives 1")]
    elif width != spec.classes:
        hint = '; for one logit of two classes, set "head": "binary"' if width == 1 else ""
        rule = f"{returns} but classes is {spec.classes}; the numbers must be equal"
        return [Fault(place, rule + hint)]
    return []


def _pools(spec: GnnSpecDocument) -> list[int]:
    return [i for i, layer in enumerate(spec.layers) if is_pool(layer)]


def _changes_width(layer: SpecLayer) -> bool:
    if isinstance(layer, ConvolutionDocument):
        return layer.type not in _KEEP_WIDTH
    return layer.type in _CHANGE_WIDTH or isinstance(layer, PluginDocument)
