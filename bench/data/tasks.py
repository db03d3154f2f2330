"""Benchmark data sets as tasks: graphs with a seeded split, or nodes with a published split."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from bench.data.node_tasks import (
    WEBKB_SPLITS,
    NodeData,
    WholeGraph,
    labelled_instances,
    read_node_npz,
    read_webkb,
    with_neighbourhoods,
)
from bench.data.smiles import read_smiles
from bench.data.splits import DataMissingError, Part
from bench.data.synthetic import ba3motif
from bench.data.tu import read_tu
from d4explain.gnn.graphs import Graph

_ROLES = 4  # node roles in BA-3Motif: base and three positions in a motif
_ROLE_SEED = 3  # for the features of the published graphs; independent of the split


@dataclass(frozen=True)
class Task:
    """Labelled graphs in three parts; for a node task, the neighbourhoods of its nodes."""

    name: str
    classes: int
    train: Part
    validation: Part
    test: Part
    skipped: int = 0  # rows of the file that are not graphs
    whole: WholeGraph | None = None  # node tasks only

    @property
    def features(self) -> int:
        return self.train.graphs[0].features.shape[1]

    @property
    def digest(self) -> str:
        """Digest of the training and validation data, for cache keys."""
        content = hashlib.sha256()
        graphs = [*self.train.graphs, *self.validation.graphs]
        if self.whole is not None:
            data = self.whole.data
            graphs = [data.graph]
            content.update(torch.cat([data.train, data.validation]).numpy().tobytes())
        for part in (self.train, self.validation):
            content.update(part.labels.numpy().tobytes())
        for graph in graphs:
            content.update(graph.features.numpy().tobytes())
            content.update(graph.edges.contiguous().numpy().tobytes())
        return content.hexdigest()


def data_folder() -> Path:
    return Path(os.environ.get("D4_DATA", "../shared/data"))


def load_task(name: str, seed: int = 0) -> Task:
    """Load a benchmark by name, or a TU folder, TU zip or SMILES csv by path."""
    if name in _LOADERS:
        return _LOADERS[name](seed)
    path = Path(name)
    if path.suffix.lower() == ".csv":
        return split(path.stem.lower(), read_smiles(path), seed)
    if path.exists():
        return split(path.stem.lower(), read_tu(path), seed)
    raise DataMissingError(
        f"Unknown data set {name!r}; expected {', '.join(sorted(_LOADERS))}, "
        "or the path of a TU folder, TU zip or SMILES csv."
    )


def split(name: str, part: Part, seed: int) -> Task:
    """80 % train, 10 % validation, 10 % test, each at least one graph."""
    count = len(part.graphs)
    if count < 3:
        raise DataMissingError(f"{name}: a split needs at least 3 graphs; got {count}.")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    tenth = max(count // 10, 1)
    return Task(
        name,
        int(part.labels.max()) + 1,
        train=part.select(order[2 * tenth :]),
        validation=part.select(order[tenth : 2 * tenth]),
        test=part.select(order[:tenth]),
        skipped=part.skipped,
    )


def node_task(name: str, data: NodeData) -> Task:
    whole = with_neighbourhoods(name, data)
    return Task(
        name,
        data.classes,
        train=labelled_instances(whole.train, data.labels),
        validation=labelled_instances(whole.validation, data.labels),
        test=labelled_instances(whole.test, data.labels),
        whole=whole,
    )


def _ba3motif(name: str, features: Literal["constant", "role"]) -> Callable[[int], Task]:
    """Train on 2,200 generated graphs and the published `evaluation` part, test on `testing`.

    Without the published file, all graphs are generated.
    """

    def load_seed(seed: int) -> Task:
        generator = torch.Generator().manual_seed(seed)
        file = data_folder() / "BA3Motif_800.npz"
        generated = ba3motif(2200 if file.exists() else 3000, generator, features=features)
        new = Part(list(generated.graphs), generated.labels)
        if not file.exists():
            return split(name, new, seed)
        evaluation, testing = _published_ba3motif(file, features)
        rest = Part(new.graphs + evaluation.graphs, torch.cat([new.labels, evaluation.labels]))
        order = torch.randperm(len(rest.graphs), generator=generator)
        return Task(name, 3, rest.select(order[260:]), rest.select(order[:260]), testing)

    return load_seed


def _published_ba3motif(file: Path, features: Literal["constant", "role"]) -> tuple[Part, Part]:
    with np.load(file, allow_pickle=False) as arrays:
        stored = {
            key: arrays[key] for key in ("node_ptr", "edge_ptr", "edge_index", "y", "split", "role")
        }
    values = _node_features(torch.from_numpy(stored["role"].astype(np.int64)), features)
    graphs = []
    for position in range(len(stored["y"])):
        nodes = slice(stored["node_ptr"][position], stored["node_ptr"][position + 1])
        span = slice(stored["edge_ptr"][position], stored["edge_ptr"][position + 1])
        edges = torch.from_numpy(stored["edge_index"][:, span].astype(np.int64))
        graphs.append(Graph(values[nodes], edges))
    published = Part(graphs, torch.from_numpy(stored["y"]))
    split_of_graph = torch.from_numpy(stored["split"])
    return (
        published.select((split_of_graph == 0).nonzero()[:, 0]),
        published.select((split_of_graph == 1).nonzero()[:, 0]),
    )


def _node_features(roles: Tensor, features: Literal["constant", "role"]) -> Tensor:
    """A single 1, or ReFine's 0.25 · one-hot(role, 4) + 0.75 · uniform(0, 1): [node, feature]."""
    if features == "constant":
        return torch.ones(len(roles), 1)
    generator = torch.Generator().manual_seed(_ROLE_SEED)
    one_hot = torch.nn.functional.one_hot(roles, _ROLES).float()
    return 0.25 * one_hot + 0.75 * torch.rand(one_hot.shape, generator=generator)


def _tu(name: str, file: str) -> Callable[[int], Task]:
    return lambda seed: split(name, read_tu(data_folder() / file), seed)


def _smiles(name: str, file: str) -> Callable[[int], Task]:
    return lambda seed: split(name, read_smiles(data_folder() / file), seed)


def _masked(name: str, file: str) -> Callable[[int], Task]:
    """Uses the published split and ignores the seed."""
    return lambda _seed: node_task(name, read_node_npz(data_folder() / file))


def _webkb(name: str, file: str) -> Callable[[int], Task]:
    return lambda seed: node_task(name, read_webkb(data_folder() / file, seed % WEBKB_SPLITS))


_LOADERS: dict[str, Callable[[int], Task]] = {
    "ba3motif": _ba3motif("ba3motif", "constant"),
    "ba3motif_roles": _ba3motif("ba3motif_roles", "role"),
    "bbbp": _smiles("bbbp", "BBBP.csv"),
    "mutag": _tu("mutag", "MUTAG.zip"),
    "mutagenicity": _tu("mutagenicity", "Mutagenicity.zip"),
    "nci1": _tu("nci1", "NCI1.zip"),
    "proteins": _tu("proteins", "PROTEINS.zip"),
    "ba_shapes": _masked("ba_shapes", "BA_shapes.npz"),
    "tree_cycle": _masked("tree_cycle", "Tree_Cycle.npz"),
    "tree_grids": _masked("tree_grids", "Tree_Grids.npz"),
    "cornell": _webkb("cornell", "cornell.zip"),
}
TASKS = tuple(_LOADERS)
