"""The split into held-out and training graphs, the stream of training batches and their noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from models.diffusion.noise import NoiseLevel, density_noise
from models.diffusion.recipes import Recipe
from models.diffusion.typicality import MIN_CALIBRATION_GRAPHS
from models.graphs.subgraphs import connected_subgraph, neighbours_of

# Graphs whose sizes differ by up to this factor are shuffled, so that rounds differ.
SIZE_JITTER = 1.15
BATCH_SUBGRAPHS = 64
SUBGRAPH_NODES = (4, 12)  # smallest and largest
SYMMETRIC_SHARE = 0.4  # graphs whose noise adds as often as it removes
HELD_OUT_DIVISOR = 10  # every tenth graph is held out
HELD_OUT_PAIRS = 20_000  # node pairs of the graphs that are measured during training
CALIBRATING_PAIRS = 200_000  # node pairs of the graphs for the calibration at the end
CALIBRATING_GRAPHS = 60  # minimum number of calibration graphs, if as many are held out
TYPICALITY_DIVISOR = 10  # every tenth graph calibrates typicality,
TYPICALITY_GRAPHS = 500  # up to this many
LARGEST_TYPICALITY_SHARE = 1 / 5  # of the graphs; a set that would need more has no typicality


class Batches:
    """An endless stream of batches: every graph once per round, similar sizes together.

    Its state is the generator and the pending batches of the round.
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
            "graphs": torch.tensor(len(self._graphs)),
            "pending": torch.tensor([i for batch in self._pending for i in batch]).long(),
            "pending_sizes": torch.tensor([len(batch) for batch in self._pending]).long(),
        }

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Raises KeyError or RuntimeError for a state of another split of the graphs."""
        if int(tensors["graphs"]) != len(self._graphs):
            raise RuntimeError(
                f"the state is of {int(tensors['graphs'])} training graphs, not {len(self._graphs)}"
            )
        indices = iter(tensors["pending"].tolist())
        sizes = tensors["pending_sizes"].tolist()
        self._pending = [list(islice(indices, size)) for size in sizes]

    def _round(self) -> list[list[int]]:
        """Batches in random order with every graph once, or more often to fill one batch."""
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
        count = BATCH_SUBGRAPHS
        smallest, largest = SUBGRAPH_NODES
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


def training_noise(clean: DenseGraphs, recipe: Recipe, generator: torch.Generator) -> NoiseLevel:
    """Draws the noise level of each graph of a batch."""
    pairs = clean.pair_mask.sum((1, 2)).clamp(min=1)
    density = clean.adjacency.sum((1, 2)) / pairs
    return density_noise(
        density,
        low=recipe.noise_low,
        high=recipe.noise_high,
        symmetric_share=SYMMETRIC_SHARE,
        generator=generator,
    )


class Split(NamedTuple):
    training: list[Graph]
    held_out: list[Graph]  # for measurements during training
    calibrating: list[Graph]  # the held-out graphs and more, for the calibration at the end
    typicality: list[Graph]  # for the calibration of typicality and nothing else


def split(
    graphs: Sequence[Graph],
    max_nodes: int,
    generator: torch.Generator,
    *,
    with_typicality: bool = False,
) -> Split:
    """Holds out a tenth of the graphs; a small set is used for both training and measurement.

    Graphs of one node are omitted, because they have no pair to learn from. Typicality takes
    graphs from the rest, so a set too small for it is split as if it were off.
    """
    usable = [graph for graph in graphs if graph.node_count > 1] or list(graphs)
    usable = [single_precision(graph.cpu()) for graph in usable]
    order = torch.randperm(len(usable), generator=generator).tolist()
    share = len(usable) // HELD_OUT_DIVISOR
    candidates = order[: share or None]
    pairs = torch.tensor([min(usable[index].node_count, max_nodes) ** 2 for index in candidates])
    total = pairs.cumsum(0)
    held_out = max(1, int((total <= HELD_OUT_PAIRS).sum()))
    calibrated = max(CALIBRATING_GRAPHS, int((total <= CALIBRATING_PAIRS).sum()))
    excluded = set(candidates[:calibrated] if share else [])
    # A denoiser sees larger graphs only in parts, so their scores would not be comparable.
    whole = [index for index in order if usable[index].node_count <= max_nodes]
    unused = [index for index in whole if index not in excluded]
    typicality = unused[: typicality_count(len(whole)) if with_typicality else 0]
    excluded.update(typicality)
    calibrating = [
        _within(usable[index], max_nodes, generator) for index in candidates[:calibrated]
    ]
    return Split(
        training=[graph for index, graph in enumerate(usable) if index not in excluded],
        held_out=calibrating[:held_out],
        calibrating=calibrating,
        typicality=[usable[index] for index in typicality],
    )


def typicality_count(count: int) -> int:
    """How many of `count` graphs calibrate typicality: a tenth or what a figure needs, or none."""
    tenth = min(TYPICALITY_GRAPHS, count // TYPICALITY_DIVISOR)
    wanted = max(MIN_CALIBRATION_GRAPHS, tenth)
    return wanted if wanted <= LARGEST_TYPICALITY_SHARE * count else 0


def single_precision(graph: Graph) -> Graph:
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
