"""A GNN built from its spec, and its predictions on discrete graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d4explain.gnn.errors import NoDenseFormError, NoMarkedNodeError
from d4explain.gnn.graphs import (
    DenseGraphs,
    Graph,
    SparseGraphs,
    is_shared,
    side_by_side,
    to_sparse,
)
from d4explain.gnn.layers.build import build_all
from d4explain.gnn.layers.filters import Egnn
from d4explain.gnn.layers.forms import GraphLayer, Rowwise, require_edge_attributes
from d4explain.gnn.layers.joins import Combine, Join
from d4explain.gnn.spec import GnnSpec, PluginLayer
from d4explain.layer_graph import EDGE_ATTRIBUTES, FEATURES, Inputs

# Rows (nodes and directed edges) of one sparse pass; they need tens of MB at usual widths.
_ROWS_PER_PASS = 100_000

# Numbers of one layer's output in a dense pass on the CPU. Half a MB stays in the cache between
# layers, which is twice as fast as thousands of graphs at once.
_VALUES_PER_CPU_PASS = 130_000


# Gets the number of a value and the value; returns what later layers read.
Watch = Callable[[int, Tensor], Tensor]
Graphs = TypeVar("Graphs", SparseGraphs, DenseGraphs)


def _unchanged(_number: int, values: Tensor) -> Tensor:
    return values


class Gnn(nn.Module):
    """The classifier to explain; tensors are named `layers.<position in the spec>.…`.

    A node classifier classifies the marked node of each graph.
    """

    def __init__(self, spec: GnnSpec) -> None:
        super().__init__()
        self.spec = spec
        self._binary = spec.binary
        self.layers = nn.ModuleList(build_all(spec))
        self._last_reader = {
            value: position for position, read in enumerate(spec.wiring) for value in read
        }
        # Without a dense form there are no gradients; plug-ins may lack one.
        graph_layers = [layer for layer in self.layers if isinstance(layer, GraphLayer)]
        self.has_dense = all(layer.has_dense for layer in graph_layers)

    def forward(self, graphs: SparseGraphs) -> Tensor:
        """Logits [graph, class] by PyG's own layers; they are the truth for discrete graphs."""
        rows = self._rows(graphs)
        return rows[_marked(graphs.targets)] if self.spec.classifies_nodes else rows

    def node_logits(self, graphs: SparseGraphs) -> Tensor:
        """Logits [node of all graphs, class] of a node classifier, for its training."""
        if not self.spec.classifies_nodes:
            raise ValueError("this GNN has a pool and classifies graphs, not nodes")
        return self._rows(graphs)

    def answers(self, graphs: DenseGraphs) -> Tensor:
        """Logits [batch, class] of 0/1 graphs, by the faster dense form if there is one."""
        if self.has_dense:
            return self.dense(graphs)
        ranges = _ranges(_sparse_rows(graphs))
        return torch.cat([self(side_by_side(graphs.select(part))) for part in ranges])

    def dense(self, graphs: DenseGraphs) -> Tensor:
        """Logits [batch, class] as a differentiable function of a soft adjacency.

        Equal to `forward` where the adjacency is 0/1. The gradient with respect to entry [i, j]
        is that of the message j → i alone; an undirected edge's gradient is the sum of both.
        """
        self._require_dense()
        shared = self._shared_values(graphs)
        if torch.is_grad_enabled() or graphs.adjacency.device.type != "cpu":
            return self._dense_pass(graphs, shared)
        size = max(_VALUES_PER_CPU_PASS // self._values_per_graph(graphs, shared), 1)
        ranges = [slice(start, start + size) for start in range(0, graphs.count, size)]
        if len(ranges) < 2:
            return self._dense_pass(graphs, shared)
        return torch.cat([self._dense_pass(graphs.select(part), shared) for part in ranges])

    def _require_dense(self) -> None:
        if not self.has_dense:
            names = [layer.name for layer in self.spec.layers if isinstance(layer, PluginLayer)]
            raise NoDenseFormError(names)
        if self.training:
            raise RuntimeError(
                "the dense form is defined for eval mode only; this GNN is in training mode"
            )

    def _shared_values(self, graphs: DenseGraphs) -> dict[int, Tensor]:
        """Values that are the same for all graphs of the batch, as a batch of one.

        Edited versions of one graph share its features and edge attributes, and so row-wise
        functions of them. With many features, these take most of the time.
        """
        shared = {
            number: values[:1] for number, values in _inputs(graphs).items() if is_shared(values)
        }
        if FEATURES not in shared:
            return {}
        for position, (layer, read) in enumerate(zip(self.layers, self.spec.wiring, strict=True)):
            if not read or any(number not in shared for number in read):
                continue
            if isinstance(layer, Rowwise):
                shared[position + 1] = layer.rows(shared[read[0]])
            elif isinstance(layer, Join):
                one = graphs.select(slice(0, 1))
                shared[position + 1] = layer.joined(self._operands(layer, read, shared, one))
        return shared

    def _values_per_graph(self, graphs: DenseGraphs, shared: Mapping[int, Tensor]) -> int:
        """Numbers of the largest value of one graph that is not shared."""
        nodes = graphs.mask.shape[1]
        return max(
            (
                nodes * width * (nodes if self.spec.rows[number] == "edge" else 1)
                for number, width in self.spec.value_widths.items()
                if number > 0 and number not in shared
            ),
            default=nodes,
        )

    def dense_states(self, graphs: DenseGraphs) -> tuple[Tensor, Tensor]:
        """Logits as in `dense`, and the outputs of all convolutions for each node.

        [batch, class] and [batch, node, spec.state_width]; rows of padding are undefined.
        """
        self._require_dense()
        seen: list[Tensor] = []
        logits = self._dense_pass(graphs, watch=self._collecting(seen))
        empty = graphs.features.new_empty(*graphs.mask.shape, 0)
        return logits, torch.cat([empty, *seen], dim=2)

    def sparse_states(self, graphs: DenseGraphs) -> tuple[Tensor, Tensor]:
        """As `dense_states`, for 0/1 graphs by the sparse form without gradients; padding is 0."""
        union = side_by_side(graphs)
        seen: list[Tensor] = []
        rows = self._rows(union, self._collecting(seen))
        logits = rows[_marked(union.targets)] if self.spec.classifies_nodes else rows
        states = graphs.features.new_zeros(*graphs.mask.shape, self.spec.state_width)
        states[graphs.mask] = torch.cat(
            [union.features.new_empty(len(union.features), 0), *seen], 1
        )
        return logits, states

    def _collecting(self, seen: list[Tensor]) -> Watch:
        numbers = set(self.spec.state_values)

        def watch(number: int, values: Tensor) -> Tensor:
            if number in numbers:
                seen.append(values)
            return values

        return watch

    def sparse_values(self, graphs: SparseGraphs, watch: Watch) -> Tensor:
        """The rows of the output by the sparse form; `watch` gets each layer's output first."""
        return self._rows(graphs, watch)

    def _rows(self, graphs: SparseGraphs, watch: Watch = _unchanged) -> Tensor:
        return self._evaluate(graphs, _inputs(graphs), _sparse, watch)

    def _dense_pass(
        self,
        graphs: DenseGraphs,
        shared: Mapping[int, Tensor] | None = None,
        watch: Watch = _unchanged,
    ) -> Tensor:
        """Evaluates all layers but those of `shared` values, which are batches of one."""
        known = _inputs(graphs)
        for number, values in (shared or {}).items():
            known[number] = values.expand(graphs.count, *values.shape[1:])
        rows = self._evaluate(graphs, known, _dense, watch)
        if not self.spec.classifies_nodes:
            return rows
        return rows[torch.arange(graphs.count, device=rows.device), _marked(graphs.targets)]

    def _evaluate(
        self,
        graphs: Graphs,
        known: dict[int, Tensor],
        form: Callable[[GraphLayer, Tensor, Graphs], Tensor],
        watch: Watch,
    ) -> Tensor:
        """The output in one of both forms, from known values; a value is freed after its last use.

        A binary head's value z becomes the logits 0 and z.
        """
        if self.spec.edge_features:
            require_edge_attributes(graphs.edge_attributes)
        values = dict(known)
        output = len(self.layers)
        for position, layer in enumerate(self.layers):
            number = position + 1
            read: Inputs = self.spec.wiring[position]
            if number not in values:
                operands = self._operands(layer, read, values, graphs)
                values[number] = watch(number, self._output_of(layer, operands, graphs, form))
            for one in {*read, number}:
                if one != output and self._last_reader.get(one, position) <= position:
                    values.pop(one, None)
        result = values[output]
        return F.pad(result, (1, 0)) if self._binary else result

    def _operands(
        self, layer: nn.Module, read: Inputs, values: Mapping[int, Tensor], graphs: Graphs
    ) -> list[Tensor]:
        operands = [values[one] for one in read]
        if isinstance(graphs, DenseGraphs) and isinstance(layer, Combine) and layer.op == "divide":
            rows = [self.spec.rows[one] for one in read]
            operands[1:] = [
                _ones_in_padding(divisor, kind, graphs.mask)
                for divisor, kind in zip(operands[1:], rows[1:], strict=True)
            ]
        return operands

    @staticmethod
    def _output_of(
        layer: nn.Module,
        read: list[Tensor],
        graphs: Graphs,
        form: Callable[[GraphLayer, Tensor, Graphs], Tensor],
    ) -> Tensor:
        match layer:
            case Join():
                return layer.joined(read)
            case Egnn():
                return form(layer, read[0], graphs) + layer.start(read[1])
            case GraphLayer() if len(read) > 1:  # the second value replaces the edge attributes
                return form(layer, read[0], replace(graphs, edge_attributes=read[1]))
            case GraphLayer():
                return form(layer, read[0], graphs)
            case _:
                raise TypeError(f"{type(layer).__name__} is not a layer of a GNN")


def _sparse(layer: GraphLayer, values: Tensor, graphs: SparseGraphs) -> Tensor:
    return layer.sparse(values, graphs)


def _dense(layer: GraphLayer, values: Tensor, graphs: DenseGraphs) -> Tensor:
    return layer.dense(values, graphs)


def _inputs(graphs: SparseGraphs | DenseGraphs) -> dict[int, Tensor]:
    """The values that a GNN starts from, by number."""
    values = {FEATURES: graphs.features}
    if graphs.edge_attributes is not None:
        values[EDGE_ATTRIBUTES] = graphs.edge_attributes
    return values


def _ones_in_padding(divisor: Tensor, rows: str, mask: Tensor) -> Tensor:
    """The divisor with ones in padding: 0/0 would be NaN there, and 0 · NaN reaches real nodes."""
    if rows == "node":
        return divisor.masked_fill(~mask[:, :, None], 1)
    if rows == "edge":
        return divisor.masked_fill(~(mask[:, :, None] & mask[:, None, :])[..., None], 1)
    return divisor


def predict(gnn: Gnn, graphs: Sequence[Graph], device: torch.device) -> Tensor:
    """Class probabilities [graph, class] on the CPU, by the sparse form in eval mode."""
    return predicted_logits(gnn, graphs, device).softmax(dim=1)


def predicted_logits(gnn: Gnn, graphs: Sequence[Graph], device: torch.device) -> Tensor:
    """Logits [graph, class] on the CPU, by the sparse form in eval mode."""
    was_training = gnn.training
    gnn.eval()
    try:
        with torch.inference_mode():
            logits = [
                gnn(to_sparse(graphs[some]).to(device)).cpu()
                for some in _ranges([graph.node_count + 2 * graph.edge_count for graph in graphs])
            ]
    finally:
        gnn.train(was_training)
    if not logits:
        return torch.empty(0, gnn.spec.classes)
    return torch.cat(logits)


def predict_nodes(gnn: Gnn, graph: Graph, device: torch.device) -> Tensor:
    """Class probabilities of all nodes [node, class] by a node classifier, on the CPU."""
    was_training = gnn.training
    gnn.eval()
    try:
        with torch.inference_mode():
            return gnn.node_logits(to_sparse([graph]).to(device)).cpu().softmax(dim=1)
    finally:
        gnn.train(was_training)


def _ranges(sizes: Sequence[int]) -> Iterator[slice]:
    """Consecutive ranges of graphs whose rows stay within one pass."""
    start, rows = 0, 0
    for position, size in enumerate(sizes):
        if position > start and rows + size > _ROWS_PER_PASS:
            yield slice(start, position)
            start, rows = position, 0
        rows += size
    if sizes:
        yield slice(start, len(sizes))


def _sparse_rows(graphs: DenseGraphs) -> list[int]:
    """Nodes and directed edges of each graph."""
    rows: list[int] = (graphs.mask.sum(1) + graphs.adjacency.sum((1, 2))).long().tolist()
    return rows


def _marked(targets: Tensor | None) -> Tensor:
    if targets is None:
        raise NoMarkedNodeError("a GNN without a pool classifies nodes and")
    return targets
