"""What any answer could reach: every connected graph of a size, where all nodes are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import networkx as nx
import torch
from torch import Tensor

from bench.instances import CPU
from models.gnn.network import Gnn, predict
from models.graphs import Graph, to_dense
from models.isomorphism import graph_codes

MOST_NODES = 7  # of the graphs in Read and Wilson's atlas, which NetworkX has


@dataclass(frozen=True)
class Possible:
    """Confidence in a class of every connected graph of one size, and their edges."""

    confidence: Tensor  # [graph]
    edges: Tensor  # [graph]

    @staticmethod
    def of(gnn: Gnn, reference: Sequence[Graph], label: int, nodes: int) -> Possible | None:
        """None where there are too many graphs or nodes have features that differ."""
        rows = torch.cat([graph.features for graph in reference])
        if nodes > MOST_NODES or not bool((rows == rows[0]).all()):
            return None
        every = connected_graphs(rows[0], nodes, marked=reference[0].target is not None)
        confidence = predict(gnn, every, CPU)[:, label]
        return Possible(confidence, torch.tensor([graph.edge_count for graph in every]))

    @property
    def best(self) -> float:
        return float(self.confidence.max())

    def best_with(self, edges: float) -> float:
        """The highest mean confidence of graphs, alike or not, with so many edges on average.

        The upper hull of confidence over edges: a mean of many is never above one of two graphs.
        """
        counts = torch.unique(self.edges)
        best = torch.stack([self.confidence[self.edges == count].max() for count in counts])
        few, many = counts <= edges, counts > edges
        if not bool(few.any()):
            return 0.0
        found = [float(best[few].max())]
        for low, low_best in zip(counts[few].tolist(), best[few].tolist(), strict=True):
            for high, high_best in zip(counts[many].tolist(), best[many].tolist(), strict=True):
                share = (edges - low) / (high - low)
                found.append(low_best + share * (high_best - low_best))
        return max(found)

    def count_with(self, confidence: float) -> int:
        """How many different graphs have that confidence on average, at most."""
        ranked = self.confidence.double().sort(descending=True).values
        means = ranked.cumsum(dim=0) / torch.arange(1, len(ranked) + 1)
        return int((means >= confidence).sum())


def connected_graphs(row: Tensor, nodes: int, *, marked: bool) -> list[Graph]:
    """Every connected graph whose nodes all have that feature row; marked: with every mark.

    One of each kind that message passing can tell apart.
    """
    features = row.expand(nodes, -1).clone()
    targets: Sequence[int | None] = range(nodes) if marked else [None]
    every = [Graph(features, edges, target) for edges in _atlas(nodes) for target in targets]
    return list(dict(zip(graph_codes(to_dense(every)), every, strict=True)).values())


@cache
def _atlas(nodes: int) -> list[Tensor]:
    """Edges of every connected graph: [2, edge] each."""
    found = []
    for network in nx.graph_atlas_g():
        if network.number_of_nodes() == nodes and nx.is_connected(network):
            edges = sorted(tuple(sorted(edge)) for edge in network.edges)
            found.append(torch.tensor(edges, dtype=torch.int64).view(-1, 2).T.contiguous())
    return found
