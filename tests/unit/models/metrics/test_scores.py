"""Scores against their definitions in exact fractions, and against NetworkX."""

from __future__ import annotations

import math
from fractions import Fraction

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.gnn.graphs import Graph
from models.metrics.scores import (
    CurveRule,
    Instance,
    ceiling,
    cf_acc_auc,
    cf_acc_curve,
    changed_pairs,
    density,
    fidelity,
    is_connected,
    jaccard_distance,
    mean_jaccard_distance,
    modification_ratio,
)

torch.set_num_threads(1)

instances = st.builds(
    Instance, edges=st.integers(1, 90), edits=st.one_of(st.none(), st.integers(1, 30))
)
RATIOS = [Fraction(k, 30) for k in range(10)]


def graph(nodes: int, *edges: tuple[int, int]) -> Graph:
    pairs = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    return Graph(torch.ones(nodes, 1), pairs)


@settings(max_examples=60, deadline=None)
@given(st.lists(instances, min_size=1, max_size=20))
def test_curves_equal_their_definition_in_exact_arithmetic(explained: list[Instance]) -> None:
    found = [(i.edits, i.edges) for i in explained if i.edits is not None]
    strict = [sum(Fraction(k, e) <= r for k, e in found) / len(explained) for r in RATIOS]
    one_edit = [
        sum(k <= max(math.ceil(r * e), 1) for k, e in found) / len(explained) for r in RATIOS
    ]
    assert cf_acc_curve(explained).tolist() == pytest.approx(strict)
    assert cf_acc_curve(explained, CurveRule.ONE_EDIT).tolist() == pytest.approx(one_edit)


def test_an_edit_count_that_is_exactly_allowed_counts() -> None:
    """3 edits of 30 are r = 0.1 exactly, though 0.1 · 30 is above 3 in floating point."""
    assert cf_acc_curve([Instance(30, 3)]).tolist() == [0.0] * 3 + [1.0] * 7
    assert cf_acc_curve([Instance(30, 4)], CurveRule.ONE_EDIT).tolist() == [0.0] * 4 + [1.0] * 6


def test_area_is_that_of_trapezoids() -> None:
    curve = cf_acc_curve([Instance(10, 1), Instance(10, 2), Instance(10, None)])
    # One third from r = 0.1 on, two thirds from 0.2 on; each step rises over one interval.
    by_hand = (
        Fraction(1, 3) * (Fraction(6) + Fraction(1, 2)) + Fraction(1, 3) * Fraction(7, 2)
    ) / 9
    assert cf_acc_auc(curve) == pytest.approx(float(by_hand))
    assert cf_acc_auc(torch.ones(10)) == pytest.approx(1)


def test_ceiling_is_the_area_when_one_edit_suffices() -> None:
    assert ceiling([10]) == pytest.approx(6.5 / 9)  # allowed from r = 0.1 on
    assert ceiling([30, 10]) == pytest.approx((8.5 / 9 + 6.5 / 9) / 2)
    assert ceiling([3]) == 0.0  # a third of the edges is more than 0.3
    assert ceiling([3, 10, 30], CurveRule.ONE_EDIT) == pytest.approx(1)


@settings(max_examples=40, deadline=None)
@given(st.lists(instances, min_size=1, max_size=20))
def test_no_explainer_is_above_the_ceiling(explained: list[Instance]) -> None:
    for rule in CurveRule:
        area = cf_acc_auc(cf_acc_curve(explained, rule))
        assert area <= ceiling([instance.edges for instance in explained], rule) + 1e-12


def test_a_curve_without_instances_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one instance"):
        cf_acc_curve([])


def test_fidelity_is_the_drop_of_the_class_predicted_before() -> None:
    before, after = torch.tensor([0.2, 0.7, 0.1]), torch.tensor([0.5, 0.1, 0.4])
    assert fidelity(before, after) == pytest.approx(0.6)
    assert fidelity(after, before) == pytest.approx(0.3)


def test_modification_ratio_counts_undirected_pairs_both_ways() -> None:
    before = graph(4, (0, 1), (1, 2), (2, 3), (0, 3))
    after = graph(4, (0, 1), (1, 2), (0, 2))
    assert changed_pairs(before, after) == {(2, 3), (0, 3), (0, 2)}
    assert modification_ratio(before, after) == pytest.approx(3 / 4)
    assert modification_ratio(before, before) == 0
    assert modification_ratio(graph(3), graph(3, (0, 1), (0, 2))) == 2


@settings(max_examples=60, deadline=None)
@given(nodes=st.integers(1, 14), share=st.floats(0, 1), seed=st.integers(0, 999))
def test_density_is_the_share_of_the_adjacency_that_is_one(
    nodes: int, share: float, seed: int
) -> None:
    """|E| / |V|² with each edge in both directions, as PyG stores it and as the paper counts."""
    network = nx.gnp_random_graph(nodes, share / 2, seed=seed)
    ours = graph(nodes, *(tuple(sorted(edge)) for edge in network.edges))
    assert density(ours) == pytest.approx(float(nx.to_numpy_array(network).mean()))


def test_the_density_of_a_five_cycle_is_that_of_the_paper() -> None:
    assert density(graph(5, (0, 1), (1, 2), (2, 3), (3, 4), (0, 4))) == pytest.approx(0.4)


@settings(max_examples=60, deadline=None)
@given(nodes=st.integers(1, 14), share=st.floats(0, 1), seed=st.integers(0, 999))
def test_connectivity_equals_networkx(nodes: int, share: float, seed: int) -> None:
    network = nx.gnp_random_graph(nodes, share / 2, seed=seed)
    ours = graph(nodes, *(tuple(sorted(edge)) for edge in network.edges))
    assert is_connected(ours) == nx.is_connected(network)


def test_a_long_path_is_connected_until_it_is_cut() -> None:
    path = [(i, i + 1) for i in range(99)]
    assert is_connected(graph(100, *path))
    assert not is_connected(graph(100, *path[:50], *path[51:]))


def test_jaccard_distance_and_diversity() -> None:
    a, b, c = {(0, 1), (1, 2)}, {(1, 2)}, {(3, 4)}
    assert jaccard_distance(a, b) == pytest.approx(0.5)
    assert jaccard_distance(b, c) == 1
    assert jaccard_distance(a, a) == 0
    assert jaccard_distance(set(), set()) == 0
    assert mean_jaccard_distance([a, b, c]) == pytest.approx((0.5 + 1 + 1) / 3)
    assert mean_jaccard_distance([a]) is None
