"""`d4explain export`: converts a trained PyG model to a spec and weights that the API accepts.

The model runs on sample graphs; its modules and tensor functions are recorded and translated to
layers. Before anything is written, the outputs of the export are compared with the original's.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save
from torch import nn
from torch_geometric.data import Data

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.gnn_files.weights import check_weights
from d4explain.contracts.gnn_spec import parse_spec
from d4explain.errors import CommandError
from d4explain.export.comparison import compare, logits
from d4explain.export.gnn_builder import build_gnn, check_model_tensors, fused, value_names
from d4explain.export.model_runners import (
    EdgeArgument,
    InputForm,
    ModelInputs,
    ModelRunner,
    Original,
    make_runner,
    optional_arguments,
)
from d4explain.export.sample_inputs import (
    find_form,
    form_of_samples,
    graphs_to_trace,
    sample_graphs,
)
from d4explain.export.spec_document import spec_document
from d4explain.export.tracing.trace import Trace, trace
from d4explain.export.translators.translation import FinalActivation
from d4explain.gnn.graphs import Graph, SparseGraphs, to_sparse
from d4explain.gnn.network import Gnn
from d4explain.layer_graph import EDGE_ATTRIBUTES, FEATURES

__all__ = ["Exported", "export"]


@dataclass(frozen=True)
class Exported:
    """The written files and their comparison with the original."""

    spec: Path
    weights: Path
    layers: int
    parameters: int
    graphs_compared: int
    largest_difference: float  # of the outputs
    left_out: tuple[str, ...] = ()  # optional inputs of `forward` that were not passed


@dataclass(frozen=True)
class _Translated:
    gnn: Gnn
    final_activation: FinalActivation | None
    names: Mapping[int, str]
    original: Original
    samples: list[Graph]


def export(
    model: nn.Module,
    folder: Path,
    class_names: Sequence[str] | None = None,
    *,
    samples: Sequence[Data] | None = None,
    features: int | None = None,
    output: str | None = None,
) -> Exported:
    """Write spec.json and weights.safetensors; a failed export writes nothing.

    `samples` are graphs that the model reads; without them, random graphs are drawn and the number
    of features comes from the model's layers, or from `features`. `output` chooses one of several
    results by position or name. Warns if the model takes edge weights or attributes that do not
    reach its output.
    """
    with _in_eval_mode(model):
        translated = _translated(model, samples, features, output)
        gnn = translated.gnn
        document = spec_document(gnn.spec, class_names, translated.names)
        weights = save({name: value.contiguous() for name, value in gnn.state_dict().items()})
        try:
            check_weights(weights, parse_spec(document))  # as the API does
        except InvalidInput as error:
            raise CommandError(f"the API would refuse this model: {error}") from error
        graphs = _graphs_to_compare(translated)
        difference = compare(translated.original, gnn, translated.final_activation, graphs)
    _warn_about_unread_edges(translated.original.form, gnn, from_samples=bool(samples))
    _write(folder, {"weights.safetensors": weights, "spec.json": _json(document)})
    return Exported(
        spec=folder / "spec.json",
        weights=folder / "weights.safetensors",
        layers=len(gnn.spec.layers),
        parameters=sum(parameter.numel() for parameter in gnn.parameters()),
        graphs_compared=len(graphs),
        largest_difference=difference,
        left_out=_left_out(model, translated.original.form),
    )


@contextmanager
def _in_eval_mode(model: nn.Module) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _translated(
    model: nn.Module, samples: Sequence[Data] | None, features: int | None, output: str | None
) -> _Translated:
    if isinstance(model, Gnn):
        spec = model.spec
        argument: EdgeArgument | None = "edge_attr" if spec.edge_features else None
        form = InputForm(spec.features, spec.edge_features, argument)
        return _Translated(model, None, {}, Original(model, _gnn_runner(model), form), [])
    check_model_tensors(model.state_dict())
    run = make_runner(model)
    own: list[Graph] = []
    if samples:
        form, own = form_of_samples(samples)
    else:
        form = find_form(model, run, features)
    original = Original(model, run, form, output)
    traced = _checked_trace(original, own)
    operations = fused(traced.operations)
    gnn = build_gnn(operations, form)
    names = value_names(operations, gnn.spec)
    return _Translated(gnn, traced.final_activation, names, original, own)


def _checked_trace(original: Original, own: list[Graph]) -> Trace:
    """Traces on two batches; the steps must be the same, or they depend on the graphs."""
    first, second = (
        trace(
            original,
            to_sparse(own * batch or graphs_to_trace(original.model, original.form, batch)),
        )
        for batch in (1, 2)
    )
    pairs = zip(first.operations, second.operations, strict=False)
    for one, other in pairs:
        if (one.layer, one.inputs) != (other.layer, other.inputs):
            raise CommandError(
                f"{one.where} depends on the graph: {one.layer} on some graphs, {other.layer} on "
                "others; the steps and constants of a model must not depend on the graph"
            )
    if len(first.operations) != len(second.operations):
        raise CommandError(
            f"the model takes {len(first.operations)} steps on some graphs and "
            f"{len(second.operations)} on others; its steps must not depend on the graph"
        )
    return first


def _graphs_to_compare(translated: _Translated) -> list[Graph]:
    spec = translated.gnn.spec
    drawn = sample_graphs(
        translated.original.form, spec.embedded(FEATURES), spec.embedded(EDGE_ATTRIBUTES)
    )
    return [*translated.samples, *drawn]


def _left_out(model: nn.Module, form: InputForm) -> tuple[str, ...]:
    if isinstance(model, Gnn):
        return ()
    edges = [name for name in optional_arguments(model) if name in ("edge_attr", "edge_weight")]
    return tuple(name for name in edges if name != form.edge_argument)


def _warn_about_unread_edges(form: InputForm, gnn: Gnn, *, from_samples: bool) -> None:
    if form.edge_argument is None or gnn.spec.edge_features:
        return
    owner = "the samples have" if from_samples else "forward takes"
    warnings.warn(
        f"{owner} {form.edge_argument}, but the output of the model does not depend on it; the "
        "exported GNN does not read it",
        stacklevel=3,
    )


def _gnn_runner(gnn: Gnn) -> ModelRunner:
    def run(inputs: ModelInputs) -> object:
        attributes = inputs.edges.get("edge_attr")
        graphs = SparseGraphs(
            inputs.x, inputs.edge_index, inputs.batch, inputs.count, edge_attributes=attributes
        )
        return logits(gnn, graphs)[:, 1 if gnn.spec.binary else 0 :]

    return run


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
