"""Checks that the layers of a GNN fit together; each raises ValueError with the position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from d4explain.gnn.vocabulary.convolutions import (
    AppnpLayer,
    EgnnLayer,
    GcnLayer,
    GineLayer,
    GineSumLayer,
    GraphConvLayer,
    PnaLayer,
)
from d4explain.gnn.vocabulary.layers import (
    AddLayer,
    JumpLayer,
    KeepLayer,
    Layer,
    LinearLayer,
    PluginLayer,
)
from d4explain.gnn.vocabulary.operations import ColumnsLayer, CombineLayer, EmbeddingLayer
from d4explain.gnn.vocabulary.roles import (
    changes_width,
    is_convolution,
    is_pool,
    reads_whole_graph,
)
from d4explain.layer_graph import (
    EDGE_ATTRIBUTES,
    FEATURES,
    Inputs,
    LayerNode,
    graph_problems,
)

Layers = Sequence[Layer]
Widths = Sequence[int]


def check_graph(layers: Layers, nodes: Sequence[LayerNode], inputs: Sequence[Inputs]) -> None:
    for position, detail in graph_problems(nodes, inputs):
        raise ValueError(f"layers[{position}]: {type(layers[position]).__name__} {detail}")
    if any(is_pool(layer) for layer in layers):
        return
    for position, layer in enumerate(layers):
        if reads_whole_graph(layer):
            raise ValueError(
                f"layers[{position}]: {layer!r} reads the whole graph; a GNN without a pool "
                "classifies nodes and may read only the neighbourhood of a node"
            )


def check_kept(layers: Layers, widths: Mapping[int, int]) -> None:
    """Layers that read kept values must find some, of widths that they can join."""
    kept: list[int] = []  # widths
    for position, layer in enumerate(layers):
        name, width = type(layer).__name__, widths[position]
        if isinstance(layer, KeepLayer):
            kept.append(width)
        if not isinstance(layer, JumpLayer | AddLayer | EgnnLayer):
            continue
        if not kept:
            raise ValueError(f"layers[{position}]: {name} has no KeepLayer before it")
        if isinstance(layer, JumpLayer):
            _check_jump(position, layer, kept)
            continue
        used, which = (kept[-1], "last") if isinstance(layer, AddLayer) else (kept[0], "first")
        if used != width:
            raise ValueError(
                f"layers[{position}]: {name} gets {width} values per node "
                f"but {used} were kept {which}"
            )


def _check_jump(position: int, layer: JumpLayer, kept: Widths) -> None:
    if layer.last is not None and layer.last > len(kept):
        raise ValueError(
            f"layers[{position}]: JumpLayer joins the last {layer.last} kept values, "
            f"but {len(kept)} were kept"
        )
    joined = layer.joined(kept)
    if layer.mode == "max" and len(set(joined)) > 1:
        raise ValueError(
            f"layers[{position}]: the maximum needs kept values of one width; got {joined}"
        )


def check_widths(
    layers: Layers, inputs: Sequence[Inputs], widths: Mapping[int, int], edge_features: int
) -> None:
    """Each layer must be able to read the widths of its inputs."""
    if edge_features < 0:
        raise ValueError(f"edge_features must not be negative; got {edge_features!r}")
    readers = [i for i, read in enumerate(inputs) if EDGE_ATTRIBUTES in read]
    if bool(readers) != bool(edge_features):
        reader = f"layers[{readers[0]}] reads" if readers else "no layer reads"
        raise ValueError(f"{reader} edge attributes, but edge_features is {edge_features}")
    for position, (layer, read) in enumerate(zip(layers, inputs, strict=True)):
        detail = _width_problem(layer, [widths[value] for value in read])
        if isinstance(layer, EmbeddingLayer) and read[0] not in (FEATURES, EDGE_ATTRIBUTES):
            detail = "an embedding reads node features or edge attributes"
        if detail is not None:
            raise ValueError(f"layers[{position}]: {detail}")


def _width_problem(layer: Layer, widths: Widths) -> str | None:
    detail = None
    match layer:
        case PnaLayer(divide_input=True) if widths[0] % layer.towers:
            detail = f"{layer.towers} towers cannot divide {widths[0]} values"
        case GineLayer(project=False) | GineSumLayer(project=False) if widths[0] != widths[1]:
            detail = (
                f"{widths[1]} edge attributes cannot be added to {widths[0]} values without project"
            )
        case GcnLayer() | GraphConvLayer() | AppnpLayer() if widths[1:] and widths[1] != 1:
            detail = f"edge weights have 1 value per edge; got {widths[1]}"
        case CombineLayer() if layer.op != "concat" and len(set(widths) - {1}) > 1:
            detail = f"{layer.op} needs inputs of one width; got {list(widths)}"
        case CombineLayer(op="subtract" | "divide") if len(widths) != 2:
            detail = f"{layer.op} needs two inputs; got {len(widths)}"
        case ColumnsLayer() if layer.stop > widths[0]:
            detail = f"columns up to {layer.stop} of {widths[0]} values"
        case EmbeddingLayer() if layer.column >= widths[0]:
            detail = f"embedding of column {layer.column} of {widths[0]} values"
        case _:
            pass
    return detail


def check_output(layers: Layers, width: int, classes: int) -> None:
    """The last layer that changes the width must return the classes: `width` values."""
    has_pool = any(is_pool(layer) for layer in layers)
    last = next((layer for layer in reversed(layers) if changes_width(layer)), None)
    is_whole_gnn = isinstance(last, PluginLayer) and last.pools
    ends_in_nodes = not has_pool and last is not None and is_convolution(last)
    is_joined = isinstance(last, LinearLayer | CombineLayer | ColumnsLayer)
    if not is_joined and not ends_in_nodes and not is_whole_gnn:
        joined = "linear, combine or columns"
        allowed = joined if has_pool else f"a convolution, {joined}"
        raise ValueError(
            f"layers: the last layer that changes the width must be {allowed}; got "
            f"{type(last).__name__ if last else 'none'}"
        )
    is_binary = classes == 2 and width == 1
    if width != classes and not is_binary:
        raise ValueError(
            f"layers: the last {type(last).__name__} must give {classes} classes; got {width}"
        )
