"""`d4explain export`: converts a trained PyG model to a spec and weights that the API accepts.

Before anything is written, the outputs of the export are compared with those of the original.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save
from torch import nn
from torch_geometric.nn import Sequential

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.gnn_spec import parse_spec
from d4explain.contracts.weights import check_weights
from d4explain.errors import CommandError
from d4explain.export.comparison import compare, logits, sample_graphs
from d4explain.export.gnn_builder import build_gnn
from d4explain.export.layers import Jump
from d4explain.export.model_runners import (
    ModelRunner,
    forward_runner,
    pyg_sequential_runner,
    torch_sequential_runner,
)
from d4explain.export.pyg_sequential import sequential_to_chain
from d4explain.export.spec_document import spec_document
from d4explain.export.submodules import BASIC_GNNS, LabelledPart, Part
from d4explain.export.translation import FinalActivation
from d4explain.gnn.network import Gnn

__all__ = ["Chain", "Exported", "Jump", "export"]


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
    largest_difference: float  # of the outputs


def export(
    model: nn.Module | Chain, folder: Path, class_names: Sequence[str] | None = None
) -> Exported:
    """Write spec.json and weights.safetensors; a failed export writes nothing."""
    original = model.model if isinstance(model, Chain) else model
    final_activation: FinalActivation | None = None
    if isinstance(model, Gnn):
        gnn, run_model = model, _gnn_runner(model)
    else:
        parts, run_model = _parts_and_runner(model)
        gnn, final_activation = build_gnn(parts)
    document = spec_document(gnn.spec, class_names)
    weights = save({name: value.contiguous() for name, value in gnn.state_dict().items()})
    try:
        check_weights(weights, parse_spec(document))  # as the API does
    except InvalidInput as error:
        raise CommandError(f"the API would refuse this model: {error}") from error
    graphs = sample_graphs(gnn.spec.features, gnn.spec.edge_features)
    difference = compare(original, run_model, gnn, final_activation, graphs)
    _write(folder, {"weights.safetensors": weights, "spec.json": _json(document)})
    return Exported(
        spec=folder / "spec.json",
        weights=folder / "weights.safetensors",
        layers=len(gnn.spec.layers),
        parameters=sum(parameter.numel() for parameter in gnn.parameters()),
        graphs_compared=len(graphs),
        largest_difference=difference,
    )


def _gnn_runner(gnn: Gnn) -> ModelRunner:
    return lambda graphs: logits(gnn, graphs)[:, 1 if gnn.spec.binary else 0 :]


def _parts_and_runner(model: nn.Module | Chain) -> tuple[list[LabelledPart], ModelRunner]:
    """The parts in order, and a function that runs the original."""
    if isinstance(model, Chain):
        return _labelled(model.parts), forward_runner(model.model)
    if isinstance(model, Sequential):
        parts, input_names = sequential_to_chain(model)
        return parts, pyg_sequential_runner(model, input_names)
    if type(model) is nn.Sequential:
        return _labelled(list(model)), torch_sequential_runner(list(model))
    if type(model) in BASIC_GNNS:
        return [(type(model).__name__, model)], forward_runner(model)
    raise CommandError(
        f"{type(model).__name__} cannot be exported: it has its own forward method",
        hint="list its steps: d4explain.export.Chain(model, [its layers in order])",
    )


def _labelled(parts: Sequence[Part]) -> list[LabelledPart]:
    return [(f"layer {position}", part) for position, part in enumerate(parts)]


def _json(document: dict[str, object]) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write all files to a temporary folder first, then move them into place."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as temporary:
        for name, data in files.items():
            with (Path(temporary) / name).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for name in files:
            (Path(temporary) / name).replace(folder / name)
