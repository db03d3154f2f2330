"""Global counterfactuals of a small GNN: every statement of the answer is checked again."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import ActivationLayer, GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.errors import TooManyTypesError, UnknownClassError
from models.global_counterfactuals.config import GlobalConfig
from models.global_counterfactuals.edit_paths import applied
from models.global_counterfactuals.explain import GlobalExplanation, explain_globally
from models.global_counterfactuals.typed_graphs import TypedGraph
from models.realism.node_types import NodeTypes

CPU = torch.device("cpu")
KINDS = 3


def red_counter() -> Gnn:
    """Class 1 if a graph has at least two nodes of type 2: logits (1.5, number of such nodes)."""
    spec = GnnSpec(KINDS, 2, (PoolLayer("sum"), LinearLayer(2)))
    gnn = Gnn(spec).eval()
    with torch.no_grad():
        (linear,) = [layer for layer in gnn.modules() if isinstance(layer, torch.nn.Linear)]
        linear.weight.zero_()
        linear.weight[1, 2] = 1.0
        linear.bias.copy_(torch.tensor([1.5, 0.0]))
    return gnn


def graphs(count: int, seed: int = 0) -> list[Graph]:
    """Trees of 8 to 10 nodes with random types; two shapes recur."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for number in range(count):
        shape = nx.star_graph(7) if number % 3 == 0 else nx.path_graph(8 + number % 3)
        kinds = torch.zeros(len(shape), dtype=torch.long)
        draw = torch.rand(len(shape), generator=generator)
        kinds[draw < 0.25] = 1
        kinds[draw < 0.1] = 2
        edges = torch.tensor(list(shape.edges)).T.sort(dim=0).values
        made.append(Graph(torch.nn.functional.one_hot(kinds, KINDS).float(), edges))
    return made


@pytest.fixture(scope="module")
def reference() -> list[Graph]:
    return graphs(60)


@pytest.fixture(scope="module")
def explanation(reference: list[Graph]) -> GlobalExplanation:
    config = GlobalConfig(source_class=0, count=3, radius=0.1, seeds=3, rounds=4)
    return explain_globally(red_counter(), reference, config, seed=1, device=CPU)


def network(graph: TypedGraph) -> nx.Graph:
    result = nx.Graph()
    for node, kind in enumerate(graph.types.tolist()):
        result.add_node(node, kind=kind)
    result.add_edges_from(graph.edges.T.tolist())
    return result


def test_counterfactuals_have_another_class(explanation: GlobalExplanation) -> None:
    found = [one.graph for one in explanation.counterfactuals]
    assert found
    assert (predict(red_counter(), found, CPU).argmax(dim=1) == 1).all()


def test_the_graphs_asked_about_are_those_of_the_class(
    explanation: GlobalExplanation, reference: list[Graph]
) -> None:
    classes = predict(red_counter(), reference, CPU).argmax(dim=1)
    assert explanation.asked == (classes == 0).nonzero()[:, 0].tolist()


def test_each_path_leads_to_the_counterfactual_within_the_radius(
    explanation: GlobalExplanation, reference: list[Graph]
) -> None:
    types = NodeTypes.of(reference, free_of_degree=True)
    assert explanation.covered
    for one in explanation.covered:
        graph = TypedGraph.of(reference[one.graph], types)
        goal = TypedGraph.of(explanation.counterfactuals[one.counterfactual].graph, types)
        reached = applied(graph, one.path)
        assert nx.is_isomorphic(
            network(reached), network(goal), node_match=lambda a, b: a["kind"] == b["kind"]
        )
        assert one.distance == pytest.approx(one.path.cost / (graph.size + goal.size))
        assert one.distance <= 0.1


def test_shares_are_counts_of_the_covered_graphs(explanation: GlobalExplanation) -> None:
    total = len(explanation.asked)
    assert explanation.share == len(explanation.covered) / total
    for curve in explanation.coverage.values():
        assert curve == sorted(curve)
    last = [curve[-1] for _, curve in sorted(explanation.coverage.items())]
    assert last == sorted(last)
    assert explanation.coverage[0.1][-1] == explanation.share
    gains = sum(one.gain for one in explanation.counterfactuals)
    assert gains == len(explanation.covered)
    assert all(rule.paths <= len(explanation.covered) for rule in explanation.rules)


