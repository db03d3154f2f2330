"""Node data sets: one graph with node classes, and one instance per node."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bench.data.splits import DataFormatError, DataMissingError, Part
from bench.gnns.recipes import target_recipe
from d4explain.gnn.graphs import Graph
from models.graphs.neighbourhoods import NodeInstance, instance

_MASKS = ("train_mask", "val_mask", "test_mask")
WEBKB_SPLITS = 10


@dataclass(frozen=True)
class NodeData:
    """A graph and the split of its nodes, each part in ascending order."""

    graph: Graph
    labels: Tensor  # [node] int64
    train: Tensor  # [node of the part] int64
    validation: Tensor
    test: Tensor

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1


@dataclass(frozen=True)
class WholeGraph:
    """The graph behind a node task's instances; an answer must also flip the node here."""

    data: NodeData
    train: tuple[NodeInstance, ...]
    validation: tuple[NodeInstance, ...]
    test: tuple[NodeInstance, ...]


def with_neighbourhoods(name: str, data: NodeData) -> WholeGraph:
    """Cut out the neighbourhood of each node that the data set's GNN sees."""
    spec = target_recipe(name).spec(data.graph.features.shape[1], data.classes)

    def instances_of(nodes: Tensor) -> tuple[NodeInstance, ...]:
        return tuple(
            instance(data.graph, node, spec.convolutions, receptive_field=spec.receptive_field)
            for node in nodes.tolist()
        )

    return WholeGraph(
        data,
        instances_of(data.train),
        instances_of(data.validation),
        instances_of(data.test),
    )


def labelled_instances(instances: tuple[NodeInstance, ...], labels: Tensor) -> Part:
    """The instances' graphs, labelled with the class of their target node; `labels` is [node]."""
    return Part([one.graph for one in instances], labels[nodes_of(instances)])


def nodes_of(instances: tuple[NodeInstance, ...]) -> Tensor:
    """Ids of the target nodes in the whole graph: [instance]."""
    return torch.tensor([int(one.nodes[0]) for one in instances], dtype=torch.int64)


def read_node_npz(path: Path) -> NodeData:
    """Read edge_index, x, y and three split masks from an npz file."""
    _require_file(path)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            stored = {key: arrays[key] for key in ("edge_index", "x", "y", *_MASKS)}
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DataFormatError(f"{path} is not a node data set: {error}") from error
    return _node_data(
        path,
        torch.from_numpy(stored["x"].astype(np.float32)),
        torch.from_numpy(stored["edge_index"].astype(np.int64)),
        torch.from_numpy(stored["y"].astype(np.int64)),
        [torch.from_numpy(stored[mask]) for mask in _MASKS],
    )


def read_webkb(path: Path, split: int) -> NodeData:
    """Read Geom-GCN's text files and one of its ten splits from a zip; normalise the word rows."""
    _require_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            table = _member(archive, "_node_feature_label.txt").decode().splitlines()[1:]
            edges = np.loadtxt(
                io.BytesIO(_member(archive, "_graph_edges.txt")), np.int64, skiprows=1, ndmin=2
            )
            with np.load(
                io.BytesIO(_member(archive, f"_{split}.npz")), allow_pickle=False
            ) as arrays:
                masks = [torch.from_numpy(arrays[mask].astype(bool)) for mask in _MASKS]
        rows = sorted((int(number), words, int(kind)) for number, words, kind in _cells(table))
        words = torch.tensor([[float(word) for word in row[1].split(",")] for row in rows])
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DataFormatError(f"{path} is not a zip of a WebKB graph: {error}") from error
    features = torch.nn.functional.normalize(words, dim=1)
    labels = torch.tensor([row[2] for row in rows])
    return _node_data(path, features, torch.from_numpy(edges.T.copy()), labels, masks)


def _cells(table: list[str]) -> list[list[str]]:
    return [line.split("\t") for line in table]


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise DataMissingError(f"{path} does not exist; set D4_DATA to the folder with the data")


def _member(archive: zipfile.ZipFile, ending: str) -> bytes:
    for name in archive.namelist():
        if name.endswith(ending):
            return archive.read(name)
    raise KeyError(f"no file that ends in {ending}")


def _node_data(
    path: Path, features: Tensor, directed: Tensor, labels: Tensor, masks: list[Tensor]
) -> NodeData:
    """Make the graph undirected, without self-loops and duplicate edges."""
    nodes = len(features)
    sizes = {len(labels), *(len(mask) for mask in masks)}
    if sizes != {nodes}:
        raise DataFormatError(
            f"{path}: labels and masks have {sorted(sizes)} entries for {nodes} nodes"
        )
    if directed.numel() and not 0 <= int(directed.min()) <= int(directed.max()) < nodes:
        raise DataFormatError(
            f"{path}: edges name nodes {int(directed.min())} to {int(directed.max())}, "
            f"there are {nodes}"
        )
    if bool((torch.stack(masks).sum(dim=0) > 1).any()):
        raise DataFormatError(f"{path}: a node is in two parts of the split")
    if not all(bool(mask.any()) for mask in masks):
        raise DataFormatError(f"{path}: a part of the split has no node")
    edges = torch.unique(directed[:, directed[0] != directed[1]].sort(dim=0).values, dim=1)
    train, validation, test = (mask.nonzero()[:, 0] for mask in masks)
    return NodeData(Graph(features, edges), labels, train, validation, test)
