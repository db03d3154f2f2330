"""A GNN built from its spec, and its predictions on discrete graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.errors import NoMarkedNodeError
from models.gnn.filters import Egnn
from models.gnn.forms import GraphLayer, Rowwise
from models.gnn.layers import Add, Jump, Keep, build
from models.gnn.spec import GnnSpec
from models.graphs import DenseGraphs, Graph, SparseGraphs, to_sparse

# Rows (nodes and directed edges) of one sparse pass: a few tens of MB at usual widths.
_ROWS_PER_PASS = 100_000

# Numbers of one layer's output in a dense pass on the CPU: half a MB, so that layers hand their
# values on within the cache. Measured twice as fast as thousands of graphs at once.
_VALUES_PER_CPU_PASS = 130_000


Watch = Callable[[int, Tensor], None]  # position of a layer, what it gets


def _ignore(position: int, values: Tensor) -> None:
    pass


class Gnn(nn.Module):
    """The classifier that is explained; tensors are named `layers.<position in the spec>.…`.

    A node classifier answers for the marked node of each graph.
    """

    def __init__(self, spec: GnnSpec) -> None:
        super().__init__()
        self.spec = spec
        self._binary = spec.binary
        self.layers = nn.ModuleList(
            build(layer, width)
            for layer, width in zip(spec.layers, spec.widths()[:-1], strict=True)
        )

    def forward(self, graphs: SparseGraphs) -> Tensor:
        """Logits [graph, class] by PyG's own layers: the truth about every discrete graph."""
        rows = self._rows(graphs)
        return rows[_marked(graphs.targets)] if self.spec.classifies_nodes else rows

    def node_logits(self, graphs: SparseGraphs) -> Tensor:
        """Logits [node of all graphs, class] of a node classifier: what it is trained on."""
        if not self.spec.classifies_nodes:
            raise ValueError("this GNN has a pool and classifies graphs, not nodes")
        return self._rows(graphs)

    def dense(self, graphs: DenseGraphs) -> Tensor:
        """Logits [batch, class] as a differentiable function of a soft adjacency.

        Equal to `forward` where the adjacency is 0/1. The gradient with respect to entry [i, j]
        is that of the message j → i alone; an undirected edge's gradient is the sum of both.
        """
        self._require_eval()
        # Candidates of one graph share its features: what comes before the first edge is read is
        # the same for all, and of a thousand features per node it would be nearly all the work.
        shared = graphs.count > 1 and graphs.features.stride(0) == 0
        leading = self._leading() if shared else []
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

    def _require_eval(self) -> None:
        if self.training:
            raise RuntimeError(
                "the dense form is defined for eval mode only; this GNN is in training mode"
            )

    def _leading(self) -> list[Rowwise]:
        """The layers at the beginning that treat every node alone."""
        leading = []
        for layer in self.layers:
            if not isinstance(layer, Rowwise):
                break
            leading.append(layer)
        return leading

    def dense_states(self, graphs: DenseGraphs) -> tuple[Tensor, Tensor]:
        """Logits as `dense` gives them, and what all convolutions say about each node.

        [batch, class] and [batch, node, spec.state_width]; rows of padding hold anything.
        """
        self._require_eval()
        wanted = set(self.spec.state_positions)
        seen: list[Tensor] = []

        def watch(position: int, values: Tensor) -> None:
            if position in wanted:
                seen.append(values)

        logits = self._dense_pass(graphs, watch=watch)
        empty = graphs.features.new_empty(*graphs.mask.shape, 0)
        return logits, torch.cat([empty, *seen], dim=2)

    def _rows(self, graphs: SparseGraphs) -> Tensor:
        return self._chain(graphs.features, lambda layer, values: layer.sparse(values, graphs))

    def _dense_pass(self, graphs: DenseGraphs, first: int = 0, watch: Watch = _ignore) -> Tensor:
        """The layers from `first` on; the graphs' features are what those before it gave."""
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
        """The layers in turn, in the form that `apply` chooses; `watch` sees what each one gets.

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
    was_training = gnn.training
    gnn.eval()
    try:
        with torch.inference_mode():
            logits = [
                gnn(to_sparse(graphs[start:stop]).to(device)).cpu()
                for start, stop in _passes(graphs)
            ]
    finally:
        gnn.train(was_training)
    if not logits:
        return torch.empty(0, gnn.spec.classes)
    return torch.cat(logits).softmax(dim=1)


def predict_nodes(gnn: Gnn, graph: Graph, device: torch.device) -> Tensor:
    """A node classifier's probabilities of all nodes [node, class] on the CPU, in eval mode."""
    was_training = gnn.training
    gnn.eval()
    try:
        with torch.inference_mode():
            return gnn.node_logits(to_sparse([graph]).to(device)).cpu().softmax(dim=1)
    finally:
        gnn.train(was_training)


def _passes(graphs: Sequence[Graph]) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of graphs whose rows stay within one pass."""
    start, rows = 0, 0
    for position, graph in enumerate(graphs):
        size = graph.node_count + 2 * graph.edge_count
        if position > start and rows + size > _ROWS_PER_PASS:
            yield start, position
            start, rows = position, 0
        rows += size
    if graphs:
        yield start, len(graphs)


def _marked(targets: Tensor | None) -> Tensor:
    if targets is None:
        raise NoMarkedNodeError("a GNN without a pool classifies nodes and")
    return targets
