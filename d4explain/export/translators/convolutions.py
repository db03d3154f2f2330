"""Translates PyG convolutions to the vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from torch import nn
from torch_geometric.nn import (
    APPNP,
    ChebConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GraphConv,
    Linear,
    PNAConv,
    SAGEConv,
    SGConv,
    TAGConv,
)
from torch_geometric.nn.resolver import aggregation_resolver

from d4explain.export.translators.translation import (
    Translation,
    UnsupportedLayerError,
    or_zeros,
    prefixed_tensors,
    require,
    require_bias,
    require_initialised,
    require_one_of,
)
from d4explain.gnn.spec import (
    Aggregation,
    AppnpLayer,
    ChebLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GineSumLayer,
    GinSumLayer,
    GraphConvLayer,
    PnaAggregator,
    PnaLayer,
    PnaScaler,
    SageAggregation,
    SageLayer,
    TagLayer,
)

_SUM = ("add", "sum")  # PyG accepts both names


def _gcn(layer: GCNConv) -> Translation:
    require(layer, normalize=True, add_self_loops=True, improved=False, cached=False, aggr="add")
    bias = or_zeros(layer.bias, layer.out_channels)
    return Translation(
        GcnLayer(layer.out_channels),
        input_width=require_initialised(layer.lin.weight).shape[1],
        tensors={"conv.lin.weight": layer.lin.weight, "conv.bias": bias},
    )


def _gin(conv: GINConv) -> Translation:
    """The sum that GINConv passes to its nn, whose layers are recorded on their own."""
    require(conv, aggr="add")
    layer = GinSumLayer(isinstance(conv.eps, nn.Parameter))
    return Translation(layer, tensors={"conv.eps": conv.eps})


def _gine(conv: GINEConv) -> Translation:
    require(conv, aggr="add")
    tensors = {"conv.eps": conv.eps}
    train_eps = isinstance(conv.eps, nn.Parameter)
    if conv.lin is None:
        return Translation(GineSumLayer(train_eps, project=False), tensors=tensors)
    lin = _edge_linear(conv)
    return Translation(
        GineSumLayer(train_eps),
        input_width=lin.weight.shape[0],
        edge_width=lin.weight.shape[1],
        tensors=tensors | prefixed_tensors("conv.lin", lin),
    )


def _edge_linear(conv: GINEConv) -> Linear:
    """The linear layer for edge attributes."""
    lin: Linear = conv.lin
    require_initialised(lin.weight)
    require_bias(lin.bias, "lin: ")
    return lin


def _sage(layer: SAGEConv) -> Translation:
    require(layer, normalize=False, project=False)
    require_one_of(layer, "aggr", (*get_args(SageAggregation), *_SUM))
    linear = layer.lin_l
    weight, bias = require_initialised(linear.weight), linear.bias
    root = or_zeros(layer.lin_r.weight if layer.root_weight else None, *weight.shape)
    # With a sum, SAGEConv equals GraphConv, whose tensors have other names.
    is_sum = layer.aggr in _SUM
    neighbours, node = ("lin_rel", "lin_root") if is_sum else ("lin_l", "lin_r")
    tensors = {f"conv.{neighbours}.weight": weight, f"conv.{node}.weight": root}
    if bias is not None:
        tensors[f"conv.{neighbours}.bias"] = bias
    return Translation(
        GraphConvLayer(layer.out_channels, bias=bias is not None, aggr="add")
        if is_sum
        else SageLayer(layer.out_channels, bias=bias is not None, aggr=layer.aggr),
        input_width=weight.shape[1],
        tensors=tensors,
    )


def _graph_conv(layer: GraphConv) -> Translation:
    require_one_of(layer, "aggr", (*get_args(Aggregation), "sum"))
    aggr: Aggregation = "add" if layer.aggr in _SUM else layer.aggr
    return Translation(
        GraphConvLayer(layer.out_channels, bias=layer.lin_rel.bias is not None, aggr=aggr),
        input_width=require_initialised(layer.lin_rel.weight).shape[1],
        tensors=prefixed_tensors("conv", layer),
    )


def _gat(layer: GATConv) -> Translation:
    return _attention(layer, GatLayer, layer.lin)


def _gatv2(layer: GATv2Conv) -> Translation:
    # With share_weights, the shared linear layer is written as lin_l and as lin_r.
    return _attention(layer, GatV2Layer, layer.lin_l)


def _attention(
    layer: GATConv | GATv2Conv, kind: type[GatLayer | GatV2Layer], linear: Linear
) -> Translation:
    """Translate an attention layer; its dropout is ignored, because it is off in eval mode."""
    require(layer, add_self_loops=True, residual=False)
    reads_edges = layer.edge_dim is not None
    if reads_edges and not isinstance(layer.fill_value, str):  # a tensor cannot be compared
        raise UnsupportedLayerError(
            "fill_value is not a string; only fill_value='mean' is supported"
        )
    if reads_edges:
        require(layer, fill_value="mean")
    require_one_of(layer, "aggr", _SUM)
    if not isinstance(layer.in_channels, int):
        raise UnsupportedLayerError(f"in_channels={layer.in_channels!r}; it must be an integer")
    if not 0 <= layer.negative_slope <= 1:
        raise UnsupportedLayerError(
            f"negative_slope={layer.negative_slope}; it must be between 0 and 1"
        )
    slope = float(layer.negative_slope)
    attention = kind(layer.out_channels, layer.heads, layer.concat, slope, reads_edges)
    rows, width = require_initialised(linear.weight).shape
    tensors = prefixed_tensors("conv", layer)
    tensors["conv.bias"] = or_zeros(layer.bias, attention.width)
    if kind is GatV2Layer:  # bias=False also removes the biases of its two linear layers
        for name in ("lin_l", "lin_r"):
            tensors.setdefault(f"conv.{name}.bias", or_zeros(None, rows))
    return Translation(
        attention,
        input_width=width,
        edge_width=layer.edge_dim,
        tensors=tensors,
    )


def _pna(layer: PNAConv) -> Translation:
    require(layer, edge_dim=None)
    if any(len(linears) != 1 for linears in [*layer.pre_nns, *layer.post_nns]):
        raise UnsupportedLayerError("only pre_layers=1 and post_layers=1 are supported")
    classes = [type(aggregator) for aggregator in layer.aggr_module.aggr.aggrs]
    names = {type(aggregation_resolver(name)): name for name in get_args(PnaAggregator)}
    aggregators = tuple(names.get(kind, kind.__name__) for kind in classes)
    scalers = tuple(layer.aggr_module.scaler)
    _require_names("aggregators", aggregators, get_args(PnaAggregator))
    _require_names("scalers", scalers, get_args(PnaScaler))
    return Translation(
        PnaLayer(layer.out_channels, aggregators, scalers, layer.towers, layer.divide_input),
        input_width=layer.in_channels,
        tensors=prefixed_tensors("conv", layer),
    )


def _require_names(option: str, names: tuple[str, ...], supported: tuple[str, ...]) -> None:
    if not set(names) <= set(supported) or len(set(names)) < len(names):
        raise UnsupportedLayerError(
            f"{option}={list(names)}; only {', '.join(supported)} are supported, each once"
        )


def _tag(layer: TAGConv) -> Translation:
    require(layer, normalize=True, aggr="add")
    return Translation(
        TagLayer(layer.out_channels, layer.K, bias=layer.bias is not None),
        input_width=require_initialised(layer.lins[0].weight).shape[1],
        tensors=prefixed_tensors("conv", layer),
    )


def _cheb(layer: ChebConv) -> Translation:
    require(layer, normalization="sym", aggr="add")
    if len(layer.lins) < 2:
        raise UnsupportedLayerError("K=1; only K of 2 or more is supported")
    return Translation(
        ChebLayer(layer.out_channels, len(layer.lins), bias=layer.bias is not None),
        input_width=require_initialised(layer.lins[0].weight).shape[1],
        tensors=prefixed_tensors("conv", layer),
    )


def _appnp(layer: APPNP) -> Translation:
    """Translate APPNP; its dropout is ignored, because it is off in eval mode."""
    require(layer, cached=False, add_self_loops=True, normalize=True)
    return Translation(AppnpLayer(layer.K, float(layer.alpha)))


def require_plain_sgc(layer: SGConv) -> None:
    require(layer, cached=False, add_self_loops=True, aggr="add")


CONVOLUTIONS: dict[type, Callable[[Any], Translation]] = {
    GCNConv: _gcn,
    GINConv: _gin,
    GINEConv: _gine,
    SAGEConv: _sage,
    GraphConv: _graph_conv,
    GATConv: _gat,
    GATv2Conv: _gatv2,
    PNAConv: _pna,
    TAGConv: _tag,
    ChebConv: _cheb,
    APPNP: _appnp,
}
