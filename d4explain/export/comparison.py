"""Compares an export with the original model on graphs of many sizes and densities."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import Sequential

from d4explain.errors import CommandError
from d4explain.export.submodules import Part
from d4explain.export.translation import Ending
from d4explain.export.wiring import Inputs, needs_of
from d4explain.gnn.graphs import Graph, SparseGraphs, to_sparse
from d4explain.gnn.network import Gnn

TOLERANCE = 1e-4  # of logits, relative to the largest; float32 sums differ by their order
SAMPLE_GRAPHS = 24

Answer: TypeAlias = Callable[[SparseGraphs], Tensor]


def sample_graphs(features: int, edge_features: int = 0) -> list[Graph]:
    """Random graphs of 1 to 24 nodes, sparse to dense, some with isolated nodes."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for size in range(1, SAMPLE_GRAPHS + 1):
        density = torch.rand((), generator=generator)
        pairs = torch.triu(torch.rand(size, size, generator=generator) < density, diagonal=1)
        features_of_nodes = torch.randn(size, features, generator=generator)
        edges = pairs.nonzero().T.contiguous()
        carried = None
        if edge_features:
            carried = torch.randn(edges.shape[1], edge_features, generator=generator)
        graphs.append(Graph(features_of_nodes, edges, edge_attributes=carried))
    return graphs


def compare(
    model: nn.Module, answer: Answer, gnn: Gnn, ending: Ending | None, graphs: Sequence[Graph]
) -> float:
    """The largest difference of outputs in eval mode; raises if it exceeds rounding errors."""
    batch = to_sparse(graphs)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            theirs, ours = answer(batch), _ended(gnn, batch, ending)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise CommandError(f"the model fails on sample graphs: {reason}") from error
    finally:
        model.train(was_training)
    if not isinstance(theirs, Tensor):
        raise CommandError(f"the model gives a {type(theirs).__name__}; it must give a tensor")
    if theirs.dim() == 1 and ours.shape[1] == 1:
        theirs = theirs[:, None]
    if theirs.shape != ours.shape:
        raise CommandError(f"the model gives {tuple(theirs.shape)}, its export {tuple(ours.shape)}")
    difference = float((theirs - ours).abs().max())
    if not difference <= TOLERANCE * max(1.0, float(theirs.abs().max())):
        raise CommandError(
            f"the export differs from the model by {difference:.2g}: nothing was written"
        )
    return difference


def logits(gnn: Gnn, graphs: SparseGraphs) -> Tensor:
    """Logits of the graphs, or of all nodes for a node classifier."""
    return gnn.node_logits(graphs) if gnn.spec.classifies_nodes else gnn(graphs)


def _ended(gnn: Gnn, graphs: SparseGraphs, ending: Ending | None) -> Tensor:
    """Our logits in the form of the original: one value for two classes, or probabilities."""
    values = logits(gnn, graphs)
    if gnn.spec.binary:
        values = values[:, 1:]
    match ending:
        case "log_softmax":
            values = values.log_softmax(dim=1)
        case "softmax":
            values = values.softmax(dim=1)
        case "sigmoid":
            values = values.sigmoid()
        case None:
            pass
    return values


def answer_of_wired(model: Sequential, inputs: Inputs) -> Answer:
    def answer(graphs: SparseGraphs) -> Tensor:
        given = {
            inputs.values: graphs.features,
            inputs.edges: graphs.edge_index,
            inputs.attributes: graphs.edge_attributes,
            inputs.batch: graphs.graph_of_node,
        }
        result: Tensor = model(*(given[name] for name in model.signature.param_dict))
        return result

    return answer


def answer_in_turn(parts: Sequence[Part]) -> Answer:
    """Run a torch Sequential, and pass each layer the edges or batch that it needs."""

    def answer(graphs: SparseGraphs) -> Tensor:
        values = graphs.features
        beside = {
            "edges": graphs.edge_index,
            "attributes": graphs.edge_attributes,
            "batch": graphs.graph_of_node,
        }
        for part in parts:
            assert callable(part)
            values = part(values, *(beside[need] for need in needs_of(part) or []))
        return values

    return answer


def answer_of_forward(model: nn.Module) -> Answer:
    """Call `forward` by its parameter names: x, edge_index, edge_attr, batch, or one PyG batch."""
    parameters = inspect.signature(model.forward).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    names = {p.name for p in parameters} & {"x", "edge_index", "edge_attr", "batch"}
    if len(required) == 1 and required != ["x"]:
        return lambda graphs: model(_batch(graphs))
    if not set(required) <= names:
        raise CommandError(
            f"{type(model).__name__}.forward takes ({', '.join(required)}); "
            "export can give it x, edge_index, edge_attr and batch, or a PyG batch alone"
        )

    def answer(graphs: SparseGraphs) -> Tensor:
        given = {
            "x": graphs.features,
            "edge_index": graphs.edge_index,
            "edge_attr": graphs.edge_attributes,
            "batch": graphs.graph_of_node,
        }
        result: Tensor = model(**{name: given[name] for name in names})
        return result

    return answer


def _batch(graphs: SparseGraphs) -> Batch:
    ends = torch.bincount(graphs.graph_of_node, minlength=graphs.count).cumsum(0)
    return Batch(
        x=graphs.features,
        edge_index=graphs.edge_index,
        edge_attr=graphs.edge_attributes,
        batch=graphs.graph_of_node,
        ptr=torch.cat([ends.new_zeros(1), ends]),
    )
