"""The generators reproduce the structure of the published graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import networkx as nx
import pytest
import torch

from bench.data.synthetic import NodeDataset, ba3motif, ba_shapes, tree_cycle, tree_grid
from d4explain.gnn.graphs import Graph

torch.set_num_threads(1)

HOUSE = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (4, 0), (4, 1)])
GRID = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3))
BASE = 6


def network_of(graph: Graph) -> nx.Graph:
    network = nx.empty_graph(graph.node_count)
    network.add_edges_from(graph.edges.T.tolist())
    return network


@pytest.fixture(scope="module")
def graphs_by_class() -> dict[int, list[nx.Graph]]:
    graphs, labels = ba3motif(900, torch.Generator().manual_seed(0))
    by_class: dict[int, list[nx.Graph]] = {0: [], 1: [], 2: []}
    for graph, label in zip(graphs, labels.tolist(), strict=True):
        by_class[label].append(network_of(graph))
    return by_class


@pytest.mark.parametrize(
    ("label", "motif", "base_edges", "counts", "extra"),
    [
        (0, HOUSE, 5, {2: 88 / 272, 3: 93 / 272, 4: 91 / 272}, 0.98),
        (1, GRID, 9, {1: 80 / 267, 2: 104 / 267, 3: 83 / 267}, 1.44),
        (2, nx.cycle_graph(5), 5, {2: 98 / 261, 3: 82 / 261, 4: 81 / 261}, 2.50),
    ],
    ids=["house", "grid", "cycle"],
)
def test_ba3motif_has_the_measured_structure(
    graphs_by_class: dict[int, list[nx.Graph]],
    *,
    label: int,
    motif: nx.Graph,
    base_edges: int,
    counts: dict[int, float],
    extra: float,
) -> None:
    networks = graphs_by_class[label]
    size = motif.number_of_nodes()
    motif_counts: Counter[int] = Counter()
    extras = []
    for network in networks:
        assert nx.is_connected(network)
        motifs, rest = divmod(network.number_of_nodes() - BASE, size)
        assert rest == 0
        motif_counts[motifs] += 1
        for number in range(motifs):
            start = BASE + number * size
            inside = network.subgraph(range(start, start + size))
            assert nx.is_isomorphic(inside, motif)
            assert network.has_edge(number * (BASE // motifs), start)
        assert network.subgraph(range(BASE)).number_of_edges() >= base_edges
        planned = base_edges + motifs * (motif.number_of_edges() + 1)
        extras.append(network.number_of_edges() - planned)
    assert len(networks) == 300
    for motifs, share in counts.items():
        assert motif_counts[motifs] / 300 == pytest.approx(share, abs=0.1)
    assert min(extras) >= 0
    assert sum(extras) / 300 == pytest.approx(extra, abs=0.25)


def joined_motifs(network: nx.Graph, size: int) -> bool:
    return any(
        min(a, b) >= BASE and (a - BASE) // size != (b - BASE) // size for a, b in network.edges
    )


def test_only_cycles_are_joined_and_some_of_them_are(
    graphs_by_class: dict[int, list[nx.Graph]],
) -> None:
    shares = {
        label: sum(joined_motifs(n, size) for n in graphs_by_class[label]) / 300
        for label, size in ((0, 5), (1, 9), (2, 5))
    }
    assert shares[0] == shares[1] == 0
    assert shares[2] == pytest.approx(0.23, abs=0.08)


def test_graphs_are_canonical_and_features_constant() -> None:
    graphs, labels = ba3motif(7, torch.Generator().manual_seed(1))
    assert labels.dtype == torch.int64
    assert torch.bincount(labels).tolist() == [3, 2, 2]
    for graph in graphs:
        assert torch.equal(graph.features, torch.ones(graph.node_count, 1))
        assert (graph.edges[0] < graph.edges[1]).all()
        pairs = graph.edges.T.tolist()
        assert pairs == sorted(pairs)
        assert len({tuple(pair) for pair in pairs}) == len(pairs)


def test_role_features_are_the_published_mixture() -> None:
    graphs, labels = ba3motif(30, torch.Generator().manual_seed(2), features="role")
    house = graphs[labels.tolist().index(0)]
    roles = torch.tensor([0] * BASE + [1, 1, 2, 2, 3] * ((house.node_count - BASE) // 5))
    noise = house.features - 0.25 * torch.nn.functional.one_hot(roles, 4)
    assert noise.min() >= -1e-6
    assert noise.max() <= 0.75 + 1e-6
    assert noise.std() > 0.1


def test_graphs_depend_on_the_generator_alone() -> None:
    first, again, other = (
        ba3motif(20, torch.Generator().manual_seed(seed)).graphs for seed in (3, 3, 4)
    )
    assert all(torch.equal(a.edges, b.edges) for a, b in zip(first, again, strict=True))
    assert not all(
        a.edges.shape == b.edges.shape and torch.equal(a.edges, b.edges)
        for a, b in zip(first, other, strict=True)
    )


@pytest.mark.parametrize(
    ("make", "motif", "motifs", "edges", "label_counts"),
    [
        (ba_shapes, HOUSE, 80, (2055, 2055), [300, 160, 160, 80]),
        # Half of the 60 cycles have a second link.
        (tree_cycle, nx.cycle_graph(6), 60, (946, 982), [511, 360]),
        (tree_grid, GRID, 80, (1565, 1565), [511, 720]),
    ],
    ids=["ba_shapes", "tree_cycle", "tree_grid"],
)
def test_node_data_sets_have_the_published_counts(
    make: Callable[[torch.Generator], NodeDataset],
    motif: nx.Graph,
    motifs: int,
    edges: tuple[int, int],
    label_counts: list[int],
) -> None:
    dataset = make(torch.Generator().manual_seed(5))
    network = network_of(dataset.graph)
    assert nx.is_connected(network)
    assert torch.bincount(dataset.labels).tolist() == label_counts
    assert edges[0] <= dataset.graph.edge_count <= edges[1]
    assert dataset.graph.features.shape == (sum(label_counts), 10)
    marked = nx.Graph(dataset.graph.edges[:, dataset.motif_edges].T.tolist())
    components = [marked.subgraph(part) for part in nx.connected_components(marked)]
    assert len(components) == motifs
    assert all(nx.is_isomorphic(component, motif) for component in components)
    assert all(dataset.labels[node] > 0 for node in marked.nodes)
