"""The split into held-out and training graphs, and the stream of training batches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from models.diffusion.recipes import Recipe
from models.graphs.subgraphs import connected_subgraph, neighbours_of

# Graphs whose sizes differ by up to this factor may swap places, so that rounds differ.
SIZE_JITTER = 1.15
HELD_OUT_DIVISOR = 10  # every tenth graph is held out
HELD_OUT_PAIRS = 20_000  # node pairs of the graphs for frequent measurements
CALIBRATING_PAIRS = 200_000  # node pairs of the graphs for the calibration at the end
CALIBRATING_GRAPHS = 60  # least number of calibration graphs, if as many are held out


class Batches:
    """An endless stream: every graph once per round, like-sized graphs together.

    It depends only on the generator and on the pending batches of the round.
    """

    def __init__(self, graphs: Sequence[Graph], recipe: Recipe, generator: torch.Generator) -> None:
        self._graphs = list(graphs)
        self._recipe = recipe
        self._generator = generator
        self._pending: list[list[int]] = []
        self._neighbours: dict[int, list[list[int]]] = {}

    def draw(self) -> DenseGraphs:
        if self._uniform() < self._recipe.subgraph_share:
            return self._subgraphs()
        if not self._pending:
            self._pending = self._round()
        return to_dense([self._whole(index) for index in self._pending.pop()])

    def state(self) -> dict[str, Tensor]:
        return {
            "pending": torch.tensor([i for batch in self._pending for i in batch]).long(),
            "pending_sizes": torch.tensor([len(batch) for batch in self._pending]).long(),
        }

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        indices = iter(tensors["pending"].tolist())
        sizes = tensors["pending_sizes"].tolist()
        self._pending = [list(islice(indices, size)) for size in sizes]

    def _round(self) -> list[list[int]]:
        """Every graph once, or as often as one full batch needs, in batches in random order."""
        copies = math.ceil(self._recipe.batch_graphs / len(self._graphs))
        indices = list(range(len(self._graphs))) * copies
        sizes = [min(graph.node_count, self._recipe.max_nodes) for graph in self._graphs] * copies
        jitter = torch.rand(len(indices), generator=self._generator) * math.log(SIZE_JITTER)
        order = torch.argsort(torch.tensor(sizes).log() + jitter).tolist()
        batches: list[list[int]] = []
        widest = 0
        for place in order:
            widest = max(widest, sizes[place])
            full = not batches or len(batches[-1]) >= self._recipe.batch_graphs
            if full or (len(batches[-1]) + 1) * widest**2 > self._recipe.pair_budget:
                batches.append([])
                widest = sizes[place]
            batches[-1].append(indices[place])
        shuffled = torch.randperm(len(batches), generator=self._generator).tolist()
        return [batches[position] for position in shuffled]

    def _whole(self, index: int) -> Graph:
        """The graph, or a connected part of it if it has more than `max_nodes` nodes."""
        if self._graphs[index].node_count <= self._recipe.max_nodes:
            return self._graphs[index]
        return self._part(index, self._recipe.max_nodes)

    def _subgraphs(self) -> DenseGraphs:
        count = self._recipe.batch_subgraphs
        smallest, largest = self._recipe.subgraph_nodes
        chosen = torch.randint(len(self._graphs), (count,), generator=self._generator)
        nodes = torch.randint(smallest, largest + 1, (count,), generator=self._generator)
        return to_dense(
            [
                self._part(index, size)
                for index, size in zip(chosen.tolist(), nodes.tolist(), strict=True)
            ]
        )

    def _part(self, index: int, nodes: int) -> Graph:
        if index not in self._neighbours:
            self._neighbours[index] = neighbours_of(self._graphs[index])
        return connected_subgraph(
            self._graphs[index], self._neighbours[index], nodes, self._generator
        )

    def _uniform(self) -> float:
        return float(torch.rand((), generator=self._generator))


class Split(NamedTuple):
    training: list[Graph]
    held_out: list[Graph]  # for measurements during training
    calibrating: list[Graph]  # these and more, for the calibration at the end


def split(graphs: Sequence[Graph], max_nodes: int, generator: torch.Generator) -> Split:
    """Holds out a tenth of the graphs; in a small set the graphs serve for both.

    Graphs of one node are left out: they have no pair to learn from.
    """
    usable = [graph for graph in graphs if graph.node_count > 1] or list(graphs)
    usable = [_single_precision(graph.cpu()) for graph in usable]
    order = torch.randperm(len(usable), generator=generator).tolist()
    share = len(usable) // HELD_OUT_DIVISOR
    apart = order[: share or None]
    pairs = torch.tensor([min(usable[index].node_count, max_nodes) ** 2 for index in apart])
    total = pairs.cumsum(0)
    often = max(1, int((total <= HELD_OUT_PAIRS).sum()))
    once = max(CALIBRATING_GRAPHS, int((total <= CALIBRATING_PAIRS).sum()))
    kept_away = set(apart[:once] if share else [])
    calibrating = [_within(usable[index], max_nodes, generator) for index in apart[:once]]
    return Split(
        training=[graph for index, graph in enumerate(usable) if index not in kept_away],
        held_out=calibrating[:often],
        calibrating=calibrating,
    )


def _single_precision(graph: Graph) -> Graph:
    attributes = graph.edge_attributes
    return replace(
        graph,
        features=graph.features.float(),
        edge_attributes=None if attributes is None else attributes.float(),
    )


def _within(graph: Graph, max_nodes: int, generator: torch.Generator) -> Graph:
    if graph.node_count <= max_nodes:
        return graph
    return connected_subgraph(graph, neighbours_of(graph), max_nodes, generator)
