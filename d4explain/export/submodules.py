"""Flattens nested modules, such as `nn.Sequential`, `MLP` and PyG's models, to single layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeGuard

from torch import nn
from torch_geometric.nn import GAT, GCN, GIN, MLP, PNA, GINConv, GINEConv, GraphSAGE, Linear
from torch_geometric.nn.models.basic_gnn import BasicGNN

from d4explain.export.convolutions import GinAround, GinSum
from d4explain.export.layers import Jump, translate
from d4explain.export.translation import GraphInput, UnsupportedLayerError
from d4explain.gnn.spec import ActivationLayer

# A layer, a function, or a name such as "relu" or "keep".
Part: TypeAlias = nn.Module | Callable[..., Any] | str | GinAround | GinSum | Jump
# A part and its position in the original, for error messages: "layer 2".
LabelledPart: TypeAlias = tuple[str, Part]

BASIC_GNNS = (GCN, GraphSAGE, GIN, GAT, PNA)


def flatten(label: str, part: Part) -> Iterator[LabelledPart]:
    """Yield the part itself, or its inner parts if its type is exactly one of the known ones."""
    inner_parts: Iterator[Part] | None = None
    if type(part) is nn.Sequential:
        inner_parts = iter(part)
    elif type(part) is MLP:
        inner_parts = _mlp_parts(part)
    elif type(part) in BASIC_GNNS:
        inner_parts = _basic_gnn_parts(part)
    elif type(part) in (GINConv, GINEConv):
        inner_parts = _gin_parts(part)
    if inner_parts is None:
        yield f"{label} ({_name(part)})", part
        return
    for position, inner in enumerate(inner_parts):
        if isinstance(inner, GinAround | GinSum):
            yield f"{label} ({type(inner.conv).__name__})", inner
        else:
            yield from flatten(f"{label}.{position}", inner)


def required_inputs(part: Part) -> list[GraphInput] | None:
    """The inputs of a part after the node values, in order; None if the part is unsupported."""
    try:
        needs = {translate(inner).needs for _, inner in flatten("", part)}
    except UnsupportedLayerError:
        return None
    if "edge_attr" in needs:
        needs.add("edge_index")
    order: tuple[GraphInput, ...] = ("edge_index", "edge_attr", "batch")
    return [name for name in order if name in needs]


def _name(part: Part) -> str:
    if isinstance(part, str):
        return part
    return getattr(part, "__name__", None) or type(part).__name__


def _mlp_parts(mlp: MLP) -> Iterator[Part]:
    """The steps of `MLP.forward`, in order."""
    for linear, norm, p in zip(mlp.lins, mlp.norms, mlp.dropout, strict=False):
        yield linear
        yield from _norm_and_activation(mlp, norm)
        yield nn.Dropout(p) if p else nn.Identity()
    if mlp.plain_last:
        yield mlp.lins[-1]


def _basic_gnn_parts(model: BasicGNN) -> Iterator[Part]:
    """The steps of `BasicGNN.forward`, in order."""
    has_jump = hasattr(model, "jk")
    for position, (conv, norm) in enumerate(zip(model.convs, model.norms, strict=True)):
        yield conv
        if position < model.num_layers - 1 or model.jk_mode is not None:
            yield from _norm_and_activation(model, norm)
            yield model.dropout if model.dropout.p else nn.Identity()
            if has_jump:
                yield "keep"
    if has_jump:
        yield model.jk
    if hasattr(model, "lin"):
        yield model.lin


def _norm_and_activation(model: MLP | BasicGNN, norm: nn.Module) -> Iterator[Part]:
    activation = nn.Identity() if model.act is None else model.act
    yield from (activation, norm) if model.act_first else (norm, activation)


def _gin_parts(conv: GINConv | GINEConv) -> Iterator[Part]:
    """One `gin` or `gine` layer if the nn starts with Linear, ReLU, Linear, else a sum layer.

    The other layers of the nn follow.
    """
    inner = [part for _, part in flatten("nn", conv.nn) if type(part) is not nn.Identity]
    if len(inner) >= 3 and _is_linear(inner[0]) and _is_relu(inner[1]) and _is_linear(inner[2]):
        yield GinAround(conv, inner[0], inner[2])
        yield from inner[3:]
    else:
        yield GinSum(conv)
        yield from inner


def _is_linear(part: Part) -> TypeGuard[nn.Linear | Linear]:
    return type(part) in (nn.Linear, Linear) and getattr(part, "bias", None) is not None


def _is_relu(part: Part) -> bool:
    try:
        return translate(part).layer == ActivationLayer("relu")
    except UnsupportedLayerError:
        return False
