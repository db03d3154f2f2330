"""Explanations with a panel: minimal and believable answers side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import GineLayer, GnnSpec, LinearLayer, PoolLayer
from models.counterfactual.config import CounterfactualConfig
from models.counterfactual.explain import CounterfactualOutcome, explain
from models.counterfactual.large.candidate_space import CandidateConfig
from models.counterfactual.nodes import explain_node, held_on_whole
from models.counterfactual.panel import Panel
from models.counterfactual.result import Aim
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.graphs.edits import EditRules
from models.graphs.neighbourhoods import instance
from models.realism.reference_patterns import InputPatterns, ReferencePatterns
from models.witnesses.transfer import Transfer
from tests.unit.models.small_gnns import (
    TYPES,
    edge_counter,
    graph_of,
    plugin_gnn,
    random_gnn,
    random_graph,
)

torch.set_num_threads(1)
CPU = torch.device("cpu")
RULES = EditRules(max_edits=3, max_ratio=10.0)
PATH = graph_of(6, {(k, k + 1) for k in range(5)})  # five edges


def run(
    gnn: Gnn,
    graph: Graph,
    panel: Panel | None,
    aim: Aim = "believable",
    *,
    rules: EditRules = RULES,
    should_stop: Callable[[], bool] = lambda: False,
    **settings: object,
) -> CounterfactualOutcome:
    config = CounterfactualConfig(aim=aim, **settings)  # type: ignore[arg-type]
    return explain(
        gnn, None, graph, rules, config, seed=0, device=CPU, panel=panel, should_stop=should_stop
    )


def edits_of(outcome: CounterfactualOutcome) -> list[tuple[tuple[int, int], ...]]:
    return [tuple((edit.source, edit.target) for edit in one.edits) for one in outcome.found]


def edges_of(graph: Graph) -> list[tuple[int, int]]:
    return [(source, target) for source, target in graph.edges.T.tolist()]


def random_panel(seed: int, graph: Graph, witnesses: int = 3) -> Panel:
    return Panel(
        selection=tuple(random_gnn(50 + 10 * seed + k, graph) for k in range(witnesses)),
        judges=tuple(random_gnn(500 + 10 * seed + k, graph) for k in range(3)),
        patterns=ReferencePatterns.of([random_graph(900 + k, 6) for k in range(30)]),
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_panel_without_patterns_does_not_change_minimal_answers(seed: int) -> None:
    graph = random_graph(seed, 6)
    gnn = random_gnn(seed, graph)
    panel = replace(random_panel(seed, graph), patterns=None)
    plain, judged = run(gnn, graph, None, "minimal"), run(gnn, graph, panel, "minimal")
    assert plain.found
    assert edits_of(plain) == edits_of(judged)
    assert judged.minimal == ()
    assert [one.transfer for one in plain.found] == [None] * len(plain.found)
    assert all(one.transfer is not None for one in judged.found)


def test_believable_answers_are_the_same_with_a_denoiser() -> None:
    compared = 0
    for seed in range(6):
        graph = random_graph(seed, 6)
        gnn, panel = random_gnn(seed, graph), replace(random_panel(seed, graph), only_seen=False)
        shape = DenoiserShape(features=TYPES, hidden=8, blocks=2)
        denoiser = Denoiser(shape, torch.Generator().manual_seed(seed)).eval()
        config = CounterfactualConfig(aim="believable")
        answers = [
            edits_of(explain(gnn, one, graph, RULES, config, seed=0, device=CPU, panel=panel))
            for one in (None, denoiser)
        ]
        assert answers[0] == answers[1]
        compared += len(answers[0])
    assert compared > 0


def test_minimal_answers_of_equal_size_have_few_unseen_patterns_first() -> None:
    decided = 0
    for seed in range(8):
        graph = random_graph(seed, 6)
        gnn, panel = random_gnn(seed, graph), random_panel(seed, graph)
        assert panel.patterns is not None
        outcome = run(gnn, graph, panel, "minimal", alternatives=6)
        patterns = InputPatterns(panel.patterns, graph)
        orders = []
        for answer in outcome.found:
            adjacency = torch.zeros(6, 6)
            adjacency[answer.graph.edges[0], answer.graph.edges[1]] = 1
            unseen = patterns.unseen(adjacency + adjacency.T)
            assert answer.unseen == unseen
            assert answer.order is not None
            assert answer.order.unseen == len(unseen)
            assert answer.order.edits == len(answer.edits)
            orders.append(answer.order)
        keys = [(order.edits, order.unseen, order.statistics_shift) for order in orders]
        assert keys == sorted(keys)
        for before, after in pairwise(orders):
            if after.edits > before.edits:
                assert "fewer edits" in after.reason
            elif after.unseen != before.unseen:
                assert "fewer unseen patterns" in after.reason
                decided += 1
            elif after.statistics_shift > before.statistics_shift:
                assert "spectrum less" in after.reason
            else:
                assert "as good" in after.reason
        # Without patterns the same sizes come first.
        plain = run(gnn, graph, None, "minimal", alternatives=6)
        assert len(plain.found[0].edits) == orders[0].edits
    assert decided > 0


@pytest.mark.parametrize("aim", ["believable", "both"])
def test_believable_answers_have_minimal_ones_beside_them(aim: Aim) -> None:
    found = 0
    for seed in range(6):
        graph = random_graph(seed, 6)
        gnn, panel = random_gnn(seed, graph), random_panel(seed, graph)
        minimal = run(gnn, graph, panel, "minimal")
        outcome = run(gnn, graph, panel, aim)
        wanted = minimal.found if aim == "both" else minimal.found[:1]
        assert [one.edits for one in outcome.minimal] == [one.edits for one in wanted]
        assert all(one.aim == "minimal" for one in outcome.minimal)
        before = int(outcome.probabilities.argmax())
        for answer in outcome.found:
            found += 1
            assert answer.aim == "believable"
            after = int(predict(gnn, [answer.graph], CPU)[0].argmax())
            assert after != before
            assert answer.unseen == ()
            order = answer.order
            assert order is not None
            votes = [int(predict(one, [answer.graph], CPU)[0].argmax()) for one in panel.selection]
            assert order.convinced == votes.count(after)
            assert order.witnesses == 3
            judged = [predict(one, [graph, answer.graph], CPU).argmax(1) for one in panel.judges]
            agreeing = [pair.tolist() for pair in judged if int(pair[0]) == before]
            shared = sum(new == after for _, new in agreeing)
            assert answer.transfer == Transfer(shared, len(agreeing), 3)
            assert len(answer.edits) >= len(outcome.minimal[0].edits)
        if outcome.found:
            assert outcome.reason is None
        else:
            assert outcome.reason == (
                "no edits were found within the budget that flip the GNN, convince at least half "
                "of 3 witnesses and leave only patterns of the reference set; "
                "`minimal` has the smallest flip"
            )
        assert outcome.closest_miss is None or not outcome.minimal
    assert found > 0


def counting(*witnesses: float, patterns: ReferencePatterns | None = None) -> Panel:
    return Panel(tuple(edge_counter(one) for one in witnesses), patterns=patterns)


def test_reasons_say_what_no_edits_do() -> None:
    gnn = edge_counter(5.5)
    lone = ReferencePatterns.of([graph_of(2, {(0, 1)})])
    witnesses = run(gnn, PATH, counting(99, 99))
    assert witnesses.reason == (
        "no edits were found within the budget that flip the GNN and convince at least half of "
        "2 witnesses; `minimal` has the smallest flip"
    )
    assert len(witnesses.minimal) == 1
    unseen = run(gnn, PATH, counting(patterns=lone))
    assert unseen.reason == (
        "no edits were found within the budget that flip the GNN and leave only patterns of the "
        "reference set; `minimal` has the smallest flip"
    )
    allowed = run(gnn, PATH, replace(counting(patterns=lone), only_seen=False))
    assert allowed.reason is None
    assert allowed.found[0].unseen
    neither = run(edge_counter(99), PATH, counting(99))
    assert neither.reason is not None
    assert "that the GNN gives another class" in neither.reason
    assert neither.minimal == ()
    assert neither.closest_miss is not None


def test_a_stop_request_after_the_minimal_search_keeps_its_answers() -> None:
    gnn, panel = edge_counter(5.5), counting(5.5, 7.5)
    calls = 0

    def count() -> bool:
        nonlocal calls
        calls += 1
        return False

    run(gnn, PATH, panel, "minimal", should_stop=count)
    limit, calls = calls, 0

    def stop() -> bool:
        nonlocal calls
        calls += 1
        return calls > limit

    outcome = run(gnn, PATH, panel, should_stop=stop)
    assert outcome.found == ()
    assert len(outcome.minimal) == 1
    assert outcome.reason == (
        "stopped before a believable counterfactual was found; `minimal` has the smallest flip"
    )


def test_a_target_class_is_obeyed() -> None:
    found = 0
    for seed in range(6):
        graph = random_graph(seed, 6)
        gnn = random_gnn(seed, graph, 3)
        before = int(predict(gnn, [graph], CPU)[0].argmax())
        panel = Panel(tuple(random_gnn(70 + seed + k, graph, 3) for k in range(2)))
        for target in range(3):
            outcome = run(gnn, graph, panel, target_class=target)
            if target == before:
                assert outcome.reason is not None
                assert outcome.found == outcome.minimal == ()
                continue
            for answer in outcome.found:
                found += 1
                assert int(predict(gnn, [answer.graph], CPU)[0].argmax()) == target
    assert found > 0


@pytest.mark.parametrize(
    ("graph", "rules"),
    [
        (graph_of(1, set()), EditRules()),
        (graph_of(3, set()), EditRules()),
        (PATH, EditRules(max_edits=0)),
        (PATH, EditRules(frozen_nodes=frozenset(range(6)))),
    ],
)
def test_nothing_to_edit_is_said_with_every_aim(graph: Graph, rules: EditRules) -> None:
    outcome = run(edge_counter(5.5), graph, counting(5.5), rules=rules)
    assert outcome.found == outcome.minimal == ()
    assert outcome.reason is not None
    assert "rules" in outcome.reason


def test_large_graphs_get_minimal_answers() -> None:
    outcome = run(edge_counter(5.5), PATH, counting(5.5), candidates=CandidateConfig(above_nodes=3))
    assert outcome.found
    assert {answer.aim for answer in outcome.found} == {"minimal"}
    assert outcome.minimal == ()


def test_edge_attributes_stay_with_the_edges() -> None:
    plain = random_graph(1, 6)
    attributes = torch.arange(1.0, plain.edge_count + 1)[:, None]
    graph = Graph(plain.features, plain.edges, edge_attributes=attributes)
    graph = replace(graph, usual=UsualAttributes.always(torch.ones(1)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        layers = (GineLayer(6, 6), PoolLayer("mean"), LinearLayer(2))
        gnn = Gnn(GnnSpec(TYPES, 2, layers, edge_features=1)).eval()
    values = predict(gnn, [graph], CPU)[0]
    witnesses = tuple(random_gnn(k, plain) for k in range(2))
    with torch.no_grad():  # the input is near the decision boundary, so few edits flip it
        bias = gnn.layers[-1].linear.bias
        bias[1] += values[0].log() - values[1].log() - 0.01
    outcome = run(gnn, graph, Panel(witnesses, witnesses))
    assert outcome.minimal
    before = dict(zip(edges_of(graph), attributes[:, 0].tolist(), strict=True))
    for answer in (*outcome.found, *outcome.minimal):
        assert answer.graph.edge_attributes is not None
        after = answer.graph.edge_attributes[:, 0].tolist()
        assert after == [before.get(edge, 1.0) for edge in edges_of(answer.graph)]
        assert int(predict(gnn, [answer.graph], CPU)[0].argmax()) == 1
        assert answer.transfer is not None


def test_a_gnn_without_a_dense_form_is_explained_with_its_witnesses() -> None:
    gnn, found = plugin_gnn(), 0
    for seed in range(6):
        graph = random_graph(seed, 6)
        before = int(predict(gnn, [graph], CPU)[0].argmax())
        outcome = run(gnn, graph, Panel(tuple(random_gnn(seed + k, graph) for k in range(2))))
        found += len(outcome.found)
        for answer in outcome.found:
            assert int(predict(gnn, [answer.graph], CPU)[0].argmax()) != before
    assert found > 0


def test_an_unknown_aim_and_the_papers_sampler_are_refused() -> None:
    with pytest.raises(ValueError, match="aim must be one of"):
        CounterfactualConfig(aim="natural")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="minimal only"):
        CounterfactualConfig(sampler="paper", aim="both")


def node_case() -> tuple[Gnn, Graph, Panel]:
    """A node classifier, the whole graph with a marked node, and witnesses."""
    graph = random_graph(5, 9, 0.3, target=0)
    gnn = random_gnn(1, graph)
    return gnn, graph, Panel(tuple(random_gnn(20 + k, graph) for k in range(2)), (gnn,))


def test_believable_answers_of_a_node_hold_in_the_whole_graph() -> None:
    gnn, graph, panel = node_case()
    part = instance(graph, 0, gnn.spec.convolutions, receptive_field=gnn.spec.receptive_field)
    config = CounterfactualConfig(aim="both")
    outcome = explain_node(
        gnn, None, part, RULES, config, whole=graph, seed=0, device=CPU, panel=panel
    )
    assert part.graph.node_count < graph.node_count
    assert outcome.found
    assert outcome.minimal
    before = int(outcome.probabilities.argmax())
    for answer in (*outcome.found, *outcome.minimal):
        assert int(answer.probabilities.argmax()) != before
        # The GNN judges itself, so it shares every flip.
        assert answer.transfer == Transfer(1, 1, 1)


def test_answers_that_the_whole_graph_refutes_leave_true_reasons() -> None:
    gnn, graph, panel = node_case()
    part = instance(graph, 0, gnn.spec.convolutions, receptive_field=gnn.spec.receptive_field)
    config = CounterfactualConfig(aim="both", alternatives=4)
    outcome = explain(
        gnn, None, part.graph, part.rules(RULES), config, seed=0, device=CPU, panel=panel
    )
    assert len(outcome.minimal) > 1
    unedited = replace(outcome.minimal[0], graph=part.graph)  # flips nothing

    def held(**changes: object) -> CounterfactualOutcome:
        changed = replace(outcome, **changes)  # type: ignore[arg-type]
        return held_on_whole(gnn, part, changed, whole=graph, target_class=None, device=CPU)

    first_refuted = held(minimal=(unedited, *outcome.minimal[1:]))
    assert len(first_refuted.minimal) == len(outcome.minimal) - 1
    order = first_refuted.minimal[0].order
    assert order is not None
    assert order.reason.startswith("First")

    none_believable = held(found=(), minimal=(unedited,), reason="`minimal` has the smallest flip")
    assert none_believable.reason == (
        "the edits flip the node in its neighbourhood but not in the whole graph"
    )
    miss = none_believable.closest_miss
    assert miss is not None
    assert (miss.order, miss.transfer) == (None, None)

    kept = held(found=(), reason="why")
    assert kept.reason == "why"
    assert len(kept.minimal) == len(outcome.minimal)

    # Judges that saw another class in the neighbourhood did not judge this flip.
    other = replace(outcome.minimal[0], probabilities=outcome.minimal[0].probabilities.flip(0))
    assert held(minimal=(other,)).minimal[0].transfer is None
