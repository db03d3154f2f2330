"""Checks fields of single layers that depend on other fields, on widths or on other layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from d4explain.contracts.errors import Fault
from d4explain.contracts.gnn_layers import (
    ActivationDocument,
    AddDocument,
    AppnpDocument,
    EgnnDocument,
    GatDocument,
    GatV2Document,
    GcnDocument,
    GineDocument,
    GineSumDocument,
    GraphConvDocument,
    JumpDocument,
    KeepDocument,
    PnaDocument,
)
from d4explain.contracts.spec_checks.layer_types import SpecLayer
from d4explain.contracts.spec_checks.wiring import input_widths, inputs_of, nodes_of, widths_of
from d4explain.contracts.vocabulary.operations import (
    ColumnsDocument,
    CombineDocument,
    EmbeddingDocument,
)
from d4explain.contracts.vocabulary.spec_model import INPUT_NAMES, MAX_WIDTH
from d4explain.layer_graph import EDGE_ATTRIBUTES, FEATURES, rows_of_values

if TYPE_CHECKING:
    from d4explain.contracts.gnn_spec import GnnSpecDocument

# Jumps concatenate, and a jump of a jump doubles the width, so jumps need their own limit.
MAX_JUMP_WIDTH = 8 * MAX_WIDTH
# The dense form computes edge values for every pair of nodes and keeps them. OGB's models with
# 5 layers of 300 values need 7,500; for 100 nodes, 8,192 take 330 MB.
MAX_EDGE_VALUES = 8 * MAX_WIDTH


def field_faults(spec: GnnSpecDocument) -> list[Fault]:
    faults = []
    reading = zip(spec.layers, inputs_of(spec), input_widths(spec), strict=True)
    for i, (layer, read, widths) in enumerate(reading):
        faults += list(_layer_faults(layer, widths, f"/layers/{i}"))
        if isinstance(layer, EmbeddingDocument) and read[0] not in (FEATURES, EDGE_ATTRIBUTES):
            detail = f"reads another layer; an embedding reads {' or '.join(INPUT_NAMES)}"
            faults.append(Fault(f"/layers/{i}", detail))
    return faults


def _layer_faults(layer: SpecLayer, widths: Sequence[int], place: str) -> Iterator[Fault]:
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
            yield from _pna_faults(layer, widths[0], place)
        case GineDocument(project=False) | GineSumDocument(project=False):
            if widths[0] != widths[1]:
                sizes = f"{widths[1]} edge attributes would be added to {widths[0]} values"
                detail = f"is false, so {sizes}; the numbers must be equal"
                yield Fault(f"{place}/project", detail)
        case GcnDocument() | GraphConvDocument() | AppnpDocument() if widths[1:] not in ([], [1]):
            detail = f"the second input weighs edges and has 1 value per edge; got {widths[1]}"
            yield Fault(f"{place}/inputs/1", detail)
        case CombineDocument():
            yield from _combine_faults(layer, widths, place)
        case ColumnsDocument() if not layer.start < layer.stop <= widths[0]:
            detail = f"columns {layer.start} to {layer.stop} of {widths[0]} values"
            yield Fault(f"{place}/stop", f"{detail}; start < stop <= {widths[0]} is needed")
        case EmbeddingDocument() if layer.column >= widths[0]:
            yield Fault(f"{place}/column", f"is {layer.column}; there are {widths[0]} columns")
        case _:
            pass


def _combine_faults(layer: CombineDocument, widths: Sequence[int], place: str) -> Iterator[Fault]:
    listed = ", ".join(str(width) for width in widths)
    if layer.op == "concat":
        if sum(widths) > MAX_JUMP_WIDTH:
            total = f"the widths {listed} add up to {sum(widths)} values"
            yield Fault(place, f"{total}; at most {MAX_JUMP_WIDTH} are accepted")
    elif len(set(widths) - {1}) > 1:
        yield Fault(f"{place}/inputs", f"{layer.op} needs inputs of one width or 1; got {listed}")
    elif layer.op in ("subtract", "divide") and len(widths) != 2:
        yield Fault(f"{place}/inputs", f"{layer.op} needs two inputs; got {len(widths)}")


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
    """Edge attributes that no layer reads, or that are missing."""
    readers = [i for i, read in enumerate(inputs_of(spec)) if EDGE_ATTRIBUTES in read]
    count = spec.edge_features
    if count and not readers:
        hint = "gine and gine_sum do, and so do gat and gatv2 with edges and inputs of edge_attr"
        return [Fault("/edge_features", f"is {count}, but no layer reads edge attributes; {hint}")]
    if readers and not count:
        reader = f"{spec.layers[readers[0]].type} at position {readers[0]}"
        return [Fault("/edge_features", f"is 0, but {reader} reads edge attributes")]
    total = edge_value_count(spec)
    if total > MAX_EDGE_VALUES:
        detail = f"the layers compute {total:,} values per edge together"
        rule = f"at most {MAX_EDGE_VALUES:,} are accepted, because they exist for all node pairs"
        return [Fault("/layers", f"{detail}; {rule}")]
    return []


def edge_value_count(spec: GnnSpecDocument) -> int:
    """The width of all values that layers compute for edges."""
    rows, widths = rows_of_values(nodes_of(spec), inputs_of(spec)), widths_of(spec)
    return sum(widths[number] for number in rows if number > 0 and rows[number] == "edge")


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
    joined = kept if layer.last is None else kept[-layer.last :]
    widths = ", ".join(str(one) for one in joined)
    if layer.mode == "max" and len(set(joined)) > 1:
        return [Fault(f"{place}/mode", f"max needs kept values of one width; got {widths}")]
    if width > MAX_JUMP_WIDTH:
        total = f"the kept widths {widths} add up to {width} values per node"
        return [Fault(place, f"{total}; a jump returns at most {MAX_JUMP_WIDTH}")]
    return []
