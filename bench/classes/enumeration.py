"""Enumerate all connected graphs of a size to bound what any explanation could reach.

If node features differ, enumerate the graphs on the features of some class subgraphs. The bound is
then an estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import networkx as nx
import torch
from torch import Tensor

from bench.counterfactuals.instances import CPU
from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from d4explain.gnn.network import Gnn, predict
from models.classes.node_features import ClassParts
from models.graphs.isomorphism import isomorphism_classes

MAX_NODES = 7  # limit of Read and Wilson's graph atlas in NetworkX
# Number of class subgraphs whose features are tried, by size. Larger sizes have too many graphs:
# there are already 26,704 labelled connected graphs of 6 nodes.
PARTS_TRIED = {3: 400, 4: 400, 5: 400, 6: 40}


@dataclass(frozen=True)
class EnumeratedGraphs:
    """Confidence in a class of every connected graph of one size, and their edge counts."""

    confidence: Tensor  # [graph]
    edges: Tensor  # [graph]
    # Number of subgraphs tried if features differ; then only the best graph per edge count is kept.
    parts: int | None = None

    @staticmethod
    def of(
        gnn: Gnn, reference: Sequence[Graph], label: int, nodes: int, seed: int = 0
    ) -> EnumeratedGraphs | None:
        """None if there are too many graphs."""
        rows = torch.cat([graph.features for graph in reference])
        if not bool((rows == rows[0]).all()):
            return _with_features(gnn, reference, label, nodes, seed)
        if nodes > MAX_NODES:
            return None
        graphs = connected_graphs(rows[0], nodes, marked=reference[0].target is not None)
        confidence = predict(gnn, graphs, CPU)[:, label]
        return EnumeratedGraphs(confidence, torch.tensor([graph.edge_count for graph in graphs]))

    @property
    def best(self) -> float:
        return float(self.confidence.max())

    def best_with(self, edges: float) -> float:
        """The highest mean confidence of any multiset of graphs with this mean edge count.

        This is the upper hull of confidence over edges; two graphs always suffice to reach it.
        """
        counts = torch.unique(self.edges)
        best = torch.stack([self.confidence[self.edges == count].max() for count in counts])
        below, above = counts <= edges, counts > edges
        if not bool(below.any()):
            return 0.0
        means = [float(best[below].max())]
        for low, low_best in zip(counts[below].tolist(), best[below].tolist(), strict=True):
            for high, high_best in zip(counts[above].tolist(), best[above].tolist(), strict=True):
                share = (edges - low) / (high - low)
                means.append(low_best + share * (high_best - low_best))
        return max(means)

    def count_with(self, confidence: float) -> int:
        """The largest number of distinct graphs whose mean confidence reaches the value."""
        ranked = self.confidence.double().sort(descending=True).values
        means = ranked.cumsum(dim=0) / torch.arange(1, len(ranked) + 1)
        return int((means >= confidence).sum())


def connected_graphs(row: Tensor, nodes: int, *, marked: bool) -> list[Graph]:
    """Every connected graph with this feature row at all nodes, and every target if `marked`."""
    features = row.expand(nodes, -1).clone()
    targets: Sequence[int | None] = range(nodes) if marked else [None]
    graphs = [Graph(features, edges, target) for edges in _atlas(nodes) for target in targets]
    return [graphs[first] for first in dict.fromkeys(isomorphism_classes(to_dense(graphs)))]


@cache
def _atlas(nodes: int) -> list[Tensor]:
    """Edges of every connected graph: [2, edge] each."""
    edge_lists = []
    for network in nx.graph_atlas_g():
        if network.number_of_nodes() == nodes and nx.is_connected(network):
            edges = sorted(tuple(sorted(edge)) for edge in network.edges)
            edge_lists.append(torch.tensor(edges, dtype=torch.int64).view(-1, 2).T.contiguous())
    return edge_lists


def _with_features(
    gnn: Gnn, reference: Sequence[Graph], label: int, nodes: int, seed: int
) -> EnumeratedGraphs | None:
    if nodes not in PARTS_TRIED or reference[0].target is not None:
        return None
    count = PARTS_TRIED[nodes]
    parts = ClassParts(reference, torch.Generator().manual_seed(seed))
    adjacency = labelled_connected_graphs(nodes)
    mask = torch.ones(adjacency.shape[:2], dtype=torch.bool)
    edge_counts, group = torch.unique(adjacency.sum(dim=(1, 2)).long() // 2, return_inverse=True)
    best = torch.zeros(len(edge_counts))
    for _ in range(count):
        features = parts.draw(nodes).features.expand(len(adjacency), -1, -1)
        with torch.inference_mode():
            logits = gnn.dense(DenseGraphs(adjacency, features, mask))
        best.scatter_reduce_(0, group, logits.softmax(dim=1)[:, label], "amax")
    return EnumeratedGraphs(best, edge_counts, count)


@cache
def labelled_connected_graphs(nodes: int) -> Tensor:
    """Adjacencies of all labelled connected graphs: [graph, node, node]."""
    sources, targets = torch.triu_indices(nodes, nodes, offset=1)
    bits = torch.arange(2 ** len(sources))[:, None] >> torch.arange(len(sources)) & 1
    adjacency = torch.zeros(len(bits), nodes, nodes)
    adjacency[:, sources, targets] = adjacency[:, targets, sources] = bits.float()
    reached = torch.eye(nodes) + adjacency
    for _ in range(nodes.bit_length()):
        reached = torch.bmm(reached, reached).clamp(max=1)
    return adjacency[(reached > 0).flatten(1).all(dim=1)]
