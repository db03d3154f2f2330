"""`d4explain export`: converts a trained PyG model to a spec and weights that the API accepts.

The export is compared with the outputs of the original before anything is written.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import save
from torch import nn
from torch_geometric.nn import Sequential

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.gnn_spec import parse_spec
from d4explain.contracts.weights import check_weights
from d4explain.errors import CommandError
from d4explain.export.comparison import (
    Answer,
    answer_in_turn,
    answer_of_forward,
    answer_of_wired,
    compare,
    logits,
    sample_graphs,
)
from d4explain.export.layers import Jump, translate
from d4explain.export.submodules import BASIC_GNNS, Part, Placed, flat
from d4explain.export.translation import Ending, InexpressibleError, Translated
from d4explain.export.wiring import unwired
from d4explain.gnn import spec as vocabulary
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import ActivationLayer, GatLayer, GatV2Layer, GnnSpec, Layer

__all__ = ["Chain", "Exported", "Jump", "export", "spec_document"]

TYPES: dict[type[Layer], str] = {
    vocabulary.GcnLayer: "gcn",
    vocabulary.GinLayer: "gin",
    vocabulary.GinSumLayer: "gin_sum",
    vocabulary.GineLayer: "gine",
    vocabulary.GineSumLayer: "gine_sum",
    vocabulary.SageLayer: "sage",
    vocabulary.GraphConvLayer: "graph_conv",
    vocabulary.GatLayer: "gat",
    vocabulary.GatV2Layer: "gatv2",
    vocabulary.PnaLayer: "pna",
    vocabulary.TagLayer: "tag",
    vocabulary.ChebLayer: "cheb",
    vocabulary.EgnnLayer: "egnn",
    vocabulary.LinearLayer: "linear",
    vocabulary.ActivationLayer: "activation",
    vocabulary.ShiftedReluLayer: "srelu",
    vocabulary.DropoutLayer: "dropout",
    vocabulary.BatchNormLayer: "batch_norm",
    vocabulary.LayerNormLayer: "layer_norm",
    vocabulary.GraphNormLayer: "graph_norm",
    vocabulary.PoolLayer: "pool",
    vocabulary.KeepLayer: "keep",
    vocabulary.AddLayer: "add",
    vocabulary.JumpLayer: "jump",
}


@dataclass(frozen=True)
class Chain:
    """A model with its own forward method, and the steps of that method in order.

    Parts are layers of the model, functions such as F.relu and global_mean_pool, or names: an
    activation, "keep" and "add" for residual connections, "log_softmax" at the end. A
    JumpingKnowledge joins all kept values; `Jump(layer, last=2)` joins the last two.
    """

    model: nn.Module
    parts: Sequence[Part]


@dataclass(frozen=True)
class Exported:
    """The written files and their comparison with the original."""

    spec: Path
    weights: Path
    layers: int
    parameters: int
    graphs_compared: int
    largest_difference: float  # of the logits


@dataclass(frozen=True)
class _Step:
    """One translated layer and its place in the original."""

    place: str
    translated: Translated


def export(
    model: nn.Module | Chain, folder: Path, class_names: Sequence[str] | None = None
) -> Exported:
    """Write spec.json and weights.safetensors; a failed export writes nothing."""
    whole = model.model if isinstance(model, Chain) else model
    ending: Ending | None = None
    if isinstance(model, Gnn):
        gnn, answer = model, _answer_of(model)
    else:
        parts, answer = _taken_apart(model)
        gnn, ending = _rebuild(_translated(parts))
    document = spec_document(gnn.spec, class_names)
    weights = save({name: value.contiguous() for name, value in gnn.state_dict().items()})
    try:
        check_weights(weights, parse_spec(document))  # as the API does
    except InvalidInput as error:
        raise CommandError(f"the API would refuse this model: {error}") from error
    graphs = sample_graphs(gnn.spec.features, gnn.spec.edge_features)
    difference = compare(whole, answer, gnn, ending, graphs)
    _write(folder, {"weights.safetensors": weights, "spec.json": _json(document)})
    return Exported(
        spec=folder / "spec.json",
        weights=folder / "weights.safetensors",
        layers=len(gnn.spec.layers),
        parameters=sum(parameter.numel() for parameter in gnn.parameters()),
        graphs_compared=len(graphs),
        largest_difference=difference,
    )


def _answer_of(gnn: Gnn) -> Answer:
    return lambda graphs: logits(gnn, graphs)[:, 1 if gnn.spec.binary else 0 :]


def _taken_apart(model: nn.Module | Chain) -> tuple[list[Placed], Answer]:
    """The parts in order, each with its place, and a function that runs the original."""
    if isinstance(model, Chain):
        return _numbered(model.parts), answer_of_forward(model.model)
    if isinstance(model, Sequential):
        parts, inputs = unwired(model)
        return parts, answer_of_wired(model, inputs)
    if type(model) is nn.Sequential:
        return _numbered(list(model)), answer_in_turn(list(model))
    if type(model) in BASIC_GNNS:
        return [(type(model).__name__, model)], answer_of_forward(model)
    raise CommandError(
        f"{type(model).__name__} cannot be exported: it has its own forward method",
        hint="list its steps: d4explain.export.Chain(model, [its layers in order])",
    )


def _numbered(parts: Sequence[Part]) -> list[Placed]:
    return [(f"layer {position}", part) for position, part in enumerate(parts)]


def _translated(parts: list[Placed]) -> list[_Step]:
    """Translate all parts; the error lists every part that cannot be expressed."""
    steps, problems = [], []
    for outer in parts:
        for place, part in flat(*outer):
            try:
                steps.append(_Step(place, translate(part)))
            except InexpressibleError as problem:
                problems.append(f"{place}: {problem}")
    if problems:
        raise CommandError("these layers cannot be expressed:\n  " + "\n  ".join(problems))
    return steps


def _rebuild(steps: list[_Step]) -> tuple[Gnn, Ending | None]:
    """Our GNN with the original's weights, and the function that ends the original."""
    endings = [step for step in steps if step.translated.ending is not None]
    if endings and (len(endings) > 1 or steps[-1] is not endings[0]):
        raise CommandError(f"{endings[0].place} can only be the last layer")
    ending = endings[0].translated.ending if endings else None
    said = [step for step in steps if step.translated.layer is not None]
    outputs = _outputs(said)
    if outputs == 1 and said[-1].translated.layer == ActivationLayer("sigmoid"):
        said, ending = said[:-1], "sigmoid"
    layers = tuple(step.translated.layer for step in said if step.translated.layer is not None)
    widths = [step.translated.width for step in said if step.translated.width is not None]
    try:
        spec = GnnSpec(
            features=widths[0],
            classes=2 if outputs == 1 else outputs,
            layers=layers,
            edge_features=_edge_features(said),
        )
    except ValueError as error:
        raise CommandError(f"the layers do not make a classifier: {error}") from error
    gnn = Gnn(spec)
    gnn.load_state_dict(_state(said, spec))
    return gnn.eval(), ending


