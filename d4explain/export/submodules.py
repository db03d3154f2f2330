"""Flattens nested models, also those of PyG, to a chain of layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeGuard

from torch import nn
from torch_geometric.nn import GAT, GCN, GIN, MLP, PNA, GINConv, GINEConv, GraphSAGE, Linear
from torch_geometric.nn.models.basic_gnn import BasicGNN

from d4explain.export.convolutions import GinAround, GinSum
from d4explain.export.layers import Jump, translate
from d4explain.export.translation import InexpressibleError
from d4explain.gnn.spec import ActivationLayer

# A layer, a function, or a name such as "relu" or "keep".
Part: TypeAlias = nn.Module | Callable[..., Any] | str | GinAround | GinSum | Jump
Placed: TypeAlias = tuple[str, Part]

BASIC_GNNS = (GCN, GraphSAGE, GIN, GAT, PNA)


def flat(place: str, part: Part) -> Iterator[Placed]:
    """The part itself, or its inner parts; exact types only, as for layers."""
    inside: Iterator[Part] | None = None
    if type(part) is nn.Sequential:
        inside = iter(part)
    elif type(part) is MLP:
        inside = _mlp(part)
    elif type(part) in BASIC_GNNS:
        inside = _basic_gnn(part)
    elif type(part) in (GINConv, GINEConv):
        inside = _gin(part)
    if inside is None:
        yield f"{place} ({name_of(part)})", part
        return
    for position, inner in enumerate(inside):
        if isinstance(inner, GinAround | GinSum):
            yield f"{place} ({type(inner.conv).__name__})", inner
        else:
            yield from flat(f"{place}.{position}", inner)


def name_of(part: Part) -> str:
    if isinstance(part, str):
        return part
    return getattr(part, "__name__", None) or type(part).__name__


def _mlp(mlp: MLP) -> Iterator[Part]:
    for linear, norm, p in zip(mlp.lins, mlp.norms, mlp.dropout, strict=False):
        yield linear
        yield from _finished(mlp, norm)
        yield nn.Dropout(p) if p else nn.Identity()
    if mlp.plain_last:
        yield mlp.lins[-1]


def _basic_gnn(model: BasicGNN) -> Iterator[Part]:
    """The steps of `BasicGNN.forward`, in order."""
    jumps = hasattr(model, "jk")
    for position, (conv, norm) in enumerate(zip(model.convs, model.norms, strict=True)):
        yield conv
        if position < model.num_layers - 1 or model.jk_mode is not None:
            yield from _finished(model, norm)
            yield model.dropout if model.dropout.p else nn.Identity()
            if jumps:
                yield "keep"
    if jumps:
        yield model.jk
    if hasattr(model, "lin"):
        yield model.lin


def _finished(model: MLP | BasicGNN, norm: nn.Module) -> Iterator[Part]:
    """Norm and activation, in the order of the model."""
    act = nn.Identity() if model.act is None else model.act
    yield from (act, norm) if model.act_first else (norm, act)


def _gin(conv: GINConv | GINEConv) -> Iterator[Part]:
    """`gin` or `gine` if the nn fits, else the sum followed by the layers of the nn."""
    inside = [part for _, part in flat("nn", conv.nn) if type(part) is not nn.Identity]
    if len(inside) >= 3 and _is_linear(inside[0]) and _is_relu(inside[1]) and _is_linear(inside[2]):
        yield GinAround(conv, inside[0], inside[2])
        yield from inside[3:]
    else:
        yield GinSum(conv)
        yield from inside


def _is_linear(part: Part) -> TypeGuard[nn.Linear | Linear]:
    return type(part) in (nn.Linear, Linear) and getattr(part, "bias", None) is not None


def _is_relu(part: Part) -> bool:
    try:
        return translate(part).layer == ActivationLayer("relu")
    except InexpressibleError:
        return False
