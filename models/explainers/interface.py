"""What every explainer takes and gives; `curve` turns each result into verified counterfactuals.

An explainer gets the oracle of one graph: its GNN, the allowed edits (`oracle.space`) and the class
before. A node is explained in its neighbourhood, which is a graph with a marked node.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from models.counterfactual.oracle import CounterfactualOracle
from models.graphs.base_edit_space import EditSet


@dataclass(frozen=True)
class EdgeScores:
    """How much the prediction rests on each edge; the counterfactual removes high scores first."""

    edges: Tensor  # [edge], in the order of the graph's edges
    nodes: Tensor | None = None  # [node], of methods that score nodes first


@dataclass(frozen=True)
class EditOrder:
    """Edits in the order in which they are made, for methods that also add edges."""

    pairs: tuple[int, ...]  # positions in the edit space, each once


@dataclass(frozen=True)
class EditedGraphs:
    """Complete edited graphs, as their edit sets."""

    sets: tuple[EditSet, ...]


Explanation = EdgeScores | EditOrder | EditedGraphs


class Explainer(Protocol):
    def explain(self, oracle: CounterfactualOracle, generator: torch.Generator) -> Explanation:
        """Explains the prediction of the oracle's graph; counts its work in the oracle."""


def edge_scores_of_nodes(graph: Graph, nodes: Tensor) -> EdgeScores:
    """Scores each edge by the mean of its two ends' [node] scores."""
    return EdgeScores(nodes[graph.edges].mean(dim=0), nodes)


@contextmanager
def seeded(generator: torch.Generator) -> Iterator[None]:
    """Seeds the global generator, which torch's layers and PyG draw from, and restores it."""
    seed = int(torch.randint(2**31, (1,), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
