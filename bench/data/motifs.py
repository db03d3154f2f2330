"""The motifs of the classes in the synthetic data sets."""

from __future__ import annotations

import networkx as nx
from networkx.algorithms.isomorphism import GraphMatcher

from d4explain.gnn.graphs import Graph

_GRID = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3))
_BA3MOTIF = {0: nx.house_graph(), 1: _GRID, 2: nx.cycle_graph(5)}
_MOTIFS: dict[str, dict[int, nx.Graph]] = {
    "ba3motif": _BA3MOTIF,
    "ba3motif_roles": _BA3MOTIF,
    "tree_cycle": {1: nx.cycle_graph(6)},
    "tree_grids": {1: _GRID},
}


def motif_of(dataset: str, label: int) -> nx.Graph | None:
    return _MOTIFS.get(dataset, {}).get(label)


def contains_motif(graph: Graph, motif: nx.Graph) -> bool:
    """Whether the graph contains the motif; extra edges between its nodes are allowed."""
    network = nx.empty_graph(graph.node_count)
    network.add_edges_from(graph.edges.T.tolist())
    found: bool = GraphMatcher(network, motif).subgraph_is_monomorphic()
    return found
