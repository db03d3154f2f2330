"""Rings and components, compared with NetworkX."""

from __future__ import annotations

import math

import networkx as nx
import pytest
import torch
from torch import Tensor

from models.realism.rings import RING_SIZES, ring_counts, structure_change

torch.set_num_threads(1)


def adjacency(network: nx.Graph) -> Tensor:
    return torch.from_numpy(nx.to_numpy_array(network, nodelist=sorted(network))).float()


@pytest.mark.parametrize("seed", range(20))
def test_rings_of_up_to_five_nodes_are_the_simple_cycles(seed: int) -> None:
    network = nx.gnm_random_graph(9, 14, seed=seed)
    cycles = [len(cycle) for cycle in nx.simple_cycles(network, length_bound=5)]
    counts = ring_counts(adjacency(network)[None])[0].tolist()
    assert counts[:3] == [cycles.count(size) for size in RING_SIZES[:3]]


def test_six_rings_of_fused_rings() -> None:
    """Naphthalene's carbons: two six-rings with a common edge; the ring of ten is not counted."""
    network = nx.cycle_graph(10)
    network.add_edge(0, 5)
    assert ring_counts(adjacency(network)[None]).tolist() == [[0, 0, 0, 2]]


def test_two_triangles_with_a_common_node_count_as_a_six_ring() -> None:
    network = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)])
    assert ring_counts(adjacency(network)[None])[0, 0] == 2
    assert ring_counts(adjacency(network)[None])[0, 3] >= 1


def test_an_opened_ring_and_a_new_part_change_the_structure() -> None:
    ring = adjacency(nx.cycle_graph(6))
    opened, parted = ring.clone(), ring.clone()
    opened[0, 5] = opened[5, 0] = 0
    for one, other in ((0, 5), (2, 3)):
        parted[one, other] = parted[other, one] = 0
    changes = structure_change(ring, torch.stack([ring, opened, parted])).tolist()
    assert changes == pytest.approx([0, math.log(2), math.log(2) + math.log(3 / 2)])


def test_an_edge_that_moves_along_a_chain_changes_nothing() -> None:
    base = nx.path_graph(7)
    moved = base.copy()
    moved.remove_edge(5, 6)
    moved.add_edge(4, 6)
    assert structure_change(adjacency(base), adjacency(moved)[None]).tolist() == [0]
