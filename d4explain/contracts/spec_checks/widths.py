"""Input and output widths of the layers of a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from d4explain.contracts.gnn_layers import (
    ConvolutionDocument,
    GatDocument,
    GatV2Document,
    GineSumDocument,
    GinSumDocument,
    JumpDocument,
    KeepDocument,
    LinearDocument,
)
from d4explain.contracts.plugins import LayerPlugin
from d4explain.contracts.spec_checks.layer_types import PluginDocument, SpecLayer

if TYPE_CHECKING:
    from d4explain.contracts.gnn_spec import GnnSpecDocument


def widths_of(spec: GnnSpecDocument) -> list[int]:
    """The input width of each layer, then the output width of the last one."""
    widths = [spec.features]
    kept: list[int] = []
    for layer in spec.layers:
        if isinstance(layer, KeepDocument):
            kept.append(widths[-1])
        widths.append(_output_width(layer, widths[-1], kept, outputs_of(spec)))
    return widths


def outputs_of(spec: GnnSpecDocument) -> int:
    """The number of values that the last layer must return."""
    return 1 if spec.head == "binary" else spec.classes


def _output_width(layer: SpecLayer, width: int, kept: list[int], outputs: int) -> int:
    match layer:
        case GatDocument() | GatV2Document():
            width = layer.width
        case GinSumDocument() | GineSumDocument():
            pass
        case LinearDocument():
            width = layer.out
        case JumpDocument(mode="cat"):
            width = sum(layer.joined(kept))
        case JumpDocument(mode="max"):
            width = max(layer.joined(kept), default=0)
        case PluginDocument(plugin=LayerPlugin() as plugin):
            width = plugin.width(layer.fields, width)
        case PluginDocument():
            width = outputs
        case _ if isinstance(layer, ConvolutionDocument):
            width = layer.out
        case _:
            pass
    return width
