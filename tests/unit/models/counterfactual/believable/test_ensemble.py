"""The ensemble of GNN and witnesses, compared with the sparse GNNs and finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph, to_sparse
from d4explain.gnn.network import Gnn
from models.counterfactual.believable.ensemble import WITNESS_MARGIN, Ensemble
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal, StoppedError
from models.graphs.edits import EditRules, EditSet, EditSpace
from tests.unit.models.small_gnns import (
    edge_counter,
    graph_of,
    plugin_gnn,
    random_gnn,
    random_graph,
)

torch.set_num_threads(1)
CPU = torch.device("cpu")
STEP = 1e-5


def ensemble_of(
    gnn: Gnn, witnesses: list[Gnn], graph: Graph, *, before: int = 0, target: int = 1
) -> tuple[Ensemble, CounterfactualOracle, EditSpace]:
    space = EditSpace.of(graph, EditRules(max_ratio=10.0))
    oracle = CounterfactualOracle(gnn, space, FlipGoal(before, None), CPU)
    return Ensemble(oracle, space, witnesses, target, CPU), oracle, space


def margin_of(gnn: Gnn, graph: Graph, target: int) -> float:
    logits = gnn(to_sparse([graph]))[0].tolist()
    return logits[target] - max(logits[:target] + logits[target + 1 :])


def some_sets(space: EditSpace) -> list[EditSet]:
    return [(), *((pair,) for pair in range(space.count)), (0, 2), (1, 3, 4)]


CASES = {  # classes, whether one value is the logit of class 1, marked node
    "two classes": (2, False, None),
    "one logit": (2, True, None),
    "three classes": (3, False, None),
    "marked node": (3, False, 2),
}


def networks(case: str, seed: int) -> tuple[Graph, list[Gnn]]:
    classes, one_logit, target = CASES[case]
    graph = random_graph(seed, 6, target=target)
    gnn = random_gnn(seed, graph, classes, one_logit=one_logit)
    return graph, [gnn, *(random_gnn(seed + k, graph, classes) for k in (1, 2))]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_margins_are_those_of_the_sparse_gnns(case: str, seed: int) -> None:
    graph, gnns = networks(case, seed)
    for target in range(gnns[0].spec.classes):
        ensemble, oracle, space = ensemble_of(gnns[0], gnns[1:], graph, target=target)
        sets = some_sets(space)
        margins = ensemble.margins(sets)
        expected = [[margin_of(gnn, space.apply(edits), target) for edits in sets] for gnn in gnns]
        torch.testing.assert_close(margins, torch.tensor(expected), atol=1e-4, rtol=1e-4)
        assert oracle.evaluations == len(sets)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_slopes_are_finite_differences_of_the_margins_that_count(case: str, seed: int) -> None:
    graph, gnns = networks(case, seed)
    graph = Graph(graph.features.double(), graph.edges, graph.target)
    gnns = [gnn.double() for gnn in gnns]
    ensemble, oracle, space = ensemble_of(gnns[0], gnns[1:], graph)
    for edits in [(), (1, 3)]:
        dense = space.dense([edits])
        goal = FlipGoal(0, 1)

        def total(adjacency: Tensor, counted: list[Gnn]) -> float:
            with torch.no_grad():
                changed = dense.with_adjacency(adjacency)  # noqa: B023
                return sum(float(goal.margin(gnn.dense(changed))) for gnn in counted)  # noqa: B023

        counted = [gnn for gnn in gnns if total(dense.adjacency, [gnn]) < 2 * WITNESS_MARGIN]
        assert counted
        expected = []
        for source, target in zip(space.sources.tolist(), space.targets.tolist(), strict=True):
            moved = dense.adjacency.clone()
            step = STEP * (1 - 2 * float(moved[0, source, target]))
            moved[0, source, target] += step
            moved[0, target, source] += step
            expected.append((total(moved, counted) - total(dense.adjacency, counted)) / STEP)
        slopes = ensemble.slopes(edits)
        torch.testing.assert_close(slopes, torch.tensor(expected), atol=1e-3, rtol=1e-3)
    assert oracle.evaluations == 2


def test_networks_that_are_convinced_by_far_have_no_slope() -> None:
    graph = graph_of(4, {(0, 1), (1, 2), (2, 3)})  # 3 edges; the margin is 2 · (3 - threshold)
    far, near = edge_counter(1.9), edge_counter(2.1)
    added = 1 - 2 * EditSpace.of(graph, EditRules(max_ratio=10.0)).present.float()
    ensemble, oracle, _ = ensemble_of(near, [far], graph)
    torch.testing.assert_close(ensemble.slopes(()), 2 * added)
    assert oracle.gradient_count == 1
    ensemble, oracle, _ = ensemble_of(far, [far], graph)
    assert not ensemble.slopes(()).any()
    assert oracle.gradient_count == 0


def test_a_gnn_without_a_dense_form_has_margins_and_leaves_the_slopes_to_the_witnesses() -> None:
    graph, gnn = random_graph(3, 6), plugin_gnn()
    witness = random_gnn(1, graph)
    ensemble, _, space = ensemble_of(gnn, [witness], graph)
    alone, _, _ = ensemble_of(witness, [], graph)
    sets = some_sets(space)
    expected = [[margin_of(one, space.apply(edits), 1) for edits in sets] for one in (gnn, witness)]
    torch.testing.assert_close(ensemble.margins(sets), torch.tensor(expected), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ensemble.slopes(()), alone.slopes(()))


def test_the_objective_clips_and_the_counts_compare_with_the_margin() -> None:
    graph = graph_of(4, {(0, 1), (1, 2), (2, 3)})
    ensemble, _, _ = ensemble_of(edge_counter(0), [edge_counter(0), edge_counter(0)], graph)
    margins = torch.tensor(
        [
            [0.1, 0.0, 5.0, 0.5],  # the GNN
            [1.0, 9.0, 0.9, 1.0],
            [2.0, 9.0, 0.0, -1.0],
        ]
    )
    torch.testing.assert_close(ensemble.objective(margins), torch.tensor([2.1, 2.0, 1.9, 0.5]))
    assert ensemble.convinced(margins).tolist() == [2, 2, 1, 1]
    assert ensemble.sufficient(margins).tolist() == [True, False, False, False]
    assert ensemble.witness_count == 2


def test_no_sets_have_no_margins() -> None:
    ensemble, _, _ = ensemble_of(edge_counter(0), [edge_counter(0)], graph_of(3, {(0, 1)}))
    assert ensemble.margins([]).shape == (2, 0)


def test_margins_and_slopes_obey_a_stop_request() -> None:
    space = EditSpace.of(graph_of(3, {(0, 1)}), EditRules(max_ratio=10.0))
    gnn = edge_counter(0)
    oracle = CounterfactualOracle(gnn, space, FlipGoal(0, None), CPU, lambda: True)
    ensemble = Ensemble(oracle, space, [], 1, CPU)
    with pytest.raises(StoppedError):
        ensemble.margins([(0,)])
    with pytest.raises(StoppedError):
        ensemble.slopes(())
