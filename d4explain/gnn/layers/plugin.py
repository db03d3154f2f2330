"""A layer or a whole GNN of a plug-in."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from d4explain.gnn.errors import PluginLayerError
from d4explain.gnn.graphs import DenseGraphs, SparseGraphs
from d4explain.gnn.layers.forms import GraphLayer
from d4explain.gnn.spec import PluginLayer


class Plugin(GraphLayer):
    """Calls the plug-in's module like a PyG layer, and its method `dense` if it has one."""

    def __init__(self, _width: int, layer: PluginLayer) -> None:
        super().__init__()
        self._layer = layer
        self.module: nn.Module = layer.make()

    @property
    def has_dense(self) -> bool:
        return callable(getattr(self.module, "dense", None))

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result = self.module(values, graphs.edge_index, graphs.graph_of_node)
        rows = graphs.count if self._layer.pools else len(values)
        return self._checked("forward", result, (rows, self._layer.width))

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        dense: Any = self.module.dense
        result = dense(values, graphs.adjacency, graphs.mask)
        rows = graphs.mask.shape[:1] if self._layer.pools else graphs.mask.shape
        return self._checked("dense", result, (*rows, self._layer.width))

    def _checked(self, form: str, result: object, expected: tuple[int, ...]) -> Tensor:
        if not isinstance(result, Tensor):
            raise PluginLayerError(self._layer.name, form, type(result).__name__, expected)
        if tuple(result.shape) != expected:
            raise PluginLayerError(self._layer.name, form, str(tuple(result.shape)), expected)
        return result
