"""Runs the original model on a batch of graphs, whatever inputs its `forward` takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import MessagePassing, Sequential
from torch_geometric.nn.aggr import Aggregation

from d4explain.errors import CommandError
from d4explain.gnn.graphs import SparseGraphs

EdgeArgument: TypeAlias = Literal["edge_attr", "edge_weight"]
_ARGUMENTS = ("x", "edge_index", "edge_attr", "edge_weight", "batch")


@dataclass(frozen=True)
class InputForm:
    """The graphs that a model reads."""

    features: int
    edge_features: int = 0
    edge_argument: EdgeArgument | None = None  # how the model takes edge attributes
    integer_features: bool = False  # whether x holds whole numbers
    integer_edges: bool = False
    casts: bool = False  # whether the model itself converts whole numbers to integers


@dataclass(frozen=True)
class ModelInputs:
    """Tensors of one batch, as the model takes them."""

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    count: int
    edges: dict[EdgeArgument, Tensor] = field(default_factory=dict)

    def by_name(self) -> dict[str, Tensor | None]:
        return {
            "x": self.x,
            "edge_index": self.edge_index,
            "batch": self.batch,
            "edge_attr": self.edges.get("edge_attr"),
            "edge_weight": self.edges.get("edge_weight"),
        }


ModelRunner: TypeAlias = Callable[[ModelInputs], Any]  # returns what the model returns


def model_inputs(graphs: SparseGraphs, form: InputForm, model: nn.Module) -> ModelInputs:
    device = next((one.device for one in model.parameters()), torch.device("cpu"))
    graphs = graphs.to(device)
    x = graphs.features.clone()
    if form.integer_features and not form.casts:
        x = x.long()
    edges: dict[EdgeArgument, Tensor] = {}
    if form.edge_argument is not None and graphs.edge_attributes is not None:
        values = graphs.edge_attributes.clone()
        if form.integer_edges and not form.casts:
            values = values.long()
        edges[form.edge_argument] = values if form.edge_argument == "edge_attr" else values[:, 0]
    return ModelInputs(x, graphs.edge_index.clone(), graphs.graph_of_node, graphs.count, edges)


@dataclass(frozen=True)
class Original:
    """The model to export, the graphs that it reads, and which of its results is exported."""

    model: nn.Module
    run: ModelRunner
    form: InputForm
    output: str | None = None

    def inputs(self, graphs: SparseGraphs) -> ModelInputs:
        return model_inputs(graphs, self.form, self.model)

    def outputs(self, graphs: SparseGraphs) -> Tensor:
        with torch.no_grad():
            return chosen_output(self.run(self.inputs(graphs)), self.output).cpu()


def make_runner(model: nn.Module) -> ModelRunner:
    if type(model) is nn.Sequential:
        return _sequential_runner(list(model))
    return _forward_runner(model)


def required_arguments(model: nn.Module) -> list[str]:
    """Parameters of `forward` without a default, or [] if it takes one PyG batch."""
    if type(model) is nn.Sequential:
        return ["x", "edge_index"]
    required = [
        p.name
        for p in inspect.signature(model.forward).parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    return [] if _takes_batch(required) else required


def optional_arguments(model: nn.Module) -> list[str]:
    """Parameters of `forward` with a default that export could pass."""
    if type(model) is nn.Sequential:
        return []
    named = inspect.signature(model.forward).parameters.values()
    return [p.name for p in named if p.default is not p.empty and p.name in _ARGUMENTS]


def _takes_batch(required: Sequence[str]) -> bool:
    return len(required) == 1 and required[0] != "x"


def _sequential_runner(parts: Sequence[nn.Module]) -> ModelRunner:
    """Runs the layers in order; convolutions also take the edges, pools and norms the batch."""

    def run(inputs: ModelInputs) -> Tensor:
        values: Tensor = inputs.x
        for part in parts:
            if isinstance(part, MessagePassing):
                values = part(values, inputs.edge_index)
            elif isinstance(part, Aggregation) or "batch" in _parameters(part):
                values = part(values, inputs.batch)
            else:
                values = part(values)
        return values

    return run


def _parameters(module: nn.Module) -> list[str]:
    return list(inspect.signature(module.forward).parameters)


def _forward_runner(model: nn.Module) -> ModelRunner:
    """Calls `forward` by its parameter names, or with one PyG batch."""
    signature = inspect.signature(model.forward)
    parameters = list(signature.parameters.values())
    if isinstance(model, Sequential):  # it names its inputs itself
        names = list(model.signature.param_dict)
        known = [name for name in names if name in _ARGUMENTS]
        unknown = [name for name in names if name not in _ARGUMENTS]
        if unknown:
            raise _unknown_arguments(model, names)
        return lambda inputs: model(*(inputs.by_name()[name] for name in known))
    required = required_arguments(model)
    if not required and parameters and parameters[0].name != "x":
        return lambda inputs: model(_pyg_batch(inputs))
    names = [p.name for p in parameters if p.name in _ARGUMENTS]
    if not set(required) <= set(names) or "x" not in names:
        raise _unknown_arguments(model, required)
    return lambda inputs: model(**{name: inputs.by_name()[name] for name in names})


def _unknown_arguments(model: nn.Module, names: Sequence[str]) -> CommandError:
    return CommandError(
        f"{type(model).__name__}.forward takes ({', '.join(names)}); export can pass "
        f"{', '.join(_ARGUMENTS)}, or a single PyG batch",
        hint="rename the parameters, or write a module whose forward has these names",
    )


def _pyg_batch(inputs: ModelInputs) -> Batch:
    ends = torch.bincount(inputs.batch, minlength=inputs.count).cumsum(0)
    given = {name: tensor for name, tensor in inputs.by_name().items() if tensor is not None}
    batch = Batch(**given, ptr=torch.cat([ends.new_zeros(1), ends]))
    batch._num_graphs = inputs.count
    return batch


def chosen_output(result: Any, output: str | None) -> Tensor:
    """The tensor that is exported: the only one, or the one of this position or name."""
    if output is not None:
        result = _part(result, output)
    elif isinstance(result, list | tuple) and len(result) == 1:
        result = result[0]
    if isinstance(result, Tensor):
        return result
    if isinstance(result, list | tuple):
        shapes = ", ".join(f"{i}: {_shape(one)}" for i, one in enumerate(result))
        parts = f"a {type(result).__name__} of {len(result)} ({shapes})"
    elif isinstance(result, dict):
        parts = f"a dict ({', '.join(f'{k}: {_shape(v)}' for k, v in result.items())})"
    else:
        parts = f"a {type(result).__name__}"
    raise CommandError(
        f"the model returns {parts}; expected a tensor",
        hint="choose the logits by their position or name: --output 0, export(…, output='0')",
    )


def _part(result: Any, output: str) -> Any:
    try:
        if isinstance(result, dict):
            return result[output]
        if isinstance(result, list | tuple) and output.lstrip("-").isdigit():
            return result[int(output)]
        return getattr(result, output)
    except (KeyError, IndexError, AttributeError):
        raise CommandError(f"the model's result, {_shape(result)}, has no {output!r}") from None


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return str(list(value.shape))
    if isinstance(value, dict):
        return f"dict of {', '.join(map(str, value))}"
    return (
        f"{type(value).__name__} of {len(value)}"
        if isinstance(value, list | tuple)
        else str(type(value).__name__)
    )
