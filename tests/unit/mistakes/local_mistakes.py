"""Mistakes that the client and `export` answer, without a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import networkx as nx
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GCNConv, SplineConv

from d4explain.client.graph_formats.posted_graphs import graph_list
from d4explain.errors import D4Error
from d4explain.export.exporter import export


@dataclass(frozen=True)
class LocalMistake:
    sent: str
    act: Callable[[], Any]
    says: tuple[str, ...]

    def answer(self) -> str:
        try:
            self.act()
        except D4Error as error:
            return str(error)
        raise AssertionError(f"{self.sent} was accepted")


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.head = GCNConv(3, 4), nn.Linear(4, 2)


class _Branches(_Net):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.conv(x, edge_index)
        if h.sum() > 0:
            h = h.relu()
        return self.head(h)


class _SeveralLabels(_Net):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return torch.sigmoid(self.head(self.conv(x, edge_index)))


class _AlwaysDropout(_Net):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.head(F.dropout(self.conv(x, edge_index)))


class _OtherArguments(_Net):
    def forward(self, nodes: Tensor, adjacency: Tensor) -> Tensor:
        return self.head(self.conv(nodes, adjacency))


class _Spline(_Net):
    def __init__(self) -> None:
        super().__init__()
        self.spline = SplineConv(3, 4, dim=1, kernel_size=2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.head(self.spline(x, edge_index, edge_attr))


def _exports(model: nn.Module, **options: Any) -> Callable[[], object]:
    def act() -> object:
        with TemporaryDirectory() as folder:
            return export(model, Path(folder), **options)

    return act


_EDGES = torch.tensor([[0, 1], [1, 0]])
_WEIGHTED = Data(torch.ones(2, 3), _EDGES, edge_weight=torch.tensor([0.5, 0.5]))

LOCAL = [
    LocalMistake(
        "a PyG `Data` with `edge_weight`",
        lambda: graph_list(_WEIGHTED),
        ("edge_weight", "edge_attr"),
    ),
    LocalMistake(
        "a PyG `HeteroData`", lambda: graph_list(HeteroData()), ("HeteroData", "to_homogeneous")
    ),
    LocalMistake(
        "a NetworkX graph with tuples as node ids",
        lambda: graph_list(nx.grid_2d_graph(2, 2)),
        ("(0, 0)", "integers or texts", "convert_node_labels_to_integers"),
    ),
    LocalMistake("a number instead of a graph", lambda: graph_list(3), ("a int", "a PyG Data")),
    LocalMistake("a model that branches on values", _exports(_Branches()), ("bool", "decides by")),
    LocalMistake(
        "a model with several labels", _exports(_SeveralLabels()), ("2 outputs", "one class per")
    ),
    LocalMistake(
        "dropout that is active after eval()",
        _exports(_AlwaysDropout()),
        ("training=self.training",),
    ),
    LocalMistake(
        "a forward with other arguments",
        _exports(_OtherArguments()),
        ("nodes, adjacency", "x, edge_index"),
    ),
    LocalMistake(
        "class names for another number of classes",
        _exports(GCNConv(3, 2), class_names=["a", "b", "c"]),
        ("3 class names for 2 classes",),
    ),
    LocalMistake(
        "a directed sample graph",
        _exports(GCNConv(3, 2), samples=[Data(torch.ones(2, 3), _EDGES[:, :1])]),
        ("directed", "undirected"),
    ),
]