def test_the_cheapest_change_of_class_is_a_rule(explanation: GlobalExplanation) -> None:
    """Only nodes of type 2 make class 1, so most paths create one."""
    creating = [rule for rule in explanation.rules if rule.kind == "retype" and rule.types[1] == 2]
    creating += [r for r in explanation.rules if r.kind == "add_node" and r.types == (2,)]
    assert sum(rule.paths for rule in creating) >= len(explanation.covered) / 2


def test_as_good_as_the_best_graph_of_the_data(reference: list[Graph]) -> None:
    """One counterfactual covers at least what a real graph of the other class covers."""
    gnn, some = red_counter(), reference[:24]
    types = NodeTypes.of(some, free_of_degree=True)
    config = GlobalConfig(source_class=0, count=1, radius=0.12, seeds=6)
    found = explain_globally(gnn, some, config, seed=1, device=CPU)
    classes = predict(gnn, some, CPU).argmax(dim=1)
    typed = [TypedGraph.of(graph, types) for graph in some]
    real = [typed[row] for row in (classes == 1).nonzero()[:, 0].tolist()]
    assert real

    def covers(goal: TypedGraph, graph: TypedGraph) -> bool:
        allowed = 0.12 * (graph.size + goal.size)
        distance = nx.graph_edit_distance(
            network(graph),
            network(goal),
            node_match=lambda a, b: a["kind"] == b["kind"],
            upper_bound=allowed,
            timeout=0.3,
        )
        return distance is not None and distance <= allowed

    best = max(sum(covers(goal, typed[row]) for row in found.asked) for goal in real[:3])
    assert len(found.covered) >= best > 0


def test_the_seed_alone_decides(reference: list[Graph]) -> None:
    config = GlobalConfig(source_class=0, count=2, seeds=2, rounds=2)
    one = explain_globally(red_counter(), reference, config, seed=5, device=CPU)
    other = explain_globally(red_counter(), reference, config, seed=5, device=CPU)
    assert one.covered == other.covered
    assert one.coverage == other.coverage


def test_edges_of_a_gnn_that_reads_them_count() -> None:
    spec = GnnSpec(
        KINDS,
        2,
        (GinLayer(out=4, hidden=4), ActivationLayer("relu"), PoolLayer("sum"), LinearLayer(2)),
    )
    torch.manual_seed(3)
    gnn = Gnn(spec).eval()
    reference = graphs(40, seed=2)
    classes = predict(gnn, reference, CPU).argmax(dim=1)
    source = int(classes.mode().values)
    config = GlobalConfig(source_class=source, count=2, seeds=3)
    found = explain_globally(gnn, reference, config, seed=1, device=CPU)
    answers = predict(gnn, [one.graph for one in found.counterfactuals], CPU) if found.share else []
    assert all(int(answer.argmax()) != source for answer in answers)


def test_without_graphs_of_the_class_the_reason_is_said(reference: list[Graph]) -> None:
    gnn = red_counter()
    only = [reference[row] for row in range(60) if row % 3 == 0]
    with torch.no_grad():
        for layer in gnn.modules():
            if isinstance(layer, torch.nn.Linear):
                layer.bias.copy_(torch.tensor([-9.0, 9.0]))
    config = GlobalConfig(source_class=0)
    found = explain_globally(gnn, only, config, seed=1, device=CPU)
    assert found.counterfactuals == []
    assert found.reason == "the GNN gives no graph class 0"


def test_large_graphs_count_as_not_covered(reference: list[Graph]) -> None:
    config = GlobalConfig(source_class=0, count=1, seeds=1, rounds=1, max_nodes=8)
    found = explain_globally(red_counter(), reference, config, seed=1, device=CPU)
    larger = [row for row in found.asked if reference[row].node_count > 8]
    assert found.too_large == len(larger) > 0
    assert not {one.graph for one in found.covered} & set(larger)
    assert found.share == len(found.covered) / len(found.asked)


def test_an_unknown_class_is_refused(reference: list[Graph]) -> None:
    with pytest.raises(UnknownClassError, match="unknown class 7"):
        explain_globally(red_counter(), reference, GlobalConfig(source_class=7), seed=1, device=CPU)


def test_more_node_types_than_counts_can_hold_are_refused() -> None:
    codes = torch.eye(65)
    some = [Graph(codes, torch.tensor([[0], [1]])) for _ in range(3)]
    gnn = Gnn(GnnSpec(65, 2, (PoolLayer("sum"), LinearLayer(2)))).eval()
    with pytest.raises(TooManyTypesError, match=r"give 65 node types; .* at most 64"):
        explain_globally(gnn, some, GlobalConfig(source_class=0), seed=1, device=CPU)
