"""Selection of counterfactuals: its figures, compared with NetworkX and SciPy."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from d4explain.gnn.graphs import Graph, to_dense
from models.counterfactual.selection import choose
from models.graphs.connectivity import component_counts, reachable
from models.graphs.edits import EditRules, EditSpace
from models.graphs.isomorphism import graph_codes, marked_codes

torch.set_num_threads(1)

Pair = tuple[int, int]


def graph_of(nodes: int, edges: set[Pair] | frozenset[Pair], features: object = None) -> Graph:
    ends = torch.tensor(sorted(edges), dtype=torch.int64).reshape(-1, 2).T
    rows = torch.ones(nodes, 1) if features is None else torch.tensor(features).float()[:, None]
    return Graph(rows, ends)


def networkx_of(graph: Graph) -> nx.Graph:
    result = nx.Graph()
    result.add_nodes_from(
        (node, {"x": float(graph.features[node, 0])}) for node in range(graph.node_count)
    )
    result.add_edges_from(graph.edges.T.tolist())
    return result


@st.composite
def graphs(draw: st.DrawFn, most: int = 8) -> Graph:
    nodes = draw(st.integers(1, most))
    pairs = list(combinations(range(nodes), 2))
    edges = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    features = draw(st.lists(st.integers(0, 1), min_size=nodes, max_size=nodes))
    return graph_of(nodes, edges, features)


@settings(max_examples=40, deadline=None)
@given(st.lists(graphs(), min_size=1, max_size=4))
def test_component_counts_equal_those_of_networkx(batch: list[Graph]) -> None:
    counts = component_counts(to_dense(batch)).tolist()
    assert counts == [nx.number_connected_components(networkx_of(graph)) for graph in batch]


def test_the_ends_of_a_long_path_reach_each_other() -> None:
    path = graph_of(70, {(i, i + 1) for i in range(69)})
    assert bool(reachable(to_dense([path]).adjacency)[0, 0, 69])


@settings(max_examples=40, deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_codes_do_not_depend_on_node_order(graph: Graph, rng: object) -> None:
    order = list(range(graph.node_count))
    rng.shuffle(order)  # type: ignore[attr-defined]
    new_id = {old: new for new, old in enumerate(order)}
    renamed = [(new_id[a], new_id[b]) for a, b in graph.edges.T.tolist()]
    edges = {(min(pair), max(pair)) for pair in renamed}
    shuffled = graph_of(graph.node_count, edges, graph.features[order, 0].tolist())
    one, other = graph_codes(to_dense([graph, shuffled]))
    assert one == other


def test_codes_distinguish_all_small_graphs() -> None:
    atlas = [graph for graph in nx.graph_atlas_g() if 1 <= graph.number_of_nodes() <= 5]
    graphs_of_atlas = [
        graph_of(graph.number_of_nodes(), {(min(e), max(e)) for e in graph.edges})
        for graph in atlas
    ]
    assert len(set(graph_codes(to_dense(graphs_of_atlas)))) == len(atlas)


def test_codes_depend_on_node_features() -> None:
    path = {(0, 1), (1, 2)}
    ends, middle = graph_of(3, path, [1, 0, 0]), graph_of(3, path, [0, 1, 0])
    same = graph_of(3, path, [0, 0, 1])
    codes = graph_codes(to_dense([ends, middle, same]))
    assert codes[0] != codes[1]
    assert codes[0] == codes[2]


@settings(max_examples=40, deadline=None)
@given(graphs(most=6), st.data())
def test_marked_codes_are_equal_for_isomorphic_edits_only(
    graph: Graph, data: st.DataObject
) -> None:
    space = EditSpace.of(graph, EditRules(max_ratio=10.0))
    if space.count == 0:
        return
    sets = st.frozensets(st.integers(0, space.count - 1), min_size=1, max_size=3).map(
        lambda edits: tuple(sorted(edits))
    )
    one, other = data.draw(sets), data.draw(sets)
    isomorphic = nx.is_isomorphic(
        _marked(space, one),
        _marked(space, other),
        node_match=lambda a, b: a["x"] == b["x"],
        edge_match=lambda a, b: a["mark"] == b["mark"],
    )
    codes = marked_codes(space, [one, other])
    # On so few nodes with marked edges, colour refinement is exact.
    assert (codes[0] == codes[1]) == isomorphic


def _marked(space: EditSpace, edits: tuple[int, ...]) -> nx.Graph:
    result = networkx_of(space.graph)
    nx.set_edge_attributes(result, "kept", "mark")
    for pair in edits:
        mark = "removed" if space.present[pair] else "added"
        result.add_edge(int(space.sources[pair]), int(space.targets[pair]), mark=mark)
    return result


@settings(max_examples=40, deadline=None)
@given(graphs(), st.data())
def test_statistics_shift_is_the_distance_to_the_input(graph: Graph, data: st.DataObject) -> None:
    space = EditSpace.of(graph, EditRules(max_ratio=10.0))
    if space.count == 0:
        return
    edits = tuple(sorted(data.draw(st.sets(st.integers(0, space.count - 1), min_size=1))))
    (distance,) = space.statistics_shift([edits])
    before, after = networkx_of(graph), networkx_of(space.apply(edits))
    components = nx.number_connected_components(before) - nx.number_connected_components(after)
    mean_degree = max(1.0, float(np.mean([d for _, d in before.degree])))
    expected = sum(
        wasserstein_distance(statistic(before), statistic(after)) / scale
        for statistic, scale in (
            (lambda g: [d for _, d in g.degree], mean_degree),
            (lambda g: list(nx.clustering(g).values()), 1.0),
            (lambda g: nx.normalized_laplacian_spectrum(g).real, 1.0),
        )
    )
    assert distance == pytest.approx(expected + 0.02 * abs(components), abs=1e-4)


def test_fewer_edits_come_first_then_small_shifts() -> None:
    # On the path 0-1-2-3, removing the middle edge shifts the statistics less than adding a chord.
    space = EditSpace.of(graph_of(4, {(0, 1), (1, 2), (2, 3)}), EditRules(max_ratio=10.0))
    pairs = list(zip(space.sources.tolist(), space.targets.tolist(), strict=True))
    middle, chord, ends = pairs.index((1, 2)), pairs.index((0, 2)), pairs.index((0, 3))
    first_edge = pairs.index((0, 1))
    both = tuple(sorted((first_edge, ends)))
    assert choose(space, [(middle,), both, (chord,)], 3) == [(middle,), (chord,), both]
    assert choose(space, [(middle,), both, (chord,)], 1) == [(middle,)]


def test_supersets_and_symmetric_sets_are_dropped() -> None:
    space = EditSpace.of(graph_of(4, {(0, 1), (1, 2), (2, 3)}), EditRules(max_ratio=10.0))
    pairs = list(zip(space.sources.tolist(), space.targets.tolist(), strict=True))
    left, right = pairs.index((0, 1)), pairs.index((2, 3))
    middle = pairs.index((1, 2))
    chosen = choose(space, [(left,), (right,), tuple(sorted((left, middle)))], 3)
    assert len(chosen) == 1
    assert chosen[0] in [(left,), (right,)]


def test_alternatives_that_share_fewer_edits_are_preferred() -> None:
    features = list(range(8))  # all nodes differ, so no two sets are symmetric
    ring = {(min(i, (i + 1) % 8), max(i, (i + 1) % 8)) for i in range(8)}
    space = EditSpace.of(graph_of(8, ring, features), EditRules(max_ratio=10.0))
    chords = [pair for pair in range(space.count) if not space.present[pair]]
    a, b, c, d = chords[:4]
    overlapping, disjoint = (a, c), (c, d)
    assert disjoint in choose(space, [(a, b), overlapping, disjoint], 2)
