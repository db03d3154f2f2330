"""A GNN built from its spec, and its predictions on discrete graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

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
from d4explain.gnn.layers.build import build
from d4explain.gnn.layers.filters import Egnn
from d4explain.gnn.layers.forms import GraphLayer, Rowwise
from d4explain.gnn.layers.skip_connections import Add, Jump, Keep
from d4explain.gnn.spec import GnnSpec, PluginLayer

# Rows (nodes and directed edges) of one sparse pass; they need tens of MB at usual widths.
_ROWS_PER_PASS = 100_000

# Numbers of one layer's output in a dense pass on the CPU. Half a MB stays in the cache between
# layers, which is twice as fast as thousands of graphs at once.
_VALUES_PER_CPU_PASS = 130_000


Watch = Callable[[int, Tensor], None]  # position of a layer, its input


def _ignore(position: int, values: Tensor) -> None:
    pass


class Gnn(nn.Module):
    """The classifier to explain; tensors are named `layers.<position in the spec>.…`.

    A node classifier classifies the marked node of each graph.
    """

    def __init__(self, spec: GnnSpec) -> None:
        super().__init__()
        self.spec = spec
        self._binary = spec.binary
        self.layers = nn.ModuleList(
            build(layer, width, spec.edge_features)
            for layer, width in zip(spec.layers, spec.widths()[:-1], strict=True)
        )
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
        # Edited versions of one graph share its features. Layers before the first convolution
        # give the same values for all; with many features, they take most of the time.
        leading = self._leading() if is_shared(graphs.features) else []
        first = len(leading)
        if leading:
            values = graphs.features[:1]
            for layer in leading:
                values = layer.rows(values)
            graphs = replace(graphs, features=values.expand(graphs.count, -1, -1))
        if torch.is_grad_enabled() or graphs.adjacency.device.type != "cpu":
            return self._dense_pass(graphs, first)
        values_per_graph = graphs.mask.shape[1] * max(self.spec.widths()[first:])
        size = max(_VALUES_PER_CPU_PASS // values_per_graph, 1)
        ranges = [slice(start, start + size) for start in range(0, graphs.count, size)]
        if len(ranges) < 2:
            return self._dense_pass(graphs, first)
        return torch.cat([self._dense_pass(graphs.select(part), first) for part in ranges])

    def _require_dense(self) -> None:
        if not self.has_dense:
            names = [layer.name for layer in self.spec.layers if isinstance(layer, PluginLayer)]
            raise NoDenseFormError(names)
        if self.training:
            raise RuntimeError(
                "the dense form is defined for eval mode only; this GNN is in training mode"
            )

    def _leading(self) -> list[Rowwise]:
        """The first layers, up to the first that is not row-wise."""
        leading = []
        for layer in self.layers:
            if not isinstance(layer, Rowwise):
                break
            leading.append(layer)
        return leading

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
        positions = set(self.spec.state_positions)

        def watch(position: int, values: Tensor) -> None:
            if position in positions:
                seen.append(values)

        return watch

    def _rows(self, graphs: SparseGraphs, watch: Watch = _ignore) -> Tensor:
        return self._chain(
            graphs.features, lambda layer, values: layer.sparse(values, graphs), watch=watch
        )

    def _dense_pass(self, graphs: DenseGraphs, first: int = 0, watch: Watch = _ignore) -> Tensor:
        """Applies the layers from `first` on; the graphs' features are the input of `first`."""
        rows = self._chain(
            graphs.features, lambda layer, values: layer.dense(values, graphs), first, watch
        )
        if not self.spec.classifies_nodes:
            return rows
        return rows[torch.arange(graphs.count, device=rows.device), _marked(graphs.targets)]

    def _chain(
        self,
        values: Tensor,
        apply: Callable[[GraphLayer, Tensor], Tensor],
        first: int = 0,
        watch: Watch = _ignore,
    ) -> Tensor:
        """Applies the layers in the form that `apply` chooses; `watch` gets the input of each.

        A binary head's value z becomes the logits 0 and z.
        """
        kept: list[Tensor] = []
        for position, layer in enumerate(self.layers[first:], first):
            watch(position, values)
            match layer:
                case Keep():
                    kept.append(values)
                case Add():
                    values = values + kept[-1]
                case Jump():
                    values = layer.joined(kept)
                case Egnn():
                    values = apply(layer, values) + layer.start(kept[0])
                case GraphLayer():
                    values = apply(layer, values)
        return F.pad(values, (1, 0)) if self._binary else values


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
