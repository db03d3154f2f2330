"""Translates modules of PyTorch and PyG to the vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch_geometric.nn import JumpingKnowledge, Linear, MessagePassing, Sequential, SGConv
from torch_geometric.nn.aggr import (
    Aggregation,
    AttentionalAggregation,
    MaxAggregation,
    MeanAggregation,
    SumAggregation,
)
from torch_geometric.nn.models import MLP, DeepGCNLayer
from torch_geometric.nn.models.basic_gnn import BasicGNN

from d4explain.export.translators.activations import ACTIVATIONS
from d4explain.export.translators.convolutions import CONVOLUTIONS
from d4explain.export.translators.norms import NORMS
from d4explain.export.translators.translation import (
    Translation,
    UnsupportedLayerError,
    require_initialised,
)
from d4explain.gnn.spec import DropoutLayer, LinearLayer, PoolLayer, PoolOp

# Modules of PyTorch and PyG whose forward is read step by step.
_ENTERED = (nn.Sequential, Sequential, MLP, BasicGNN, DeepGCNLayer, nn.ModuleList, nn.ModuleDict)
# Layers that are more than one layer of the vocabulary; `module_calls` records them.
COMPOSED = (AttentionalAggregation, JumpingKnowledge, SGConv, nn.Embedding)

_DROPS_NODES = "drops nodes, which soft edges cannot; use a pool of all nodes after the last layer"
_NEAREST = {
    "Set2Set": "the nearest pool is AttentionalAggregation",
    "SortAggregation": "the nearest pools are max and AttentionalAggregation",
    "SAGPooling": _DROPS_NODES,
    "TopKPooling": _DROPS_NODES,
    "ASAPooling": _DROPS_NODES,
    "EdgePooling": _DROPS_NODES,
    "TransformerConv": "the nearest layer is GATv2Conv",
    "GENConv": "the nearest layers are GINEConv and PNAConv",
    "GatedGraphConv": "the nearest layer is GraphConv with a residual",
    "ARMAConv": "the nearest layers are TAGConv and ChebConv",
    "InstanceNorm": "the nearest norm is GraphNorm",
    "PairNorm": "the nearest norm is GraphNorm",
}


def is_layer(module: nn.Module) -> bool:
    """Whether the module is one step of a model; other modules are read step by step."""
    package = type(module).__module__.partition(".")[0]
    of_library = package in ("torch", "torch_geometric") and not isinstance(module, _ENTERED)
    return of_library or isinstance(module, MessagePassing | Aggregation)


def translate(module: nn.Module) -> Translation:
    """Translate one module; exact types only, since a subclass may compute something else."""
    if type(module) in TRANSLATORS:
        return TRANSLATORS[type(module)](module)
    hint = _NEAREST.get(type(module).__name__)
    if isinstance(module, MessagePassing) and not type(module).__module__.startswith("torch_"):
        hint = "it is a MessagePassing of its own; use a convolution of PyG"
    known = f"supported layers: {', '.join(supported_layers())}"
    raise UnsupportedLayerError(known if hint is None else f"{hint}; {known}")


def supported_layers() -> list[str]:
    """Names for error messages: classes of PyTorch and PyG."""
    return sorted({kind.__name__ for kind in (*TRANSLATORS, *COMPOSED)})


def _linear(layer: nn.Linear | Linear) -> Translation:
    weight = require_initialised(layer.weight)
    tensors = {"linear.weight": weight}
    if layer.bias is not None:
        tensors["linear.bias"] = layer.bias
    return Translation(
        LinearLayer(weight.shape[0], bias=layer.bias is not None),
        input_width=weight.shape[1],
        tensors=tensors,
    )


def _dropout(layer: nn.Dropout) -> Translation:
    if not layer.p < 1:
        raise UnsupportedLayerError(f"p={layer.p}; it must be below 1")
    return Translation(DropoutLayer(float(layer.p)) if layer.p else None)


def _pool(op: PoolOp) -> Callable[[nn.Module], Translation]:
    return lambda _layer: Translation(PoolLayer(op))


def _identity(_layer: nn.Identity) -> Translation:
    return Translation(None)


TRANSLATORS: dict[type, Callable[[Any], Translation]] = {
    **CONVOLUTIONS,
    **ACTIVATIONS,
    **NORMS,
    nn.Linear: _linear,
    Linear: _linear,
    nn.Dropout: _dropout,
    MeanAggregation: _pool("mean"),
    SumAggregation: _pool("sum"),
    MaxAggregation: _pool("max"),
    nn.Identity: _identity,
}
