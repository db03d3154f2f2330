"""Checks that the layers of a GNN fit together; each raises ValueError with the position."""

from __future__ import annotations

from collections.abc import Sequence

from d4explain.gnn.vocabulary.convolutions import EgnnLayer, GineLayer, GineSumLayer, PnaLayer
from d4explain.gnn.vocabulary.layers import (
    AddLayer,
    JumpLayer,
    KeepLayer,
    Layer,
    LinearLayer,
    PluginLayer,
)
from d4explain.gnn.vocabulary.roles import (
    changes_width,
    is_convolution,
    is_pool,
    needs_nodes,
    reads_edge_attributes,
    reads_whole_graph,
)

Layers = Sequence[Layer]
Widths = Sequence[int]  # the input width of each layer, then the output width of the last one


def check_pools(layers: Layers) -> None:
    pools = [i for i, layer in enumerate(layers) if is_pool(layer)]
    if len(pools) > 1:
        raise ValueError(f"layers: at most one may be a pool; got {len(pools)} (at {pools})")
    for position, layer in enumerate(layers):
        if pools and position > pools[0] and needs_nodes(layer):
            raise ValueError(
                f"layers[{position}]: {type(layer).__name__} needs nodes, "
                f"but layers[{pools[0]}] has pooled them"
            )
        if not pools and reads_whole_graph(layer):
            raise ValueError(
                f"layers[{position}]: {layer!r} reads the whole graph; a GNN without a pool "
                "classifies nodes and may read only the neighbourhood of a node"
            )


def check_kept(layers: Layers, widths: Widths) -> None:
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


def check_towers(layers: Layers, widths: Widths) -> None:
    for position, (layer, width) in enumerate(zip(layers, widths, strict=False)):
        if isinstance(layer, PnaLayer) and layer.divide_input and width % layer.towers:
            raise ValueError(
                f"layers[{position}]: {layer.towers} towers cannot divide {width} values"
            )


def check_edge_features(layers: Layers, widths: Widths, edge_features: int) -> None:
    if edge_features < 0:
        raise ValueError(f"edge_features must not be negative; got {edge_features!r}")
    reads = [reads_edge_attributes(layer) for layer in layers]
    if any(reads) != bool(edge_features):
        reader = "no layer reads" if edge_features else f"layers[{reads.index(True)}] reads"
        raise ValueError(f"{reader} edge attributes, but edge_features is {edge_features}")
    for position, (layer, width) in enumerate(zip(layers, widths, strict=False)):
        is_added = isinstance(layer, GineLayer | GineSumLayer) and not layer.project
        if is_added and width != edge_features:
            raise ValueError(
                f"layers[{position}]: {edge_features} edge attributes cannot be added to "
                f"{width} values without project"
            )


def check_output(layers: Layers, width: int, classes: int) -> None:
    """The last layer that changes the width must return the classes: `width` values."""
    has_pool = any(is_pool(layer) for layer in layers)
    last = next((layer for layer in reversed(layers) if changes_width(layer)), None)
    is_whole_gnn = isinstance(last, PluginLayer) and last.pools
    ends_in_nodes = not has_pool and last is not None and is_convolution(last)
    if not isinstance(last, LinearLayer) and not ends_in_nodes and not is_whole_gnn:
        allowed = "a linear layer" if has_pool else "a convolution or a linear layer"
        raise ValueError(
            f"layers: the last layer that changes the width must be {allowed}; got "
            f"{type(last).__name__ if last else 'none'}"
        )
    is_binary = classes == 2 and width == 1
    if width != classes and not is_binary:
        raise ValueError(
            f"layers: the last {type(last).__name__} must give {classes} classes; got {width}"
        )
