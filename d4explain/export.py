"""`d4explain export`: a trained PyG model becomes a spec and weights that the API accepts.

The only module of this package that needs torch; what is written was first compared with the
original's own outputs.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch_geometric.nn import Sequential

from d4explain.errors import CommandError
from d4explain.export_layers import InexpressibleError, Needs, Translated, translate
from models.gnn.network import Gnn
from models.gnn.spec import (
    ActivationLayer,
    AddLayer,
    BatchNormLayer,
    DropoutLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GinLayer,
    GnnSpec,
    GraphConvLayer,
    GraphNormLayer,
    JumpLayer,
    KeepLayer,
    Layer,
    LayerNormLayer,
    LinearLayer,
    PoolLayer,
    SageLayer,
)
from models.graphs import Graph, SparseGraphs, to_sparse
from store.errors import InvalidInput
from store.gnn_spec import parse_spec
from store.weights import check_weights

TYPES: dict[type[Layer], str] = {
    GcnLayer: "gcn",
    GinLayer: "gin",
    SageLayer: "sage",
    GraphConvLayer: "graph_conv",
    GatLayer: "gat",
    GatV2Layer: "gatv2",
    LinearLayer: "linear",
    ActivationLayer: "activation",
    DropoutLayer: "dropout",
    BatchNormLayer: "batch_norm",
    LayerNormLayer: "layer_norm",
    GraphNormLayer: "graph_norm",
    PoolLayer: "pool",
    KeepLayer: "keep",
    AddLayer: "add",
    JumpLayer: "jump",
}
TOLERANCE = 1e-4  # of logits, relative to the largest; float32 in two orders of summation
SAMPLE_GRAPHS = 24


@dataclass(frozen=True)
class Exported:
    """What was written and how it compared with the original."""

    spec: Path
    weights: Path
    layers: int
    parameters: int
    graphs_compared: int
    largest_difference: float  # of the logits


@dataclass(frozen=True)
class _Step:
    """One layer of the original, in the order in which it is applied."""

    position: int  # in the outermost Sequential
    place: str
    original: Callable[..., Tensor]
    translated: Translated


def export(model: nn.Module, folder: Path, class_names: Sequence[str] | None = None) -> Exported:
    """Writes spec.json and weights.safetensors; what cannot be exported leaves nothing behind."""
    gnn: Gnn
    reference: Callable[[SparseGraphs], Tensor]
    if isinstance(model, Gnn):
        gnn, reference = model, partial(_rows, model)
    else:
        steps = _steps(model)
        reference, gnn = _reference(model, steps), _rebuild(steps)
    document = spec_document(gnn.spec, class_names)
    weights = save({name: value.contiguous() for name, value in gnn.state_dict().items()})
    try:
        check_weights(weights, parse_spec(document))  # the API's own gate
    except InvalidInput as error:
        raise CommandError(f"the API would refuse this model: {error}") from error
    graphs = _sample_graphs(gnn.spec.features)
    difference = _compare(model, gnn, reference, graphs)
    _write(folder, {"weights.safetensors": weights, "spec.json": _json(document)})
    return Exported(
        spec=folder / "spec.json",
        weights=folder / "weights.safetensors",
        layers=len(gnn.spec.layers),
        parameters=sum(parameter.numel() for parameter in gnn.parameters()),
        graphs_compared=len(graphs),
        largest_difference=difference,
    )


def _steps(model: nn.Module) -> list[_Step]:
    """The model as a chain of translated layers; all that cannot be expressed is named at once."""
    if isinstance(model, Sequential):
        outermost = [getattr(model, child.name) for child in model._children]
    elif type(model) is nn.Sequential:
        outermost = list(model)
    else:
        raise CommandError(
            f"{type(model).__name__} cannot be exported: its forward is code of its own",
            hint="write the model as torch_geometric.nn.Sequential of known layers",
        )
    steps, problems = [], []
    for position, outer in enumerate(outermost):
        for place, layer in _flat(f"layer {position}", outer):
            try:
                steps.append(_Step(position, place, layer, translate(layer)))
            except InexpressibleError as problem:
                problems.append(f"{place}: {problem}")
    if problems:
        raise CommandError("these layers cannot be expressed:\n  " + "\n  ".join(problems))
    return steps


def _flat(place: str, layer: Callable[..., Tensor]) -> Iterator[tuple[str, Callable[..., Tensor]]]:
    """A nested torch Sequential is the chain of its parts."""
    if type(layer) is nn.Sequential:
        for position, part in enumerate(layer):
            yield from _flat(f"{place}.{position}", part)
    else:
        name = getattr(layer, "__name__", None) or type(layer).__name__
        yield f"{place} ({name})", layer


@dataclass(frozen=True)
class _Inputs:
    """What a PyG Sequential calls the values, the edges and the nodes' graphs."""

    values: str
    edges: str | None
    batch: str | None


def _wiring(model: Sequential, steps: list[_Step]) -> _Inputs:
    """Each layer must take what the one before gave: the vocabulary knows chains only."""
    beside: dict[Needs, str] = {}
    previous: str | None = None
    for position, child in enumerate(model._children):
        inside = [step.translated.needs for step in steps if step.position == position]
        place = f"layer {position} takes ({', '.join(child.param_names)})"
        need = inside[0] if len(inside) == 1 else "nothing"
        wanted = 1 if need == "nothing" else 2
        if len(child.param_names) != wanted or len(child.return_names) != 1:
            raise CommandError(f"{place}; only a chain of layers can be expressed")
        if previous is not None and child.param_names[0] != previous:
            raise CommandError(
                f"{place}, but the layer before gives {previous}; only a chain can be"
            )
        if need != "nothing":
            name = beside.setdefault(need, child.param_names[1])
            if name != child.param_names[1] or name not in model.signature.param_dict:
                raise CommandError(f"{place}; {child.param_names[1]} must be an input of the model")
        previous = child.return_names[0]
    inputs = _Inputs(model._children[0].param_names[0], beside.get("edges"), beside.get("batch"))
    unknown = set(model.signature.param_dict) - {inputs.values, inputs.edges, inputs.batch}
    if unknown:
        raise CommandError(f"the input {', '.join(sorted(unknown))} cannot be expressed")
    return inputs


