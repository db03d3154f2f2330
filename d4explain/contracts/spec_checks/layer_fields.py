"""Checks fields of single layers that depend on other fields, on widths or on other layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from d4explain.contracts.errors import Fault
from d4explain.contracts.gnn_layers import (
    MAX_WIDTH,
    ActivationDocument,
    AddDocument,
    EgnnDocument,
    GatDocument,
    GatV2Document,
    GineDocument,
    GineSumDocument,
    JumpDocument,
    KeepDocument,
    PnaDocument,
    reads_edge_attributes,
)
from d4explain.contracts.spec_checks.layer_types import SpecLayer
from d4explain.contracts.spec_checks.widths import widths_of

if TYPE_CHECKING:
    from d4explain.contracts.gnn_spec import GnnSpecDocument

# Jumps concatenate, and a jump of a jump doubles the width, so jumps need their own limit.
MAX_JUMP_WIDTH = 8 * MAX_WIDTH


def field_faults(spec: GnnSpecDocument) -> list[Fault]:
    faults = []
    for i, (layer, width) in enumerate(zip(spec.layers, widths_of(spec), strict=False)):
        faults += list(_layer_faults(layer, width, f"/layers/{i}"))
    return faults


def _layer_faults(layer: SpecLayer, width: int, place: str) -> Iterator[Fault]:
    match layer:
        case GatDocument() | GatV2Document() if layer.heads * layer.out > MAX_WIDTH:
            total = (
                f"{layer.heads} heads of {layer.out} values are {layer.heads * layer.out} values"
            )
            yield Fault(f"{place}/heads", f"{total}; all heads together have at most {MAX_WIDTH}")
        case ActivationDocument() if layer.slope is not None and layer.kind != "leaky_relu":
            yield Fault(f"{place}/slope", f"is for leaky_relu only, not for {layer.kind}")
        case EgnnDocument() if layer.alpha + layer.beta > 1:
            total = f"alpha {layer.alpha} + beta {layer.beta} is more than 1"
            yield Fault(f"{place}/beta", f"{total}; nothing would be left for the neighbours")
        case PnaDocument():
            yield from _pna_faults(layer, width, place)
        case _:
            pass


def _pna_faults(layer: PnaDocument, width: int, place: str) -> Iterator[Fault]:
    names: tuple[tuple[str, Sequence[str]], ...] = (
        ("aggregators", layer.aggregators),
        ("scalers", layer.scalers),
    )
    for field, values in names:
        if len(set(values)) < len(values):
            yield Fault(f"{place}/{field}", f"{', '.join(values)}: each may appear once")
    towers = f"{layer.towers} towers"
    if layer.out % layer.towers:
        yield Fault(f"{place}/towers", f"{towers} cannot share the {layer.out} values of out")
    if layer.divide_input and width % layer.towers:
        yield Fault(f"{place}/towers", f"{towers} cannot divide the {width} input values")


def edge_faults(spec: GnnSpecDocument) -> list[Fault]:
    """Edge attributes that no layer reads, that are missing, or that have the wrong width."""
    readers = [i for i, layer in enumerate(spec.layers) if reads_edge_attributes(layer)]
    count = spec.edge_features
    if count and not readers:
        hint = "gine and gine_sum do, and so do gat and gatv2 with edges"
        return [Fault("/edge_features", f"is {count}, but no layer reads edge attributes; {hint}")]
    if readers and not count:
        reader = f"{spec.layers[readers[0]].type} at position {readers[0]}"
        return [Fault("/edge_features", f"is 0, but {reader} reads edge attributes")]
    faults = []
    for i, (layer, width) in enumerate(zip(spec.layers, widths_of(spec), strict=False)):
        is_added = isinstance(layer, GineDocument | GineSumDocument) and not layer.project
        if is_added and width != count:
            sizes = f"{count} edge attributes would be added to {width} values"
            faults.append(
                Fault(f"/layers/{i}/project", f"is false, so {sizes}; the numbers must be equal")
            )
    return faults


def kept_faults(spec: GnnSpecDocument) -> list[Fault]:
    """Layers that read kept values but find none, or values of the wrong width."""
    faults = []
    widths = widths_of(spec)
    kept: list[int] = []  # widths
    for i, layer in enumerate(spec.layers):
        place, width = f"/layers/{i}", widths[i]
        if isinstance(layer, KeepDocument):
            kept.append(width)
        if not isinstance(layer, JumpDocument | AddDocument | EgnnDocument):
            continue
        if not kept:
            faults.append(Fault(place, f"{layer.type} at position {i} has no keep before it"))
        elif isinstance(layer, JumpDocument):
            faults += _jump_faults(layer, kept, widths[i + 1], place)
        else:
            used, which = (kept[-1], "last") if layer.type == "add" else (kept[0], "first")
            if used != width:
                sizes = f"{layer.type} gets {width} values per node but {used} were kept {which}"
                faults.append(Fault(place, f"{sizes}; the numbers must be equal"))
    return faults


def _jump_faults(layer: JumpDocument, kept: Sequence[int], width: int, place: str) -> list[Fault]:
    """Faults of a jump that returns `width` values per node."""
    if layer.last is not None and layer.last > len(kept):
        return [Fault(f"{place}/last", f"is {layer.last}, but {len(kept)} values were kept")]
    joined = layer.joined(kept)
    widths = ", ".join(str(one) for one in joined)
    if layer.mode == "max" and len(set(joined)) > 1:
        return [Fault(f"{place}/mode", f"max needs kept values of one width; got {widths}")]
    if width > MAX_JUMP_WIDTH:
        total = f"the kept widths {widths} add up to {width} values per node"
        return [Fault(place, f"{total}; a jump returns at most {MAX_JUMP_WIDTH}")]
    return []
