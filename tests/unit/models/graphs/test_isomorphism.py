"""Which graphs count as the same one, against all orders of their nodes."""

from __future__ import annotations

from itertools import combinations, permutations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.gnn.graphs import Graph, from_dense, to_dense
from models.classes.pool import distinct
from models.graphs.isomorphism import graph_codes, isomorphism_classes

torch.set_num_threads(1)

NODES = 6
ORDERS = np.array(list(permutations(range(NODES))))
TWO_TRIANGLES = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
PRISM = nx.circular_ladder_graph(3)
# pairs that colour refinement does not tell apart
REGULAR = (nx.cycle_graph(6), TWO_TRIANGLES, PRISM, nx.complete_bipartite_graph(3, 3))


def graph_of(
    network: nx.Graph,
    kinds: list[int] | None = None,
    bonds: dict[tuple[int, int], int] | None = None,
    target: int | None = None,
) -> Graph:
    edges = sorted(tuple(sorted(edge)) for edge in network.edges)
    nodes = network.number_of_nodes()
    features = torch.ones(nodes, 1) if kinds is None else torch.tensor(kinds).float()[:, None]
    carried = None
    if bonds is not None:
        carried = torch.tensor([float(bonds[edge]) for edge in edges]).view(-1, 1)
    ends = torch.tensor(edges, dtype=torch.int64).view(-1, 2).T.contiguous()
    return Graph(features, ends, target, carried)


def same_in_some_order(one: Graph, other: Graph) -> bool:
    """The truth: whether any order of the nodes makes one the other."""
    tables = [_tables(graph) for graph in (one, other)]
    (nodes, pairs), (other_nodes, other_pairs) = tables
    equal_nodes = (nodes[ORDERS] == other_nodes).all(axis=(1, 2))
    in_order = pairs[ORDERS[:, :, None], ORDERS[:, None, :]]
    return bool((equal_nodes & (in_order == other_pairs).all(axis=(1, 2))).any())


def _tables(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """What each node carries [node, value], and each pair [node, node], 0 where no edge is."""
    marked = np.arange(NODES)[:, None] == (-1 if graph.target is None else graph.target)
    pairs = np.zeros((NODES, NODES))
    carried = graph.edge_attributes
    rows = [1.0] * graph.edge_count if carried is None else (1 + carried[:, 0]).tolist()
    for (source, target), row in zip(graph.edges.T.tolist(), rows, strict=True):
        pairs[source, target] = pairs[target, source] = row
    return np.concatenate([graph.features.numpy(), marked], axis=1), pairs


@st.composite
def look_alikes(draw: st.DrawFn, *, attributes: bool, marked: bool) -> Graph:
    """A regular graph in some order, perhaps with one pair toggled and one node of another kind."""
    network = draw(st.sampled_from(REGULAR)).copy()
    for pair in draw(st.sets(st.sampled_from(list(combinations(range(NODES), 2))), max_size=1)):
        if network.has_edge(*pair):
            network.remove_edge(*pair)
        else:
            network.add_edge(*pair)
    order = draw(st.permutations(range(NODES)))
    network = nx.relabel_nodes(network, dict(enumerate(order)))
    kinds = [0] * NODES
    kinds[draw(st.integers(0, NODES - 1))] = draw(st.integers(0, 1))
    bonds = None
    if attributes:
        bonds = dict.fromkeys(combinations(range(NODES), 2), 1)
        bonds[draw(st.sampled_from(list(bonds)))] = 2
    return graph_of(network, kinds, bonds, draw(st.integers(0, NODES - 1)) if marked else None)


@pytest.mark.parametrize("attributes", [False, True])
@pytest.mark.parametrize("marked", [False, True])
def test_graphs_are_one_class_if_some_order_of_nodes_makes_them_equal(
    attributes: bool, marked: bool
) -> None:
    @settings(max_examples=40, deadline=None)
    @given(st.lists(look_alikes(attributes=attributes, marked=marked), min_size=2, max_size=6))
    def check(graphs: list[Graph]) -> None:
        truth = [
            next(at for at, other in enumerate(graphs) if same_in_some_order(other, graph))
            for graph in graphs
        ]
        assert isomorphism_classes(to_dense(graphs)) == truth

    check()


@pytest.mark.parametrize("pair", [REGULAR[:2], REGULAR[2:]])
def test_graphs_with_equal_codes_that_are_not_isomorphic_are_all_kept(
    pair: tuple[nx.Graph, nx.Graph],
) -> None:
    turned = nx.relabel_nodes(pair[0], {0: 4, 4: 1, 1: 0})
    graphs = [graph_of(network) for network in (*pair, turned)]
    assert len(set(graph_codes(to_dense(graphs)))) == 1  # else this shows nothing
    batch = to_dense(graphs)
    kept = from_dense(batch.select(distinct(batch)))
    assert [one.edges.tolist() for one in kept] == [one.edges.tolist() for one in graphs[:2]]
    assert len(distinct(batch)) == 2


def test_edge_attributes_distinguish_graphs_with_equal_codes() -> None:
    """In a 6-cycle the two odd bonds are opposite; in two triangles there is one in each."""
    cycle, triangles = REGULAR[:2]
    bonds = dict.fromkeys(combinations(range(NODES), 2), 1)
    opposite = {**bonds, (0, 1): 2, (3, 4): 2}
    graphs = [graph_of(cycle, bonds=opposite), graph_of(triangles, bonds=opposite)]
    assert isomorphism_classes(to_dense(graphs)) == [0, 1]


def test_sizes_in_one_batch_do_not_mix() -> None:
    small, large = graph_of(nx.path_graph(3)), graph_of(nx.path_graph(6))
    assert isomorphism_classes(to_dense([small, large, small, large])) == [0, 1, 0, 1]
