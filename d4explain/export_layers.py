"""From a person's PyG layers to the closed vocabulary, naming precisely what it cannot say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import (
    BatchNorm,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphConv,
    GraphNorm,
    LayerNorm,
    Linear,
    SAGEConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.nn.aggr import (
    AttentionalAggregation,
    MaxAggregation,
    MeanAggregation,
    SumAggregation,
)

from models.gnn.spec import (
    ActivationKind,
    ActivationLayer,
    Aggregation,
    BatchNormLayer,
    DropoutLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GinLayer,
    GraphConvLayer,
    GraphNormLayer,
    Layer,
    LayerNormLayer,
    LinearLayer,
    PoolLayer,
    PoolOp,
    SageAggregation,
    SageLayer,
)

Needs = Literal["nothing", "edges", "batch"]  # what a layer is called with beside the values

_FUNCTIONS: dict[Callable[..., Any], ActivationKind] = {
    F.relu: "relu",
    torch.relu: "relu",
    F.leaky_relu: "leaky_relu",
    F.elu: "elu",
    F.gelu: "gelu",
    F.tanh: "tanh",
    torch.tanh: "tanh",
    F.sigmoid: "sigmoid",
    torch.sigmoid: "sigmoid",
}
_POOL_FUNCTIONS: dict[Callable[..., Any], PoolOp] = {
    global_mean_pool: "mean",
    global_add_pool: "sum",
    global_max_pool: "max",
}
_POOL_MODULES: dict[type[nn.Module], PoolOp] = {
    MeanAggregation: "mean",
    SumAggregation: "sum",
    MaxAggregation: "max",
}
_PLAIN_ACTIVATIONS: dict[type[nn.Module], ActivationKind] = {
    nn.ReLU: "relu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid",
}

_ADDING = ("add", "sum")  # PyG's two words for it


class InexpressibleError(Exception):
    """One layer, or one option of it, that the vocabulary does not have."""


@dataclass(frozen=True)
class Translated:
    """One layer in our words; `layer` is None where nothing has to be said (identity)."""

    layer: Layer | None
    needs: Needs = "nothing"
    width: int | None = None  # how many numbers it takes, if it cares
    tensors: dict[str, Tensor] = field(default_factory=dict)  # names below `layers.<i>.`


def translate(layer: object) -> Translated:
    """Our form of one layer; exact types only, since a subclass may compute something else."""
    if isinstance(layer, nn.Module):
        return _translate_module(layer)
    if callable(layer) and layer in _FUNCTIONS:
        return Translated(ActivationLayer(_FUNCTIONS[layer]))
    if callable(layer) and layer in _POOL_FUNCTIONS:
        return Translated(PoolLayer(_POOL_FUNCTIONS[layer]), needs="batch")
    raise InexpressibleError(f"the function {getattr(layer, '__name__', repr(layer))} is not known")


def _translate_module(layer: nn.Module) -> Translated:
    kind = type(layer)
    if kind in _POOL_MODULES:
        return Translated(PoolLayer(_POOL_MODULES[kind]), needs="batch")
    if kind in _PLAIN_ACTIVATIONS:
        return Translated(ActivationLayer(_PLAIN_ACTIVATIONS[kind]))
    translator = _TRANSLATORS.get(kind)
    if translator is None:
        raise InexpressibleError(f"known are {', '.join(known_layers())}")
    result: Translated = translator(layer)
    return result


def known_layers() -> list[str]:
    kinds: Iterable[type] = {**_TRANSLATORS, **_PLAIN_ACTIVATIONS}
    pools = [function.__name__ for function in _POOL_FUNCTIONS]
    return sorted({kind.__name__ for kind in kinds}) + pools


def _gcn(layer: GCNConv) -> Translated:
    _require(layer, normalize=True, add_self_loops=True, improved=False, cached=False, aggr="add")
    _require_bias(layer.bias)
    return Translated(
        GcnLayer(layer.out_channels),
        needs="edges",
        width=_initialised(layer.lin.weight).shape[1],
        tensors={"conv.lin.weight": layer.lin.weight, "conv.bias": layer.bias},
    )


def _gin(layer: GINConv) -> Translated:
    _require(layer, aggr="add")
    inner = layer.nn
    parts: list[Any] = list(inner) if type(inner) is nn.Sequential else []
    if [type(part) for part in parts] != [nn.Linear, nn.ReLU, nn.Linear]:
        inside = ", ".join(type(part).__name__ for part in parts) or type(inner).__name__
        raise InexpressibleError(f"its nn must be Sequential(Linear, ReLU, Linear); got {inside}")
    for part in (parts[0], parts[2]):
        _require_bias(part.bias, "nn: ")
    return Translated(
        GinLayer(
            out=parts[2].out_features,
            hidden=parts[0].out_features,
            train_eps=isinstance(layer.eps, nn.Parameter),
        ),
        needs="edges",
        width=parts[0].in_features,
        tensors={
            "conv.eps": layer.eps,
            "conv.nn.0.weight": parts[0].weight,
            "conv.nn.0.bias": parts[0].bias,
            "conv.nn.2.weight": parts[2].weight,
            "conv.nn.2.bias": parts[2].bias,
        },
    )


def _sage(layer: SAGEConv) -> Translated:
    _require(layer, root_weight=True, normalize=False, project=False)
    _require_one_of(layer, "aggr", get_args(SageAggregation))
    return Translated(
        SageLayer(layer.out_channels, bias=layer.lin_l.bias is not None, aggr=layer.aggr),
        needs="edges",
        width=_initialised(layer.lin_l.weight).shape[1],
        tensors={f"conv.{name}": tensor for name, tensor in layer.state_dict().items()},
    )


def _graph_conv(layer: GraphConv) -> Translated:
    _require_one_of(layer, "aggr", (*get_args(Aggregation), "sum"))
    aggr: Aggregation = "add" if layer.aggr in _ADDING else layer.aggr
    return Translated(
        GraphConvLayer(layer.out_channels, bias=layer.lin_rel.bias is not None, aggr=aggr),
        needs="edges",
        width=_initialised(layer.lin_rel.weight).shape[1],
        tensors={f"conv.{name}": tensor for name, tensor in layer.state_dict().items()},
    )


def _gat(layer: GATConv) -> Translated:
    return _attention(layer, GatLayer, layer.lin)


def _gatv2(layer: GATv2Conv) -> Translated:
    # Weights that both ends share are written twice, which computes the same.
    return _attention(layer, GatV2Layer, layer.lin_l)


def _attention(
    layer: GATConv | GATv2Conv, kind: type[GatLayer | GatV2Layer], linear: Linear
) -> Translated:
    """Dropout of the attention is off while explaining, so any is accepted."""
    _require(layer, add_self_loops=True, edge_dim=None, residual=False)
    _require_one_of(layer, "aggr", _ADDING)
    _require_bias(layer.bias)
    if not isinstance(layer.in_channels, int):
        raise InexpressibleError(f"in_channels={layer.in_channels!r}; it must be one number")
    if not 0 <= layer.negative_slope <= 1:
        raise InexpressibleError(f"negative_slope={layer.negative_slope}; it must be from 0 to 1")
    return Translated(
        kind(layer.out_channels, layer.heads, layer.concat, float(layer.negative_slope)),
        needs="edges",
        width=_initialised(linear.weight).shape[1],
        tensors={f"conv.{name}": tensor for name, tensor in layer.state_dict().items()},
    )


def _linear(layer: nn.Linear | Linear) -> Translated:
    weight = _initialised(layer.weight)
    tensors = {"linear.weight": weight}
    if layer.bias is not None:
        tensors["linear.bias"] = layer.bias
    return Translated(
        LinearLayer(weight.shape[0], bias=layer.bias is not None),
        width=weight.shape[1],
        tensors=tensors,
    )


def _leaky_relu(layer: nn.LeakyReLU) -> Translated:
    _require(layer, negative_slope=0.01)
    return Translated(ActivationLayer("leaky_relu"))


def _elu(layer: nn.ELU) -> Translated:
    _require(layer, alpha=1.0)
    return Translated(ActivationLayer("elu"))


def _gelu(layer: nn.GELU) -> Translated:
    _require(layer, approximate="none")
    return Translated(ActivationLayer("gelu"))


def _dropout(layer: nn.Dropout) -> Translated:
    if not layer.p < 1:
        raise InexpressibleError(f"p={layer.p}; it must be below 1")
    return Translated(DropoutLayer(float(layer.p)))


def _batch_norm(layer: nn.BatchNorm1d | BatchNorm) -> Translated:
    norm = layer.module if isinstance(layer, BatchNorm) else layer
    _require(norm, eps=1e-5, affine=True, track_running_stats=True)
    return Translated(
        BatchNormLayer(),
        width=norm.num_features,
        tensors={f"norm.{name}": tensor for name, tensor in norm.state_dict().items()},
    )


def _layer_norm(layer: LayerNorm) -> Translated:
    _require(layer, eps=1e-5, affine=True)
    return Translated(
        LayerNormLayer(layer.mode),
        needs="batch" if layer.mode == "graph" else "nothing",
        width=layer.in_channels,
        tensors={f"norm.{name}": tensor for name, tensor in layer.state_dict().items()},
    )


def _torch_layer_norm(layer: nn.LayerNorm) -> Translated:
    _require(layer, eps=1e-5, elementwise_affine=True)
    _require_bias(layer.bias)
    if len(layer.normalized_shape) != 1:
        raise InexpressibleError(f"normalized_shape={layer.normalized_shape}; it must be a width")
    return Translated(
        LayerNormLayer("node"),
        width=layer.normalized_shape[0],
        tensors={f"norm.{name}": tensor for name, tensor in layer.state_dict().items()},
    )


def _graph_norm(layer: GraphNorm) -> Translated:
    _require(layer, eps=1e-5)
    return Translated(
        GraphNormLayer(),
        needs="batch",
        width=layer.in_channels,
        tensors={f"norm.{name}": tensor for name, tensor in layer.state_dict().items()},
    )


def _attention_pool(layer: AttentionalAggregation) -> Translated:
    gate = layer.gate_nn
    if not isinstance(gate, nn.Linear | Linear) or _initialised(gate.weight).shape[0] != 1:
        inside = layer.gate_mlp if gate is None else gate
        raise InexpressibleError(f"its gate_nn must be a linear layer to 1 value; got {inside}")
    _require_bias(gate.bias, "gate_nn: ")
    _require(layer, nn=None, mlp=None)
    return Translated(
        PoolLayer("attention"),
        needs="batch",
        width=gate.weight.shape[1],
        tensors={"pool.gate_nn.weight": gate.weight, "pool.gate_nn.bias": gate.bias},
    )


def _identity(_layer: nn.Identity) -> Translated:
    return Translated(None)


_TRANSLATORS: dict[type[nn.Module], Callable[[Any], Translated]] = {
    GCNConv: _gcn,
    GINConv: _gin,
    SAGEConv: _sage,
    GraphConv: _graph_conv,
    GATConv: _gat,
    GATv2Conv: _gatv2,
    nn.Linear: _linear,
    Linear: _linear,
    nn.LeakyReLU: _leaky_relu,
    nn.ELU: _elu,
    nn.GELU: _gelu,
    nn.Dropout: _dropout,
    nn.BatchNorm1d: _batch_norm,
    BatchNorm: _batch_norm,
    LayerNorm: _layer_norm,
    nn.LayerNorm: _torch_layer_norm,
    GraphNorm: _graph_norm,
    AttentionalAggregation: _attention_pool,
    nn.Identity: _identity,
}


def _require(layer: nn.Module, **options: object) -> None:
    for name, wanted in options.items():
        got = getattr(layer, name)
        if got != wanted:
            raise InexpressibleError(f"{name}={got!r}; only {name}={wanted!r} can be expressed")


def _require_one_of(layer: nn.Module, name: str, known: tuple[object, ...]) -> None:
    got = getattr(layer, name)
    if got not in known:
        said = " or ".join(f"{name}={one!r}" for one in known)
        raise InexpressibleError(f"{name}={got!r}; only {said} can be expressed")


def _require_bias(bias: Tensor | None, where: str = "") -> None:
    if bias is None:
        raise InexpressibleError(f"{where}bias=False; only bias=True can be expressed")


def _initialised(weight: Tensor) -> Tensor:
    if isinstance(weight, nn.UninitializedParameter):
        raise InexpressibleError("its input width is not known yet; run the model once first")
    return weight
