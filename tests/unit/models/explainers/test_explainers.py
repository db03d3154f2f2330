"""Each explainer on small cases whose answer is known, and what all of them promise."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph, to_dense
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import ActivationLayer, GcnLayer, GnnSpec, LinearLayer, PoolLayer
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal, StoppedError
from models.errors import NoGradientsError, NothingToLearnError
from models.explainers.algorithms.cf_gnn_explainer import CfGnnExplainer
from models.explainers.algorithms.cxplain import removal_costs
from models.explainers.algorithms.grad_cam import GradCam
from models.explainers.algorithms.integrated_gradients import IntegratedGradients
from models.explainers.algorithms.pgm_explainer import SAMPLES, PgmExplainer
from models.explainers.algorithms.saliency import Saliency
from models.explainers.catalogue import EXPLAINERS, ExplainerName, make_explainer
from models.explainers.curve import counterfactual_curve
from models.explainers.interface import EdgeScores, EditOrder, Explainer
from models.graphs.edits import EditRules, EditSpace
from tests.unit.models.small_gnns import (
    TYPES,
    edge_counter,
    graph_of,
    mixed_edge_counter,
    plugin_gnn,
    random_gnn,
    random_graph,
)

CPU = torch.device("cpu")
RULES = EditRules(max_ratio=1)
NAMES: list[ExplainerName] = list(EXPLAINERS)


def oracle_of(gnn: Gnn, graph: Graph, rules: EditRules = RULES) -> CounterfactualOracle:
    before = int(predict(gnn, [graph], CPU)[0].argmax())
    return CounterfactualOracle(gnn, EditSpace.of(graph, rules), FlipGoal(before, None), CPU)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def edge_scores(explainer: Explainer, gnn: Gnn, graph: Graph) -> EdgeScores:
    scores = explainer.explain(oracle_of(gnn, graph), rng())
    assert isinstance(scores, EdgeScores)
    return scores


def typed_graph(seed: int) -> Graph:
    """Two node types and moderate degrees, for `mixed_edge_counter`."""
    types = torch.randint(2, (9,), generator=rng(seed)).tolist()
    pairs = list(combinations(range(9), 2))
    kept = (torch.rand(len(pairs), generator=rng(seed + 1)) < 0.4).tolist()
    return graph_of(9, [pair for pair, keep in zip(pairs, kept, strict=True) if keep], types)


def is_mixed(graph: Graph) -> Tensor:
    """Whether an edge joins types 0 and 1: [edge]."""
    return (graph.features[graph.edges[0]] != graph.features[graph.edges[1]]).any(dim=1)


def auc(scores: Tensor, positive: Tensor) -> float:
    """The share of (positive, negative) pairs in the right order; ties count as half."""
    high, low = scores[positive], scores[~positive]
    above = (high[:, None] > low).double() + 0.5 * (high[:, None] == low).double()
    return float(above.mean())


# Closed forms.


def test_saliency_of_a_linear_gnn_is_its_slope() -> None:
    graph = graph_of(5, [(0, 1), (1, 2), (2, 3), (3, 4)])
    # Logits are 0 and 2 · (edges - 3.5), so ∂ log p/∂edge = 2 · (1 - p).
    p = torch.sigmoid(torch.tensor(1.0))
    scores = edge_scores(Saliency(), edge_counter(3.5), graph).edges
    assert torch.allclose(scores, (2 * (1 - p)).expand(4), atol=1e-5)


@pytest.mark.parametrize("seed", [0, 1])  # GCN and GIN
def test_saliency_agrees_with_finite_differences(seed: int) -> None:
    graph = random_graph(3, 6)
    gnn = random_gnn(seed, graph).double()
    graph = Graph(graph.features.double(), graph.edges)
    oracle = oracle_of(gnn, graph)
    scores = Saliency().explain(oracle, rng()).edges
    dense, step = to_dense([graph]), 1e-6
    for position, (one, other) in enumerate(graph.edges.T.tolist()):
        values = []
        for sign in (1, -1):
            adjacency = dense.adjacency.clone()
            adjacency[0, one, other] += sign * step
            adjacency[0, other, one] += sign * step
            with torch.no_grad():
                logits = gnn.dense(dense.with_adjacency(adjacency))
            values.append(float(logits.log_softmax(dim=1)[0, oracle.goal.before]))
        assert scores[position] == pytest.approx(abs(values[0] - values[1]) / (2 * step), rel=1e-4)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_integrated_gradients_are_complete(seed: int) -> None:
    graph = random_graph(seed, 8)
    gnn = random_gnn(seed, graph)
    empty = Graph(graph.features, torch.empty(2, 0, dtype=torch.int64))
    (before, without) = predict(gnn, [graph, empty], CPU)
    predicted = int(before.argmax())
    difference = float(before[predicted] - without[predicted])
    for steps, error in ((50, 0.01), (500, 5e-4)):
        total = float(edge_scores(IntegratedGradients(steps=steps), gnn, graph).edges.sum())
        assert total == pytest.approx(difference, abs=error)


def test_grad_cam_of_a_one_layer_gcn() -> None:
    graph = random_graph(4, 6)
    layers = (GcnLayer(5), ActivationLayer("relu"), PoolLayer("sum"), LinearLayer(2))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        gnn = Gnn(GnnSpec(TYPES, 2, layers)).eval()
    adjacency = to_dense([graph]).adjacency[0] + torch.eye(6)
    scale = adjacency.sum(dim=1) ** -0.5
    conv = gnn.layers[0].conv
    states = scale[:, None] * adjacency * scale @ graph.features @ conv.lin.weight.T + conv.bias
    # A sum pool and a linear head: the gradient of logit y by every node's state is row y.
    predicted = int(predict(gnn, [graph], CPU)[0].argmax())
    heat = (states.relu() @ gnn.layers[-1].linear.weight[predicted]).relu().detach()
    scores = edge_scores(GradCam(), gnn, graph)
    assert scores.nodes is not None
    assert torch.allclose(scores.nodes, heat, atol=1e-5)
    assert torch.allclose(scores.edges, heat[graph.edges].mean(dim=0), atol=1e-5)
    assert float(heat.max()) > 0


def test_pgm_explainer_finds_the_node_that_decides() -> None:
    gnn = Gnn(GnnSpec(TYPES, 2, (PoolLayer("sum"), LinearLayer(2)))).eval()
    head = gnn.layers[-1].linear
    with torch.no_grad():  # class 1 if a node has type 0
        head.weight.copy_(torch.tensor([[0.0, 0.0, 0.0], [10.0, 0.0, 0.0]]))
        head.bias.copy_(torch.tensor([0.0, -5.0]))
    graph = graph_of(5, [(0, 1), (1, 2), (2, 3), (3, 4)], [1, 2, 0, 1, 2])
    nodes = edge_scores(PgmExplainer(), gnn, graph).nodes
    assert nodes is not None
    # χ² of a perfect association is the number of samples.
    assert float(nodes[2]) == pytest.approx(SAMPLES)
    assert float(nodes[[0, 1, 3, 4]].max()) < 15


def test_removal_costs_are_those_of_deleting_each_edge() -> None:
    graph = random_graph(6, 7)
    gnn = random_gnn(0, graph)
    predicted = int(predict(gnn, [graph], CPU)[0].argmax())
    costs = removal_costs(gnn, graph, CPU, lambda: False)
    for position in range(graph.edge_count):
        kept = torch.arange(graph.edge_count) != position
        both = predict(gnn, [graph, Graph(graph.features, graph.edges[:, kept])], CPU)
        cost = float(both[0, predicted].log() - both[1, predicted].log())
        assert float(costs[position]) == pytest.approx(max(cost, 0), abs=1e-5)
    assert int((costs > 0).sum()) > 0


def test_greedy_makes_the_best_single_edit_first() -> None:
    graph = random_graph(2, 7)
    gnn = random_gnn(1, graph)
    oracle = oracle_of(gnn, graph)
    order = make_explainer("greedy", gnn, [], seed=0, device=CPU).explain(oracle, rng())
    assert isinstance(order, EditOrder)
    singles = predict(gnn, oracle.space.apply_all([(p,) for p in range(oracle.space.count)]), CPU)
    margins = oracle.goal.margin(singles)
    assert float(margins[order.pairs[0]]) == pytest.approx(float(margins.max()), abs=1e-5)


def test_cf_gnn_explainer_deletes_as_few_edges_as_it_takes() -> None:
    graph = graph_of(8, [(one, one + 1) for one in range(7)])
    oracle = oracle_of(edge_counter(5.5), graph, EditRules(max_ratio=1))
    curve = counterfactual_curve(oracle, CfGnnExplainer().explain(oracle, rng()), rng())
    flip = curve.smallest_flip
    assert flip is not None
    assert oracle.space.apply(flip.edits).edge_count <= 5
    assert all(oracle.space.present[pair] for pair in flip.edits)


# Known edges: the prediction rests on edges between the two types; others speak against it.


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("gnnexplainer", 0.75),
        ("saliency", 0.99),
        ("integrated-gradients", 0.99),
        ("pgexplainer", 0.9),
        ("cxplain", 0.95),
    ],
)
def test_edges_that_decide_come_first(name: ExplainerName, least: float) -> None:
    gnn = mixed_edge_counter(2.0)
    with torch.no_grad():
        gnn.layers[-1].linear.weight[1, 1] = -0.05
    explainer = make_explainer(
        name, gnn, [typed_graph(seed) for seed in range(100, 124)], seed=0, device=CPU
    )
    graphs = [graph for graph in map(typed_graph, range(8)) if predicts_mixed(gnn, graph)]
    areas = [auc(edge_scores(explainer, gnn, graph).edges, is_mixed(graph)) for graph in graphs]
    assert len(graphs) >= 4
    assert sum(areas) / len(areas) >= least


def predicts_mixed(gnn: Gnn, graph: Graph) -> bool:
    """Class 1, and both kinds of edges."""
    mixed = is_mixed(graph)
    return bool(predict(gnn, [graph], CPU)[0].argmax()) and bool(mixed.any() and not mixed.all())


# What all of them promise.


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", [None, 0])
def test_the_seed_alone_decides_and_nothing_else_changes(
    name: ExplainerName, target: int | None
) -> None:
    graph = random_graph(5, 6, target=target)
    gnn = random_gnn(0, graph)
    reference = [random_graph(seed, 6, target=target) for seed in range(100, 104)]
    weights = {key: value.clone() for key, value in gnn.state_dict().items()}
    state = torch.random.get_rng_state()

    def explain() -> tuple[tuple[tuple[int, ...], ...], list[float]]:
        explainer = make_explainer(name, gnn, reference, seed=3, device=CPU)
        oracle, generator = oracle_of(gnn, graph), rng(7)
        explanation = explainer.explain(oracle, generator)
        curve = counterfactual_curve(oracle, explanation, generator)
        scores = explanation.edges.tolist() if isinstance(explanation, EdgeScores) else []
        assert oracle.evaluations > 0
        return tuple(step.edits for step in curve.steps), scores

    assert explain() == explain()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in gnn.parameters())
    assert all(torch.equal(value, weights[key]) for key, value in gnn.state_dict().items())


@pytest.mark.parametrize("name", NAMES)
def test_a_gnn_without_gradients_is_refused_or_explained(name: ExplainerName) -> None:
    gnn, graph = plugin_gnn(), random_graph(1, 6)
    if EXPLAINERS[name].needs_gradients:
        with pytest.raises(NoGradientsError, match=f"'{name}' needs the gradients"):
            make_explainer(name, gnn, [graph], seed=0, device=CPU)
        return
    oracle = oracle_of(gnn, graph)
    explanation = make_explainer(name, gnn, [], seed=0, device=CPU).explain(oracle, rng())
    assert counterfactual_curve(oracle, explanation, rng()).steps


@pytest.mark.parametrize("name", [name for name in NAMES if EXPLAINERS[name].learns])
def test_a_training_stops_when_asked(name: ExplainerName) -> None:
    graph = random_graph(1, 6)
    with pytest.raises(StoppedError):
        make_explainer(
            name, random_gnn(0, graph), [graph], seed=0, device=CPU, should_stop=lambda: True
        )


@pytest.mark.parametrize("name", [name for name in NAMES if EXPLAINERS[name].scores_edges])
def test_a_graph_whose_gnn_reads_no_edges_is_explained(name: ExplainerName) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        gnn = Gnn(GnnSpec(TYPES, 2, (LinearLayer(4), PoolLayer("sum"), LinearLayer(2)))).eval()
    graph = random_graph(1, 6)
    if EXPLAINERS[name].learns:
        with pytest.raises(NothingToLearnError, match=f"'{name}' cannot learn from 1 reference"):
            make_explainer(name, gnn, [graph], seed=0, device=CPU)
        return
    scores = edge_scores(make_explainer(name, gnn, [], seed=0, device=CPU), gnn, graph)
    assert scores.edges.shape == (graph.edge_count,)
    assert torch.isfinite(scores.edges).all()
