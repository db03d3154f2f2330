"""Builds a GNN of the vocabulary from recorded operations, with the same weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from d4explain.errors import CommandError
from d4explain.export.model_runners import InputForm
from d4explain.export.tracing.recording import Operation
from d4explain.export.tracing.trace import renumbered
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import (
    ActivationLayer,
    ConstantLayer,
    GineLayer,
    GineSumLayer,
    GinLayer,
    GinSumLayer,
    GnnSpec,
    Layer,
    LinearLayer,
)
from d4explain.gnn.vocabulary.roles import reads_edge_attributes
from d4explain.layer_graph import EDGE_ATTRIBUTES, Inputs


def build_gnn(operations: Sequence[Operation], form: InputForm) -> Gnn:
    output = operations[-1]
    if output.rows not in ("graph", "node"):
        raise CommandError(f"{output.where} gives {output.rows} values; expected nodes or graphs")
    layers = [one.layer for one in operations if one.layer is not None]
    reads_edges = any(EDGE_ATTRIBUTES in one.inputs for one in operations)
    inputs = tuple(
        None if one.inputs == _default_inputs(layer, position) else one.inputs
        for position, (one, layer) in enumerate(zip(operations, layers, strict=True))
    )
    try:
        spec = GnnSpec(
            features=form.features,
            classes=2 if output.width == 1 else output.width,
            layers=tuple(layers),
            edge_features=form.edge_features if reads_edges else 0,
            inputs=inputs if any(read is not None for read in inputs) else (),
        )
    except ValueError as error:
        raise CommandError(f"the layers do not form a classifier: {error}") from error
    gnn = Gnn(spec)
    gnn.load_state_dict(_state_dict(operations))
    return gnn.eval()


def _default_inputs(layer: Layer, position: int) -> Inputs:
    """What the layer reads if the spec does not say it."""
    if isinstance(layer, ConstantLayer):
        return ()
    return (position, EDGE_ATTRIBUTES) if reads_edge_attributes(layer) else (position,)


def _state_dict(operations: Sequence[Operation]) -> dict[str, Tensor]:
    return {
        f"layers.{position}.{name}": tensor.detach().cpu().clone()
        for position, one in enumerate(operations)
        for name, tensor in one.tensors.items()
    }


def fused(operations: Sequence[Operation]) -> list[Operation]:
    """Joins GIN's sum, Linear, ReLU, Linear to one `gin` layer, and GINE's to `gine`."""
    current = list(operations)
    dropped: set[int] = set()
    for number, one in enumerate(current, 1):
        if not isinstance(one.layer, GinSumLayer | GineSumLayer):
            continue
        chain = _single_readers(current, number, 3)
        if len(chain) < 3 or not _is_mlp([current[k - 1].layer for k in chain]):
            continue
        first, _, second = (current[k - 1] for k in chain)
        layer = _gin(one.layer, first, second)
        tensors = dict(one.tensors)
        for place, linear in ((0, first), (2, second)):
            tensors[f"conv.nn.{place}.weight"] = linear.tensors["linear.weight"]
            tensors[f"conv.nn.{place}.bias"] = linear.tensors["linear.bias"]
        current[chain[-1] - 1] = Operation(
            layer, one.inputs, one.label, one.place, second.width, "node", second.result, tensors
        )
        dropped |= {number, *chain[:-1]}
    return renumbered(current, [n for n in range(1, len(current) + 1) if n not in dropped])


def _gin(
    layer: GinSumLayer | GineSumLayer, first: Operation, second: Operation
) -> GinLayer | GineLayer:
    if isinstance(layer, GinSumLayer):
        return GinLayer(second.width, first.width, layer.train_eps)
    return GineLayer(second.width, first.width, layer.train_eps, project=layer.project)


def _single_readers(operations: Sequence[Operation], number: int, most: int) -> list[int]:
    """The operations that follow, while each is the only reader of the one before it."""
    chain: list[int] = []
    for _ in range(most):
        readers = [k for k, one in enumerate(operations, 1) if number in one.inputs]
        if len(readers) != 1 or operations[readers[0] - 1].inputs != (number,):
            break
        number = readers[0]
        chain.append(number)
    return chain


def _is_mlp(layers: Sequence[Layer | None]) -> bool:
    first, middle, last = layers
    linears = all(isinstance(one, LinearLayer) and one.bias for one in (first, last))
    return linears and middle == ActivationLayer("relu")


def value_names(operations: Sequence[Operation], spec: GnnSpec) -> Mapping[int, str]:
    """Names of values that another layer than the next one reads, from the model's own names."""
    named: dict[int, str] = {}
    read_elsewhere = {number for read in spec.inputs if read is not None for number in read}
    for number in sorted(read_elsewhere):
        if number < 1:
            continue
        label = operations[number - 1].label.partition(" (")[0]
        base = re.sub(r"[^\w.]", "_", label).lstrip("0123456789.") or "value"
        name, count = base, 1
        while name in named.values() or name in ("x", "edge_attr"):
            count += 1
            name = f"{base}_{count}"
        named[number] = name
    return named


def check_model_tensors(tensors: Mapping[str, Tensor]) -> None:
    """All tensors must be initialised, and float32 if they are floats."""
    for name, tensor in tensors.items():
        if isinstance(tensor, torch.nn.UninitializedParameter):
            raise CommandError(
                f"{name.rpartition('.')[0]}: its input width is not known yet; "
                "run the model once first"
            )
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            raise CommandError(f"{name} is {tensor.dtype}; call model.float() first")
