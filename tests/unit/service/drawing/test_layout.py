from __future__ import annotations

import itertools
import time
import tracemalloc

import networkx as nx
import numpy as np
import pytest

from service.drawing.drawing_queue import DrawingAbandoned
from service.drawing.layout import layout


@pytest.mark.parametrize(
    ("nodes", "pairs"),
    [
        (1, []),
        (2, [(0, 1)]),
        (5, []),
        (6, [(0, 1), (2, 3), (4, 5)]),
        (30, [(0, i) for i in range(1, 30)]),
        (20, list(nx.cycle_graph(20).edges)),
        (40, list(nx.barabasi_albert_graph(40, 1, seed=1).edges)),
        (8, list(itertools.combinations(range(8), 2))),
    ],
)
def test_layouts_are_finite_repeatable_and_separate_nodes(nodes, pairs):
    positions = layout(nodes, pairs)
    assert positions.shape == (nodes, 2)
    assert np.isfinite(positions).all()
    assert np.array_equal(positions, layout(nodes, pairs))
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    assert nodes == 1 or distances[~np.eye(nodes, dtype=bool)].min() > 0.05


@pytest.mark.parametrize(
    ("nodes", "pairs"),
    [
        (4096, list(nx.gnm_random_graph(4096, 32768, seed=1).edges)),
        (4096, list(nx.path_graph(4096).edges)),
        (4096, list(nx.star_graph(4095).edges)),
        (4096, [(i, i + 1) for i in range(0, 4096, 2)]),
        (4096, []),
        (4096, list(nx.lollipop_graph(256, 3840).edges)),
    ],
)
def test_layouts_of_large_graphs_need_little_time_and_memory(nodes, pairs):
    tracemalloc.start()
    started = time.thread_time()
    try:
        positions = layout(nodes, pairs)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.thread_time() - started < 5
    assert peak < 64e6  # one float per pair of nodes would take 134 MB
    assert np.isfinite(positions).all()
    assert np.array_equal(positions, layout(nodes, pairs))
    assert len(np.unique(positions.round(6), axis=0)) == nodes


@pytest.mark.parametrize(
    ("graph", "max_error"),
    [
        (nx.grid_2d_graph(20, 24), 0.02),
        (nx.cycle_graph(480), 0.02),
        (nx.random_labeled_tree(480, seed=1), 0.06),
        (nx.connected_caveman_graph(40, 12), 0.02),
        (nx.barabasi_albert_graph(480, 2, seed=1), 0.19),
    ],
)
def test_large_layouts_preserve_distances(graph, max_error):
    """Mean squared relative error; stress over all pairs is at most a sixth better."""
    graph = nx.convert_node_labels_to_integers(graph)
    degrees = dict(graph.degree)
    for source, target, data in graph.edges(data=True):
        data["length"] = min(max(((degrees[source] + degrees[target]) / 4) ** 0.5, 1.0), 3.0)
    paths = dict(nx.all_pairs_dijkstra_path_length(graph, weight="length"))
    pairs = list(itertools.combinations(range(len(graph)), 2))
    expected = np.array([paths[source][target] for source, target in pairs])
    positions = layout(len(graph), list(graph.edges))
    apart = np.linalg.norm(np.diff(positions[np.array(pairs)], axis=1)[:, 0], axis=1) / expected
    scale = apart.sum() / (apart**2).sum()
    assert ((scale * apart - 1) ** 2).mean() < max_error


def test_check_ends_a_layout():
    pairs = list(nx.gnm_random_graph(1000, 2000, seed=1).edges)
    few = list(nx.barabasi_albert_graph(40, 2, seed=1).edges)
    for nodes, edges in ((1000, pairs), (40, few)):
        calls = itertools.count()

        def check(calls=calls):
            if next(calls) == 2:
                raise DrawingAbandoned

        with pytest.raises(DrawingAbandoned):
            layout(nodes, edges, check)


def test_a_path_is_drawn_straight():
    positions = layout(6, [(i, i + 1) for i in range(5)])
    assert np.allclose(np.linalg.norm(np.diff(positions, axis=0), axis=1), 1.0, atol=0.02)
    assert np.ptp(positions[:, 1]) < 0.05
