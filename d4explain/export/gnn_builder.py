"""Builds a GNN of the vocabulary from the parts of a PyG model, with the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from d4explain.errors import CommandError
from d4explain.export.layers import translate
from d4explain.export.submodules import LabelledPart, flatten
from d4explain.export.translation import FinalActivation, Translation, UnsupportedLayerError
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import ActivationLayer, GatLayer, GatV2Layer, GnnSpec


@dataclass(frozen=True)
class _TranslatedPart:
    label: str  # position in the original, for error messages
    translation: Translation


def build_gnn(parts: Sequence[LabelledPart]) -> tuple[Gnn, FinalActivation | None]:
    """The GNN, which gives logits, and the activation that the original applies to them."""
    translated = _translate_all(parts)
    final_activation = _final_activation(translated)
    layer_parts = [part for part in translated if part.translation.layer is not None]
    output_width = _output_width(layer_parts)
    if output_width == 1 and layer_parts[-1].translation.layer == ActivationLayer("sigmoid"):
        layer_parts, final_activation = layer_parts[:-1], "sigmoid"
    translations = [part.translation for part in layer_parts]
    input_widths = [item.input_width for item in translations if item.input_width is not None]
    try:
        spec = GnnSpec(
            features=input_widths[0],
            classes=2 if output_width == 1 else output_width,
            layers=tuple(item.layer for item in translations if item.layer is not None),
            edge_features=_edge_features(layer_parts),
        )
    except ValueError as error:
        raise CommandError(f"the layers do not form a classifier: {error}") from error
    gnn = Gnn(spec)
    gnn.load_state_dict(_state_dict(layer_parts, spec))
    return gnn.eval(), final_activation


def _translate_all(parts: Sequence[LabelledPart]) -> list[_TranslatedPart]:
    """Translate all parts; the error lists every unsupported part."""
    translated, problems = [], []
    for outer_label, outer_part in parts:
        for label, part in flatten(outer_label, outer_part):
            try:
                translated.append(_TranslatedPart(label, translate(part)))
            except UnsupportedLayerError as problem:
                problems.append(f"{label}: {problem}")
    if problems:
        raise CommandError("these layers cannot be exported:\n  " + "\n  ".join(problems))
    return translated


def _final_activation(parts: list[_TranslatedPart]) -> FinalActivation | None:
    final = [part for part in parts if part.translation.final_activation is not None]
    if not final:
        return None
    if len(final) > 1 or parts[-1] is not final[0]:
        raise CommandError(f"{final[0].label} can only be the last layer")
    return final[0].translation.final_activation


def _output_width(parts: list[_TranslatedPart]) -> int:
    """The output width of the last layer that sets one."""
    for part in reversed(parts):
        layer = part.translation.layer
        if isinstance(layer, GatLayer | GatV2Layer):
            return layer.width
        out: int | None = getattr(layer, "out", None)
        if out is not None:
            return out
    raise CommandError("the model has no layer that outputs the classes")


def _edge_features(parts: list[_TranslatedPart]) -> int:
    """The number of edge attributes, which must be the same for all layers that read them."""
    readers = [part for part in parts if part.translation.edge_width is not None]
    if not readers:
        return 0
    first = readers[0]
    for part in readers:
        if part.translation.edge_width != first.translation.edge_width:
            raise CommandError(
                f"{first.label} takes {first.translation.edge_width} attributes per edge and "
                f"{part.label} {part.translation.edge_width}; all layers must take the same"
            )
    return first.translation.edge_width or 0


def _state_dict(parts: list[_TranslatedPart], spec: GnnSpec) -> dict[str, torch.Tensor]:
    state = {}
    for position, (part, width) in enumerate(zip(parts, spec.widths(), strict=False)):
        expected = part.translation.input_width
        if expected not in (None, width):
            raise CommandError(f"{part.label} takes {expected} values per row, but gets {width}")
        for name, tensor in part.translation.tensors.items():
            if tensor.is_floating_point() and tensor.dtype != torch.float32:
                raise CommandError(
                    f"{part.label}: {name} is {tensor.dtype}; call model.float() first"
                )
            state[f"layers.{position}.{name}"] = tensor.detach().cpu().clone()
    return state
