"""Graphs that chains of the class sampler visited."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph, from_dense
from models.graphs.isomorphism import isomorphism_classes

_SNAPSHOTS = 6  # steps of a chain that are kept beside an answer


@dataclass(frozen=True)
class ChainStep:
    """A graph of a chain and the number of the step, from 1."""

    step: int
    graph: Graph


@dataclass(frozen=True)
class Pool:
    """Visited graphs, and the steps of the chains that led to them."""

    graphs: DenseGraphs
    log_likelihood: Tensor  # [graph] under the denoiser
    chain: list[int]  # [graph]
    step: list[int]  # [graph] from 0
    steps: list[DenseGraphs]  # the graph that each chain chose, by step: [chain] each

    @property
    def count(self) -> int:
        return self.graphs.count

    def history(self, position: int) -> list[ChainStep]:
        """Some steps of the chain up to a graph, evenly spaced; the last one is the graph."""
        last = self.step[position]
        places = torch.linspace(0, last, min(_SNAPSHOTS, last + 1)).round().long().tolist()
        own = torch.tensor([self.chain[position]])
        before = [
            ChainStep(at + 1, from_dense(self.steps[at].select(own))[0]) for at in places[:-1]
        ]
        visited = from_dense(self.graphs.select(torch.tensor([position])))[0]
        return [*before, ChainStep(last + 1, visited)]


def distinct(graphs: DenseGraphs) -> Tensor:
    """Positions of the first graph of each isomorphism class, in order; features count."""
    return torch.tensor(list(dict.fromkeys(isomorphism_classes(graphs))), dtype=torch.long)
