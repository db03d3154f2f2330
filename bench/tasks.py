"""The benchmark data sets as graph-classification tasks with a seeded split."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from models.graphs import Graph
from models.synthetic import ba3motif


@dataclass(frozen=True)
class Part:
    graphs: list[Graph]
    labels: Tensor  # [graph] int64


@dataclass(frozen=True)
class Task:
    name: str
    classes: int
    train: Part
    validation: Part
    test: Part

    @property
    def features(self) -> int:
        return self.train.graphs[0].features.shape[1]


class DataMissingError(Exception):
    """The benchmark files are not where D4_DATA says."""


def data_folder() -> Path:
    return Path(os.environ.get("D4_DATA", "../shared/data"))


def load(name: str, seed: int = 0) -> Task:
    """A benchmark by name, or any zip in the TU text format by its path."""
    if name in _LOADERS:
        return _LOADERS[name](seed)
    if Path(name).is_file():
        return _tu_task(Path(name), seed)
    known = ", ".join(sorted(_LOADERS))
    raise DataMissingError(f"no data set {name!r}; known are {known}, or the path of a TU zip")


def _ba3motif(seed: int) -> Task:
    """2,200 generated graphs and the published `evaluation` part train, the `testing` part tests.

    Without the published file all graphs are generated.
    """
    generator = torch.Generator().manual_seed(seed)
    file = data_folder() / "BA3Motif_800.npz"
    generated = ba3motif(2200 if file.exists() else 3000, generator)
    made = Part(list(generated.graphs), generated.labels)
    if not file.exists():
        return _split("ba3motif", made, seed)
    evaluation, testing = _published_ba3motif(file)
    rest = Part(made.graphs + evaluation.graphs, torch.cat([made.labels, evaluation.labels]))
    order = torch.randperm(len(rest.graphs), generator=generator)
    return Task("ba3motif", 3, _select(rest, order[260:]), _select(rest, order[:260]), testing)


def _published_ba3motif(file: Path) -> tuple[Part, Part]:
    with np.load(file, allow_pickle=False) as arrays:
        stored = {key: arrays[key] for key in ("node_ptr", "edge_ptr", "edge_index", "y", "split")}
    graphs = []
    for position in range(len(stored["y"])):
        nodes = int(stored["node_ptr"][position + 1] - stored["node_ptr"][position])
        span = slice(stored["edge_ptr"][position], stored["edge_ptr"][position + 1])
        edges = torch.from_numpy(stored["edge_index"][:, span].astype(np.int64))
        graphs.append(Graph(torch.ones(nodes, 1), edges))
    everything = Part(graphs, torch.from_numpy(stored["y"]))
    split = torch.from_numpy(stored["split"])
    return _select(everything, (split == 0).nonzero()[:, 0]), _select(
        everything, (split == 1).nonzero()[:, 0]
    )


def _tu(file: str) -> Callable[[int], Task]:
    return lambda seed: _tu_task(data_folder() / file, seed)


def _tu_task(file: Path, seed: int) -> Task:
    """A zip in the TU text format; node labels become one-hot features."""
    if not file.exists():
        raise DataMissingError(f"{file} does not exist; set D4_DATA to the folder with the data")
    with zipfile.ZipFile(file) as archive:
        adjacency = _column_file(archive, "_A.txt", columns=2) - 1
        graph_of_node = _column_file(archive, "_graph_indicator.txt")[:, 0] - 1
        labels = _column_file(archive, "_graph_labels.txt")[:, 0]
        node_labels = _column_file(archive, "_node_labels.txt")[:, 0]
    _, classes = np.unique(labels, return_inverse=True)
    _, kinds = np.unique(node_labels, return_inverse=True)
    one_hot = torch.nn.functional.one_hot(torch.from_numpy(kinds)).float()
    sizes = np.bincount(graph_of_node, minlength=len(labels))
    starts = np.cumsum(sizes) - sizes
    once = np.unique(np.sort(adjacency[adjacency[:, 0] != adjacency[:, 1]], axis=1), axis=0)
    order = np.argsort(graph_of_node[once[:, 0]], kind="stable")
    once = once[order]
    bounds = np.searchsorted(graph_of_node[once[:, 0]], np.arange(len(labels) + 1))
    graphs = [
        Graph(
            one_hot[starts[i] : starts[i] + sizes[i]],
            torch.from_numpy((once[bounds[i] : bounds[i + 1]] - starts[i]).T.copy()),
        )
        for i in range(len(labels))
    ]
    return _split(file.stem.lower(), Part(graphs, torch.from_numpy(classes)), seed)


def _column_file(
    archive: zipfile.ZipFile, ending: str, columns: int = 1
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    names = [name for name in archive.namelist() if name.endswith(ending)]
    if not names:
        raise DataMissingError(f"{archive.filename} holds no file that ends in {ending}")
    text = archive.read(names[0]).decode()
    table = np.loadtxt(io.StringIO(text), delimiter=",", dtype=np.int64, ndmin=2)
    return table.reshape(-1, columns)


def _split(name: str, part: Part, seed: int) -> Task:
    """80 % train, 10 % validation, 10 % test."""
    count = len(part.graphs)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    tenth = count // 10
    return Task(
        name,
        int(part.labels.max()) + 1,
        train=_select(part, order[2 * tenth :]),
        validation=_select(part, order[tenth : 2 * tenth]),
        test=_select(part, order[:tenth]),
    )


def _select(part: Part, index: Tensor | Sequence[int]) -> Part:
    chosen = torch.as_tensor(index)
    return Part([part.graphs[i] for i in chosen.tolist()], part.labels[chosen])


_LOADERS: dict[str, Callable[[int], Task]] = {
    "ba3motif": _ba3motif,
    "mutag": _tu("MUTAG.zip"),
    "mutagenicity": _tu("Mutagenicity.zip"),
    "nci1": _tu("NCI1.zip"),
}