def _rebuild(steps: list[_Step]) -> Gnn:
    """Our GNN with the original's weights."""
    said = [step for step in steps if step.translated.layer is not None]
    widths = [step.translated.width for step in said if step.translated.width is not None]
    layers = tuple(step.translated.layer for step in said if step.translated.layer is not None)
    outs = [out for layer in layers if (out := _out(layer)) is not None]
    if not widths or not outs:
        raise CommandError("the model has no layer that gives the classes")
    try:
        spec = GnnSpec(features=widths[0], classes=outs[-1], layers=layers)
    except ValueError as error:
        raise CommandError(f"the layers do not make a classifier: {error}") from error
    state = {}
    for position, (step, width) in enumerate(zip(said, spec.widths(), strict=False)):
        if step.translated.width not in (None, width):
            takes = step.translated.width
            raise CommandError(f"{step.place} takes {takes} numbers per row, but gets {width}")
        for name, tensor in step.translated.tensors.items():
            if tensor.is_floating_point() and tensor.dtype != torch.float32:
                raise CommandError(
                    f"{step.place}: {name} is {tensor.dtype}; call model.float() first"
                )
            state[f"layers.{position}.{name}"] = tensor.detach().cpu().clone()
    gnn = Gnn(spec)
    gnn.load_state_dict(state)
    return gnn.eval()


def _out(layer: Layer) -> int | None:
    """How many numbers per row a layer gives, where it says so."""
    if isinstance(layer, GatLayer | GatV2Layer):
        return layer.width
    out: int | None = getattr(layer, "out", None)
    return out


def _reference(model: nn.Module, steps: list[_Step]) -> Callable[[SparseGraphs], Tensor]:
    """The original's own answer to graphs."""
    if isinstance(model, Sequential):
        inputs = _wiring(model, steps)

        def call(graphs: SparseGraphs) -> Tensor:
            given = {
                inputs.values: graphs.features,
                inputs.edges: graphs.edge_index,
                inputs.batch: graphs.graph_of_node,
            }
            answer: Tensor = model(*(given[name] for name in model.signature.param_dict))
            return answer

        return call

    def apply_in_turn(graphs: SparseGraphs) -> Tensor:
        # A torch Sequential passes no edges on; its layers say what they need.
        values = graphs.features
        for step in steps:
            match step.translated.needs:
                case "edges":
                    values = step.original(values, graphs.edge_index)
                case "batch":
                    values = step.original(values, graphs.graph_of_node)
                case "nothing":
                    values = step.original(values)
        return values

    return apply_in_turn


def _compare(
    model: nn.Module,
    gnn: Gnn,
    reference: Callable[[SparseGraphs], Tensor],
    graphs: Sequence[Graph],
) -> float:
    """The largest difference of logits in eval mode; more than rounding is refused."""
    batch = to_sparse(graphs)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            theirs, ours = reference(batch), _rows(gnn, batch)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = str(error).splitlines()[0]
        raise CommandError(f"the model fails on sample graphs: {reason}") from error
    finally:
        model.train(was_training)
    if theirs.shape != ours.shape:
        raise CommandError(f"the model gives {tuple(theirs.shape)}, its export {tuple(ours.shape)}")
    difference = float((theirs - ours).abs().max())
    if not difference <= TOLERANCE * max(1.0, float(theirs.abs().max())):
        raise CommandError(
            f"the export differs from the model by {difference:.2g}: nothing was written"
        )
    return difference


def _rows(gnn: Gnn, graphs: SparseGraphs) -> Tensor:
    """Logits of all graphs, or of all nodes of a node classifier."""
    logits: Tensor = gnn.node_logits(graphs) if gnn.spec.classifies_nodes else gnn(graphs)
    return logits


def _sample_graphs(features: int) -> list[Graph]:
    """Random graphs of 1 to 24 nodes, sparse to dense, with isolated nodes among them."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for size in range(1, SAMPLE_GRAPHS + 1):
        density = torch.rand((), generator=generator)
        pairs = torch.triu(torch.rand(size, size, generator=generator) < density, diagonal=1)
        features_of_nodes = torch.randn(size, features, generator=generator)
        graphs.append(Graph(features_of_nodes, pairs.nonzero().T.contiguous()))
    return graphs


def spec_document(spec: GnnSpec, class_names: Sequence[str] | None = None) -> dict[str, object]:
    """The spec as the API takes it."""
    document: dict[str, object] = {
        "task": "node" if spec.classifies_nodes else "graph",
        "features": spec.features,
        "classes": spec.classes,
        "layers": [{"type": TYPES[type(layer)], **asdict(layer)} for layer in spec.layers],
    }
    if class_names:
        if len(class_names) != spec.classes:
            raise CommandError(f"{len(class_names)} class names for {spec.classes} classes")
        document["class_names"] = list(class_names)
    return document


def _json(document: dict[str, object]) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """All files are safely on disk under other names before the first takes its own."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as aside:
        for name, data in files.items():
            with (Path(aside) / name).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for name in files:
            (Path(aside) / name).replace(folder / name)
