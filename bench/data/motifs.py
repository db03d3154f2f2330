"""The motifs of classes whose truth is known, and whether patterns show them."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
from networkx.algorithms.isomorphism import GraphMatcher

from d4explain.gnn.graphs import Graph

_HOUSE = nx.house_graph()  # 0 and 1 at the bottom, 2 and 3 in the middle, 4 the roof
_GRID = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3))
_LADDER = nx.convert_node_labels_to_integers(nx.grid_2d_graph(2, 3))
_FURTHER_NODES = 2  # nodes that a pattern may have beside the motif
_BA3MOTIF = {0: _HOUSE, 1: _GRID, 2: nx.cycle_graph(5)}
_MOTIFS: dict[str, dict[int, nx.Graph]] = {
    "ba3motif": _BA3MOTIF,
    "ba3motif_roles": _BA3MOTIF,
    "ba_shapes": dict.fromkeys((1, 2, 3), _HOUSE),
    "tree_cycle": {1: nx.cycle_graph(6)},
    "tree_grids": {1: _GRID},
}
# BA-Shapes classifies nodes by their place in the house.
_HOUSE_PLACES = {1: {2, 3}, 2: {0, 1}, 3: {4}}
_TREES = (("tree_cycle", 0), ("tree_grids", 0))
# Mutagenicity's atoms by feature column, and its mutagenic class.
_OXYGEN, _HYDROGEN, _NITROGEN = 1, 3, 4
_MUTAGENIC = ("mutagenicity", 0)
_MUTAGENIC_ANSWERS = 3  # one of the first answers must show a group


def motif_of(dataset: str, label: int) -> nx.Graph | None:
    return _MOTIFS.get(dataset, {}).get(label)


def shows_class(dataset: str, label: int, patterns: Sequence[Graph]) -> bool | None:
    """Whether the first pattern shows the class's motif; None if the truth is unknown.

    It must contain the motif as an induced subgraph with at most two further nodes, the marked node
    in its place. Below 9 nodes, a part of 2 × 3 nodes stands for the grid. Trees must be acyclic.
    For the mutagenic class, one of the first three patterns must contain NO2 or NH2.
    """
    if (dataset, label) == _MUTAGENIC:
        return any(has_nitro_or_amine(pattern) for pattern in patterns[:_MUTAGENIC_ANSWERS])
    motif = motif_of(dataset, label)
    if motif is None and (dataset, label) not in _TREES:
        return None
    if not patterns:
        return False
    first = patterns[0]
    if motif is None:
        return bool(nx.is_tree(_network(first)))
    if motif is _GRID and first.node_count < _GRID.number_of_nodes():
        motif = _LADDER
    places = _HOUSE_PLACES[label] if dataset == "ba_shapes" else set(motif)
    return contains_motif(first, motif, places)


def contains_motif(graph: Graph, motif: nx.Graph, places: set[int]) -> bool:
    """Whether the graph is the motif, induced, with few further nodes.

    A marked node must lie on one of the `places` of the motif.
    """
    if graph.node_count > motif.number_of_nodes() + _FURTHER_NODES:
        return False
    matches = GraphMatcher(_network(graph), motif).subgraph_isomorphisms_iter()
    return any(graph.target is None or match.get(graph.target) in places for match in matches)


def has_nitro_or_amine(graph: Graph) -> bool:
    """Whether a nitrogen has two oxygens, or two hydrogens, as neighbours."""
    kinds = graph.features.argmax(dim=1).tolist()
    network = _network(graph)
    return any(
        sum(kinds[other] == kind for other in network[node]) >= 2
        for node in network
        if kinds[node] == _NITROGEN
        for kind in (_OXYGEN, _HYDROGEN)
    )


def _network(graph: Graph) -> nx.Graph:
    network = nx.empty_graph(graph.node_count)
    network.add_edges_from(graph.edges.T.tolist())
    return network
