"""The counterfactual curve of an explanation: order, rules, verdicts and fidelity."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal, StoppedError
from models.explainers.curve import counterfactual_curve
from models.explainers.interface import EdgeScores, EditedGraphs, EditOrder
from models.graphs.edits import EditRules, EditSpace
from tests.unit.models.small_gnns import edge_counter, graph_of, random_gnn, random_graph

CPU = torch.device("cpu")
PATH = graph_of(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])  # 5 edges


def oracle_of(gnn: Gnn, graph: Graph, rules: EditRules) -> CounterfactualOracle:
    before = int(predict(gnn, [graph], CPU)[0].argmax())
    return CounterfactualOracle(gnn, EditSpace.of(graph, rules), FlipGoal(before, None), CPU)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pairs_of(oracle: CounterfactualOracle, edits: tuple[int, ...]) -> set[tuple[int, int]]:
    space = oracle.space
    return {(int(space.sources[pair]), int(space.targets[pair])) for pair in edits}


def test_edges_are_removed_by_falling_score_until_the_class_changes() -> None:
    oracle = oracle_of(edge_counter(3.5), PATH, EditRules(max_ratio=1))
    curve = counterfactual_curve(oracle, EdgeScores(torch.tensor([1.0, 5, 3, 2, 4])), rng())
    removed = [pairs_of(oracle, step.edits) for step in curve.steps]
    assert removed[:3] == [{(1, 2)}, {(1, 2), (4, 5)}, {(1, 2), (4, 5), (2, 3)}]
    assert len(removed) == 5
    assert [step.flips for step in curve.steps] == [False, True, True, True, True]
    assert curve.smallest_flip == curve.steps[1]


def test_an_answer_within_some_edits_is_the_smallest_flip_or_the_last_graph() -> None:
    oracle = oracle_of(edge_counter(3.5), PATH, EditRules(max_ratio=1))
    curve = counterfactual_curve(oracle, EdgeScores(torch.arange(5.0)), rng())
    assert curve.answer(0) is None
    assert curve.fidelity(0) == 0
    assert curve.answer(1) == curve.steps[0]
    assert curve.answer(2) == curve.answer(5) == curve.steps[1]
    # Logits are 0 and 2 · (edges - 3.5); 5 edges before.
    before, after = torch.sigmoid(torch.tensor([3.0, -1.0])).tolist()
    assert curve.fidelity(5) == pytest.approx(before - after, abs=1e-6)


def test_the_budget_ends_the_curve_and_frozen_edges_stay() -> None:
    rules = EditRules(max_edits=2, max_ratio=1, frozen_pairs=frozenset({(1, 2)}))
    oracle = oracle_of(edge_counter(1.5), PATH, rules)
    curve = counterfactual_curve(oracle, EdgeScores(torch.tensor([1.0, 9, 3, 2, 4])), rng())
    assert [pairs_of(oracle, step.edits) for step in curve.steps] == [{(4, 5)}, {(4, 5), (2, 3)}]
    assert curve.smallest_flip is None


def test_an_edit_that_disconnects_is_skipped_and_later_ones_still_count() -> None:
    graph = graph_of(4, [(0, 1), (0, 2), (1, 2), (2, 3)])  # a triangle with a tail
    oracle = oracle_of(edge_counter(3.5), graph, EditRules(max_ratio=1, keep_connected=True))
    curve = counterfactual_curve(oracle, EdgeScores(torch.tensor([1.0, 2, 3, 9])), rng())
    assert [pairs_of(oracle, step.edits) for step in curve.steps] == [{(1, 2)}]
    assert curve.smallest_flip is not None


def test_edited_graphs_are_verified_smallest_first_and_within_the_rules() -> None:
    oracle = oracle_of(edge_counter(3.5), PATH, EditRules(max_edits=3, max_ratio=1, add=False))
    sets = ((0, 1, 2), (0, 1, 2, 3), (0, 4), (3,), (0, 4))
    curve = counterfactual_curve(oracle, EditedGraphs(sets), rng())
    assert [step.edits for step in curve.steps] == [(3,), (0, 4), (0, 1, 2)]
    assert [step.flips for step in curve.steps] == [False, True, True]


def test_equal_scores_are_ordered_by_the_generator() -> None:
    oracle = oracle_of(edge_counter(0.5), PATH, EditRules(max_ratio=1))

    def first(seed: int) -> tuple[int, ...]:
        return counterfactual_curve(oracle, EdgeScores(torch.zeros(5)), rng(seed)).steps[0].edits

    assert len({first(seed) for seed in range(30)}) == 5
    assert first(3) == first(3)


def test_a_stop_request_ends_the_verification() -> None:
    space = EditSpace.of(PATH, EditRules(max_ratio=1))
    oracle = CounterfactualOracle(edge_counter(3.5), space, FlipGoal(1, None), CPU, lambda: True)
    with pytest.raises(StoppedError):
        counterfactual_curve(oracle, EdgeScores(torch.zeros(5)), rng())


@given(st.integers(0, 10**6), st.integers(0, 3), st.booleans())
@settings(max_examples=30, deadline=None)
def test_every_step_is_the_sparse_gnns_verdict_on_the_edited_graph(
    seed: int, gnn_seed: int, adds: bool
) -> None:
    graph = random_graph(seed % 50, 7)
    gnn = random_gnn(gnn_seed, graph)
    oracle = oracle_of(gnn, graph, EditRules(max_ratio=0.5))
    order = torch.randperm(oracle.space.count, generator=rng(seed)).tolist()
    scores = torch.rand(graph.edge_count, generator=rng(seed))
    explanation = EditOrder(tuple(order)) if adds else EdgeScores(scores)
    curve = counterfactual_curve(oracle, explanation, rng(seed))
    assert len(curve.steps) == graph.edge_count // 2
    before: set[tuple[int, int]] = set()
    for step in curve.steps:
        toggled = pairs_of(oracle, step.edits)
        assert before < toggled  # one more edit per step
        before = toggled
        network = nx.Graph(graph.edges.T.tolist())
        network.remove_edges_from(pair for pair in toggled if network.has_edge(*pair))
        edges = {(min(pair), max(pair)) for pair in network.edges}
        original = set(map(tuple, graph.edges.T.tolist()))
        edges |= toggled - original
        ends = torch.tensor(sorted(edges)).reshape(-1, 2).T
        (expected,) = predict(gnn, [Graph(graph.features, ends)], CPU)
        assert torch.allclose(step.probabilities, expected, atol=1e-6)
        assert step.flips == (int(expected.argmax()) != oracle.goal.before)
