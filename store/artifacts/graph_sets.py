"""Serialises and hashes sets of graphs."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from d4explain.contracts.requests import CanonicalGraph

_UNLABELLED = -1


@dataclass(frozen=True)
class PackedGraphs:
    """Concatenated graphs; graph i has the nodes node_ptr[i]:node_ptr[i+1], likewise its edges."""

    node_ptr: NDArray[np.int64]  # [graph + 1]
    edge_ptr: NDArray[np.int64]  # [graph + 1]
    edges: NDArray[np.int64]  # [edge, 2], positions within their graph, source < target
    x: NDArray[np.float32]  # [node, feature]
    labels: NDArray[np.int64]  # [graph], −1 without a label
    edge_attr: NDArray[np.float32] | None = None  # [edge, attribute]

    @property
    def count(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class SetFigures:
    graph_count: int
    features: int
    edge_features: int
    label_counts: dict[str, int]
    max_nodes: int
    mean_nodes: float
    mean_edges: float


def pack(graphs: Sequence[CanonicalGraph]) -> bytes:
    """Serialises graphs; the same graphs always give the same bytes."""
    tensors: dict[str, NDArray[np.generic]] = {
        "node_ptr": _starts([len(graph.node_ids) for graph in graphs]),
        "edge_ptr": _starts([len(graph.edges) for graph in graphs]),
        "edges": np.concatenate([_edges(graph) for graph in graphs]),
        "x": np.concatenate([_features(graph) for graph in graphs]),
        "labels": np.array([_label(graph) for graph in graphs], dtype=np.int64),
        # JSON keeps integer ids and string ids apart.
        "node_ids": _text([graph.node_ids for graph in graphs]),
    }
    if width := _edge_width(graphs):
        carried = [_edge_attributes(graph).reshape(-1, width) for graph in graphs]
        tensors["edge_attr"] = np.concatenate(carried)
    molecules = [graph.molecule and graph.molecule.model_dump() for graph in graphs]
    if any(molecules):
        tensors["molecules"] = _text(molecules)
    return bytes(safetensors.numpy.save(tensors))


def arrays(data: bytes) -> PackedGraphs:
    tensors = safetensors.numpy.load(data)
    return PackedGraphs(
        node_ptr=tensors["node_ptr"],
        edge_ptr=tensors["edge_ptr"],
        edges=tensors["edges"],
        x=tensors["x"],
        labels=tensors["labels"],
        edge_attr=tensors.get("edge_attr"),
    )


def unpack(data: bytes, chosen: slice = slice(None)) -> list[CanonicalGraph]:
    """The graphs, or those at the chosen positions."""
    packed = arrays(data)
    tensors = safetensors.numpy.load(data)
    node_ids = json.loads(tensors["node_ids"].tobytes())
    stored = tensors.get("molecules")
    molecules = [None] * packed.count if stored is None else json.loads(stored.tobytes())
    return [
        CanonicalGraph(
            node_ids=node_ids[i],
            x=packed.x[packed.node_ptr[i] : packed.node_ptr[i + 1]].tolist(),
            edges=packed.edges[packed.edge_ptr[i] : packed.edge_ptr[i + 1]].tolist(),
            label=None if packed.labels[i] == _UNLABELLED else int(packed.labels[i]),
            molecule=molecules[i],
            edge_attr=(
                None
                if packed.edge_attr is None
                else packed.edge_attr[packed.edge_ptr[i] : packed.edge_ptr[i + 1]].tolist()
            ),
        )
        for i in range(packed.count)[chosen]
    ]


def canonical_graph_hash(graph: CanonicalGraph) -> str:
    """SHA-256 of node features, edges and edge attributes, in node order.

    Ids and label are not included.
    """
    features = _features(graph)
    content = hashlib.sha256(np.array(features.shape, dtype="<i8").tobytes())
    content.update(features.astype("<f4").tobytes())
    content.update(_edges(graph).astype("<i8").tobytes())
    if graph.edge_attr:
        content.update(b"edge_attr" + _edge_attributes(graph).astype("<f4").tobytes())
    return content.hexdigest()


def canonical_set_hash(graphs: Sequence[CanonicalGraph]) -> str:
    """SHA-256 of the graphs and labels in their order, without node ids."""
    lines = (f"{canonical_graph_hash(graph)} {_label(graph)}\n" for graph in graphs)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def describe(graphs: Sequence[CanonicalGraph]) -> SetFigures:
    labels = Counter(graph.label for graph in graphs if graph.label is not None)
    nodes = [len(graph.node_ids) for graph in graphs]
    return SetFigures(
        graph_count=len(graphs),
        features=len(graphs[0].x[0]),
        edge_features=_edge_width(graphs),
        label_counts={str(label): labels[label] for label in sorted(labels)},
        max_nodes=max(nodes),
        mean_nodes=sum(nodes) / len(graphs),
        mean_edges=sum(len(graph.edges) for graph in graphs) / len(graphs),
    )


def _text(content: list[Any]) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(content, separators=(",", ":")).encode(), dtype=np.uint8)


def _starts(sizes: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _edges(graph: CanonicalGraph) -> NDArray[np.int64]:
    return np.array(graph.edges, dtype=np.int64).reshape(-1, 2)


def _features(graph: CanonicalGraph) -> NDArray[np.float32]:
    # + 0 turns −0 into 0: equal features must hash alike.
    return np.array(graph.x, dtype=np.float32) + np.float32(0)


def _edge_attributes(graph: CanonicalGraph) -> NDArray[np.float32]:
    return np.array(graph.edge_attr, dtype=np.float32) + np.float32(0)


def _edge_width(graphs: Sequence[CanonicalGraph]) -> int:
    """Number of attributes per edge; 0 if edges have none."""
    return next((len(graph.edge_attr[0]) for graph in graphs if graph.edge_attr), 0)


def _label(graph: CanonicalGraph) -> int:
    return _UNLABELLED if graph.label is None else graph.label
