"""Describes two layers and a GNN to d4explain, without torch."""

from typing import Annotated

from pydantic import Field

from d4explain.plugins import ArchitecturePlugin, Fields, LayerPlugin


class Out(Fields):
    out: Annotated[int, Field(ge=1, le=256)]


class Hidden(Fields):
    hidden: Annotated[int, Field(ge=1, le=256)] = 16


def _gated(fields: Out, width: int) -> dict[str, tuple[int, ...]]:
    tensors: dict[str, tuple[int, ...]] = {
        "conv.bias": (fields.out,),
        "conv.lin_skip.weight": (fields.out, width),
    }
    for name in ("key", "query", "value"):
        tensors[f"conv.lin_{name}.weight"] = (fields.out, width)
        tensors[f"conv.lin_{name}.bias"] = (fields.out,)
    return tensors


def _extrema(fields: Out, width: int) -> dict[str, tuple[int, ...]]:
    tensors: dict[str, tuple[int, ...]] = {
        f"conv.lin{n}.weight": (fields.out, width) for n in (1, 2, 3)
    }
    return tensors | {f"conv.lin{n}.bias": (fields.out,) for n in (1, 3)}


def _two_pools(fields: Hidden, features: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {
        "conv.lin_rel.weight": (fields.hidden, features),
        "conv.lin_rel.bias": (fields.hidden,),
        "conv.lin_root.weight": (fields.hidden, features),
        "head.weight": (outputs, 2 * fields.hidden),
        "head.bias": (outputs,),
    }


gated = LayerPlugin(
    fields=Out,
    module="d4_example.modules:Gated",
    width=lambda fields, width: fields.out,
    tensors=_gated,
)

extrema = LayerPlugin(
    fields=Out,
    module="d4_example.modules:Extrema",
    width=lambda fields, width: fields.out,
    tensors=_extrema,
)

two_pools = ArchitecturePlugin(
    fields=Hidden, module="d4_example.modules:TwoPools", tensors=_two_pools
)
