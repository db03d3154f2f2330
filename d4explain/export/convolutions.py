"""Translates the convolutions of PyG."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from torch import nn
from torch_geometric.nn import (
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
    TAGConv,
)
from torch_geometric.nn.resolver import aggregation_resolver

from d4explain.export.translation import (
    InexpressibleError,
    Translated,
    initialised,
    named,
    or_zeros,
    require,
    require_bias,
    require_one_of,
)
from d4explain.gnn.spec import (
    Aggregation,
    ChebLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GineLayer,
    GineSumLayer,
    GinLayer,
    GinSumLayer,
    GraphConvLayer,
    PnaAggregator,
    PnaLayer,
    PnaScaler,
    SageAggregation,
    SageLayer,
    TagLayer,
)

_ADDING = ("add", "sum")  # PyG has two names for it


@dataclass(frozen=True)
class GinSum:
    """A GINConv or GINEConv without its nn, whose layers follow separately."""

    conv: GINConv | GINEConv


@dataclass(frozen=True)
class GinAround:
    """A GINConv or GINEConv around Linear, ReLU, Linear."""

    conv: GINConv | GINEConv
    first: nn.Linear | Linear
    second: nn.Linear | Linear


def _gcn(layer: GCNConv) -> Translated:
    require(layer, normalize=True, add_self_loops=True, improved=False, cached=False, aggr="add")
    bias = or_zeros(layer.bias, layer.out_channels)
    return Translated(
        GcnLayer(layer.out_channels),
        needs="edges",
        width=initialised(layer.lin.weight).shape[1],
        tensors={"conv.lin.weight": layer.lin.weight, "conv.bias": bias},
    )


def _gin_sum(part: GinSum) -> Translated:
    require(part.conv, aggr="add")
    train_eps = isinstance(part.conv.eps, nn.Parameter)
    tensors = {"conv.eps": part.conv.eps}
    if isinstance(part.conv, GINConv):
        return Translated(GinSumLayer(train_eps), needs="edges", tensors=tensors)
    if part.conv.lin is None:
        raise InexpressibleError("edge_dim=None around this nn; only with edge_dim can it be said")
    lin = _edge_linear(part.conv)
    return Translated(
        GineSumLayer(train_eps),
        needs="attributes",
        width=lin.weight.shape[0],
        edge_width=lin.weight.shape[1],
        tensors=tensors | named("conv.lin", lin),
    )


def _gin(part: GinAround) -> Translated:
    require(part.conv, aggr="add")
    first, second = initialised(part.first.weight), initialised(part.second.weight)
    train_eps = isinstance(part.conv.eps, nn.Parameter)
    tensors = {
        "conv.eps": part.conv.eps,
        "conv.nn.0.weight": first,
        "conv.nn.0.bias": part.first.bias,
        "conv.nn.2.weight": second,
        "conv.nn.2.bias": part.second.bias,
    }
    hidden, width = first.shape
    if isinstance(part.conv, GINConv):
        layer = GinLayer(second.shape[0], hidden, train_eps)
        return Translated(layer, needs="edges", width=width, tensors=tensors)
    lin = None if part.conv.lin is None else _edge_linear(part.conv)
    return Translated(
        GineLayer(second.shape[0], hidden, train_eps, project=lin is not None),
        needs="attributes",
        width=width,
        edge_width=width if lin is None else lin.weight.shape[1],
        tensors=tensors if lin is None else tensors | named("conv.lin", lin),
    )


def _edge_linear(conv: GINEConv) -> Linear:
    """The linear layer for edge attributes."""
    lin: Linear = conv.lin
    initialised(lin.weight)
    require_bias(lin.bias, "lin: ")
    return lin


def _sage(layer: SAGEConv) -> Translated:
    require(layer, normalize=False, project=False)
    require_one_of(layer, "aggr", (*get_args(SageAggregation), *_ADDING))
    linear = layer.lin_l
    weight, bias = initialised(linear.weight), linear.bias
    root = or_zeros(layer.lin_r.weight if layer.root_weight else None, *weight.shape)
    # With a sum it equals PyG's GraphConv, which names its tensors differently.
    adds = layer.aggr in _ADDING
    of_neighbours, of_node = ("lin_rel", "lin_root") if adds else ("lin_l", "lin_r")
    tensors = {f"conv.{of_neighbours}.weight": weight, f"conv.{of_node}.weight": root}
    if bias is not None:
        tensors[f"conv.{of_neighbours}.bias"] = bias
    return Translated(
        GraphConvLayer(layer.out_channels, bias=bias is not None, aggr="add")
        if adds
        else SageLayer(layer.out_channels, bias=bias is not None, aggr=layer.aggr),
        needs="edges",
        width=weight.shape[1],
        tensors=tensors,
    )


def _graph_conv(layer: GraphConv) -> Translated:
    require_one_of(layer, "aggr", (*get_args(Aggregation), "sum"))
    aggr: Aggregation = "add" if layer.aggr in _ADDING else layer.aggr
    return Translated(
        GraphConvLayer(layer.out_channels, bias=layer.lin_rel.bias is not None, aggr=aggr),
        needs="edges",
        width=initialised(layer.lin_rel.weight).shape[1],
        tensors=named("conv", layer),
    )


def _gat(layer: GATConv) -> Translated:
    return _attention(layer, GatLayer, layer.lin)


def _gatv2(layer: GATv2Conv) -> Translated:
    # Weights shared by both ends are written twice; the result is the same.
    return _attention(layer, GatV2Layer, layer.lin_l)


def _attention(
    layer: GATConv | GATv2Conv, kind: type[GatLayer | GatV2Layer], linear: Linear
) -> Translated:
    """Any attention dropout is accepted, because it is off in eval mode."""
    require(layer, add_self_loops=True, residual=False)
    reads = layer.edge_dim is not None
    if reads and not isinstance(layer.fill_value, str):  # a tensor cannot be compared
        raise InexpressibleError(
            "fill_value is not a word; only fill_value='mean' can be expressed"
        )
    if reads:
        require(layer, fill_value="mean")
    require_one_of(layer, "aggr", _ADDING)
    if not isinstance(layer.in_channels, int):
        raise InexpressibleError(f"in_channels={layer.in_channels!r}; it must be one number")
    if not 0 <= layer.negative_slope <= 1:
        raise InexpressibleError(f"negative_slope={layer.negative_slope}; it must be from 0 to 1")
    slope = float(layer.negative_slope)
    said = kind(layer.out_channels, layer.heads, layer.concat, slope, reads)
    rows, width = initialised(linear.weight).shape
    tensors = named("conv", layer)
    tensors["conv.bias"] = or_zeros(layer.bias, said.width)
    if kind is GatV2Layer:  # `bias` is that of its two linear layers as well
        for end in ("lin_l", "lin_r"):
            tensors.setdefault(f"conv.{end}.bias", or_zeros(None, rows))
    return Translated(
        said,
        needs="attributes" if reads else "edges",
        width=width,
        edge_width=layer.edge_dim,
        tensors=tensors,
    )


def _pna(layer: PNAConv) -> Translated:
    require(layer, edge_dim=None)
    inner = [*layer.pre_nns, *layer.post_nns]
    if any(len(linears) != 1 for linears in inner):
        raise InexpressibleError("only pre_layers=1 and post_layers=1 can be expressed")
    kinds = [type(aggregator) for aggregator in layer.aggr_module.aggr.aggrs]
    words = {type(aggregation_resolver(word)): word for word in get_args(PnaAggregator)}
    aggregators = tuple(words.get(kind, kind.__name__) for kind in kinds)
    scalers = tuple(layer.aggr_module.scaler)
    _require_words("aggregators", aggregators, get_args(PnaAggregator))
    _require_words("scalers", scalers, get_args(PnaScaler))
    return Translated(
        PnaLayer(layer.out_channels, aggregators, scalers, layer.towers, layer.divide_input),
        needs="edges",
        width=layer.in_channels,
        tensors=named("conv", layer),
    )


def _require_words(what: str, words: tuple[str, ...], known: tuple[str, ...]) -> None:
    unknown = [word for word in words if word not in known]
    if unknown or len(set(words)) < len(words):
        said = f"only {', '.join(known)} can be expressed, each once"
        raise InexpressibleError(f"{what}={list(words)}; {said}")


def _tag(layer: TAGConv) -> Translated:
    require(layer, normalize=True, aggr="add")
    return Translated(
        TagLayer(layer.out_channels, layer.K, bias=layer.bias is not None),
        needs="edges",
        width=initialised(layer.lins[0].weight).shape[1],
        tensors=named("conv", layer),
    )


def _cheb(layer: ChebConv) -> Translated:
    require(layer, normalization="sym", aggr="add")
    if len(layer.lins) < 2:
        raise InexpressibleError("K=1; only K of 2 or more can be expressed")
    return Translated(
        ChebLayer(layer.out_channels, len(layer.lins), bias=layer.bias is not None),
        needs="edges",
        width=initialised(layer.lins[0].weight).shape[1],
        tensors=named("conv", layer),
    )


CONVOLUTIONS: dict[type, Callable[[Any], Translated]] = {
    GCNConv: _gcn,
    GinAround: _gin,
    GinSum: _gin_sum,
    SAGEConv: _sage,
    GraphConv: _graph_conv,
    GATConv: _gat,
    GATv2Conv: _gatv2,
    PNAConv: _pna,
    TAGConv: _tag,
    ChebConv: _cheb,
}
