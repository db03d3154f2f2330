"""Read the TU text format (Morris et al. 2020): a folder or zip of `<NAME>_A.txt`, … files."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bench.data.splits import DataFormatError, DataMissingError, Part
from d4explain.gnn.graphs import Graph

_Table = npt.NDArray[np.int64]


def read_tu(path: Path) -> Part:
    """Node features are attributes and one-hot labels, or a single 1 if there are neither.

    Edges become undirected; self-loops and duplicates are dropped. Classes are numbered in label
    order.
    """
    files = _files(path)
    adjacency = _table(files, path, "_A.txt", columns=2) - 1
    graph_of_node = _table(files, path, "_graph_indicator.txt")[:, 0] - 1
    labels = _table(files, path, "_graph_labels.txt")[:, 0]
    _check(path, adjacency, graph_of_node, len(labels))
    features = _features(files, path, len(graph_of_node))  # [node, feature]
    _, classes = np.unique(labels, return_inverse=True)
    sizes = np.bincount(graph_of_node, minlength=len(labels))
    starts = np.cumsum(sizes) - sizes
    # Sorted by the smaller end, and therefore by graph, because node ids are grouped by graph.
    edges = np.unique(np.sort(adjacency[adjacency[:, 0] != adjacency[:, 1]], axis=1), axis=0)
    bounds = np.searchsorted(graph_of_node[edges[:, 0]], np.arange(len(labels) + 1))
    graphs = [
        Graph(
            features[starts[i] : starts[i] + sizes[i]],
            torch.from_numpy((edges[bounds[i] : bounds[i + 1]] - starts[i]).T.copy()),
        )
        for i in range(len(labels))
    ]
    return Part(graphs, torch.from_numpy(classes))


def _files(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        return {file.name: file.read_bytes() for file in sorted(path.rglob("*.txt"))}
    if not path.is_file():
        raise DataMissingError(f"{path} does not exist; set D4_DATA to the folder with the data")
    if not zipfile.is_zipfile(path):
        raise DataFormatError(f"{path} is neither a folder nor a zip")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".txt")}


def _table(files: dict[str, bytes], path: Path, ending: str, columns: int = 1) -> _Table:
    text = _text(files, ending)
    if text is None:
        raise DataFormatError(f"{path} has no file that ends in {ending}")
    table: _Table = _numbers(text, path, ending, np.int64)
    if table.shape[1] != columns:
        raise DataFormatError(f"{path}: {ending} has {table.shape[1]} columns, not {columns}")
    return table


def _features(files: dict[str, bytes], path: Path, nodes: int) -> Tensor:
    parts: list[Tensor] = []
    attributes = _text(files, "_node_attributes.txt")
    if attributes is not None:
        table = _numbers(attributes, path, "_node_attributes.txt", np.float32)
        parts.append(torch.from_numpy(table))
    labels = _text(files, "_node_labels.txt")
    if labels is not None:
        for column in _numbers(labels, path, "_node_labels.txt", np.int64).T:
            _, kinds = np.unique(column, return_inverse=True)
            parts.append(torch.nn.functional.one_hot(torch.from_numpy(kinds)).float())
    if not parts:
        return torch.ones(nodes, 1)
    for part in parts:
        if len(part) != nodes:
            raise DataFormatError(f"{path}: features of {len(part)} nodes for {nodes} nodes")
    return torch.cat(parts, dim=1)


def _text(files: dict[str, bytes], ending: str) -> str | None:
    return next((data.decode() for name, data in files.items() if name.endswith(ending)), None)


def _numbers(text: str, path: Path, ending: str, kind: type) -> npt.NDArray[Any]:
    try:
        return np.loadtxt(io.StringIO(text), delimiter=",", dtype=kind, ndmin=2)
    except ValueError as error:
        raise DataFormatError(f"{path}: {ending} is not a table of numbers: {error}") from error


def _check(path: Path, adjacency: _Table, graph_of_node: _Table, graphs: int) -> None:
    nodes = len(graph_of_node)
    if (np.diff(graph_of_node) < 0).any() or graph_of_node[0] < 0 or graph_of_node[-1] >= graphs:
        raise DataFormatError(
            f"{path}: the graph indicator must ascend from 1 to the {graphs} graph labels, "
            f"got {graph_of_node[0] + 1} to {graph_of_node[-1] + 1}"
        )
    if adjacency.min(initial=0) < 0 or adjacency.max(initial=0) >= nodes:
        raise DataFormatError(
            f"{path}: edges name nodes {adjacency.min() + 1} to {adjacency.max() + 1}, "
            f"there are {nodes}"
        )
    crossing = graph_of_node[adjacency[:, 0]] != graph_of_node[adjacency[:, 1]]
    if crossing.any():
        raise DataFormatError(f"{path}: {int(crossing.sum())} edges join nodes of two graphs")
