"""Runs the original model on a batch of graphs, whatever inputs its `forward` takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import Sequential

from d4explain.errors import CommandError
from d4explain.export.pyg_sequential import InputNames
from d4explain.export.submodules import Part, required_inputs
from d4explain.gnn.graphs import SparseGraphs

ModelRunner: TypeAlias = Callable[[SparseGraphs], Tensor]  # returns the outputs of the model


def pyg_sequential_runner(model: Sequential, names: InputNames) -> ModelRunner:
    def run(graphs: SparseGraphs) -> Tensor:
        inputs = _inputs(graphs)
        by_name = {
            names.x: inputs["x"],
            names.edge_index: inputs["edge_index"],
            names.edge_attr: inputs["edge_attr"],
            names.batch: inputs["batch"],
        }
        result: Tensor = model(*(by_name[name] for name in model.signature.param_dict))
        return result

    return run


def torch_sequential_runner(parts: Sequence[Part]) -> ModelRunner:
    """Run the layers in order; pass each one the edges, edge attributes or batch that it needs."""

    def run(graphs: SparseGraphs) -> Tensor:
        inputs = _inputs(graphs)
        values = graphs.features
        for part in parts:
            assert callable(part)
            values = part(values, *(inputs[name] for name in required_inputs(part) or []))
        return values

    return run


def forward_runner(model: nn.Module) -> ModelRunner:
    """Call `forward` by its parameter names: x, edge_index, edge_attr, batch, or one PyG batch."""
    parameters = inspect.signature(model.forward).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    names = {p.name for p in parameters} & {"x", "edge_index", "edge_attr", "batch"}
    if len(required) == 1 and required != ["x"]:
        return lambda graphs: model(_pyg_batch(graphs))
    if not set(required) <= names:
        raise CommandError(
            f"{type(model).__name__}.forward takes ({', '.join(required)}); "
            "export can pass x, edge_index, edge_attr and batch, or a single PyG batch"
        )

    def run(graphs: SparseGraphs) -> Tensor:
        inputs = _inputs(graphs)
        result: Tensor = model(**{name: inputs[name] for name in names})
        return result

    return run


def _inputs(graphs: SparseGraphs) -> dict[str, Tensor | None]:
    return {
        "x": graphs.features,
        "edge_index": graphs.edge_index,
        "edge_attr": graphs.edge_attributes,
        "batch": graphs.graph_of_node,
    }


def _pyg_batch(graphs: SparseGraphs) -> Batch:
    ends = torch.bincount(graphs.graph_of_node, minlength=graphs.count).cumsum(0)
    return Batch(**_inputs(graphs), ptr=torch.cat([ends.new_zeros(1), ends]))