def _edge_features(steps: list[_Step]) -> int:
    """The number of edge attributes, which must be the same for all layers that read them."""
    reading = [step for step in steps if step.translated.edge_width is not None]
    if not reading:
        return 0
    first = reading[0]
    for step in reading:
        if step.translated.edge_width != first.translated.edge_width:
            raise CommandError(
                f"{first.place} takes {first.translated.edge_width} attributes per edge and "
                f"{step.place} {step.translated.edge_width}; all layers must take the same"
            )
    return first.translated.edge_width or 0


def _outputs(steps: list[_Step]) -> int:
    """The output width of the last layer that sets one."""
    for step in reversed(steps):
        layer = step.translated.layer
        if isinstance(layer, GatLayer | GatV2Layer):
            return layer.width
        out: int | None = getattr(layer, "out", None)
        if out is not None:
            return out
    raise CommandError("the model has no layer that outputs the classes")


def _state(steps: list[_Step], spec: GnnSpec) -> dict[str, torch.Tensor]:
    state = {}
    for position, (step, width) in enumerate(zip(steps, spec.widths(), strict=False)):
        if step.translated.width not in (None, width):
            takes = step.translated.width
            raise CommandError(f"{step.place} takes {takes} numbers per row, but gets {width}")
        for name, tensor in step.translated.tensors.items():
            if tensor.is_floating_point() and tensor.dtype != torch.float32:
                raise CommandError(
                    f"{step.place}: {name} is {tensor.dtype}; call model.float() first"
                )
            state[f"layers.{position}.{name}"] = tensor.detach().cpu().clone()
    return state


def spec_document(spec: GnnSpec, class_names: Sequence[str] | None = None) -> dict[str, object]:
    """The spec as JSON for the API."""
    document: dict[str, object] = {
        "task": "node" if spec.classifies_nodes else "graph",
        "head": "binary" if spec.binary else "softmax",
        "features": spec.features,
        "classes": spec.classes,
        "layers": [_layer_document(layer) for layer in spec.layers],
    }
    if spec.edge_features:
        document["edge_features"] = spec.edge_features
    if class_names:
        if len(class_names) != spec.classes:
            raise CommandError(f"{len(class_names)} class names for {spec.classes} classes")
        document["class_names"] = list(class_names)
    return document


def _layer_document(layer: Layer) -> dict[str, object]:
    given = {name: x for name, x in asdict(layer).items() if x is not None}
    fields = {name: list(x) if isinstance(x, tuple) else x for name, x in given.items()}
    return {"type": TYPES[type(layer)], **fields}


def _json(document: dict[str, object]) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write all files to a temporary folder first, then move them into place."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as aside:
        for name, data in files.items():
            with (Path(aside) / name).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for name in files:
            (Path(aside) / name).replace(folder / name)
