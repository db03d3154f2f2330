"""Witnesses of GNNs that count edges: what they learn, their storage and their architectures."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import (
    GcnLayer,
    GinLayer,
    GnnSpec,
    GraphConvLayer,
    LinearLayer,
    SageLayer,
)
from models.witnesses.architectures import Architecture, witness_spec
from models.witnesses.witness_set import (
    MIN_GRAPHS,
    PLANS,
    Role,
    Witness,
    WitnessPlan,
    WitnessProgress,
    WitnessSet,
    WitnessTrainingStoppedError,
    load_witnesses,
    train_witnesses,
)
from tests.unit.models.small_gnns import TYPES, edge_counter, graph_of, random_graph

torch.set_num_threads(1)
CPU = torch.device("cpu")
GNN = edge_counter(10.5)
GIN = WitnessPlan(Role.SELECTION, Architecture.GIN, 1)
SAGE = WitnessPlan(Role.SELECTION, Architecture.SAGE, 1)
GCN_JUDGE = WitnessPlan(Role.JUDGE, Architecture.GCN, 2)
GIN_JUDGE = WitnessPlan(Role.JUDGE, Architecture.GIN, 3)


def untyped(seed: int, density: float = 0.5, nodes: int = 7) -> Graph:
    edges = random_graph(seed, nodes, density).edges
    return Graph(torch.ones(nodes, 1), edges)


GRAPHS = [untyped(seed) for seed in range(MIN_GRAPHS)]
BY_GNN = torch.tensor([int(graph.edge_count > 10.5) for graph in GRAPHS])


def weights(gnn: Gnn) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in gnn.state_dict().items()}


def same(one: Gnn, other: Gnn) -> bool:
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(
        torch.equal(value, second[name]) for name, value in first.items()
    )


@pytest.fixture(scope="module")
def trained() -> WitnessSet:
    """A witness that learned the GNN's labels, and a judge that learned the opposite labels."""
    return train_witnesses(GNN, GRAPHS, 1 - BY_GNN, seed=0, device=CPU, plans=[SAGE, GIN_JUDGE])


def test_both_classes_occur() -> None:
    assert 30 <= int(BY_GNN.sum()) <= 70


def test_witnesses_learn_the_gnn_and_judges_the_true_labels(trained: WitnessSet) -> None:
    witness, judge = trained.witnesses
    assert (witness.labels, judge.labels) == ("gnn", "true")
    new = [untyped(1000 + seed) for seed in range(100)]
    wanted = torch.tensor([int(graph.edge_count > 10.5) for graph in new])
    agreements = [
        float((predict(one.gnn, new, CPU).argmax(dim=1) == wanted).double().mean())
        for one in (witness, judge)
    ]
    assert agreements[0] > 0.9
    assert agreements[1] < 0.1
    assert witness.agreement > 0.8
    assert judge.agreement < 0.2
    assert not witness.gnn.training


def test_the_same_seed_gives_the_same_witness_whatever_was_trained_before(
    trained: WitnessSet,
) -> None:
    torch.manual_seed(5)  # the global generator does not matter
    alone = train_witnesses(GNN, GRAPHS, None, seed=0, device=CPU, plans=[GIN])
    [again] = alone.witnesses
    assert same(again.gnn, trained.witnesses[0].gnn)
    assert again.agreement == trained.witnesses[0].agreement


def test_a_stored_set_is_rebuilt(trained: WitnessSet) -> None:
    description = json.loads(json.dumps(trained.description()))
    loaded = load_witnesses(GNN.spec, description, trained.tensors())
    assert len(loaded.witnesses) == 2
    for one, other in zip(loaded.witnesses, trained.witnesses, strict=True):
        assert (one.plan, one.labels, one.agreement) == (other.plan, other.labels, other.agreement)
        assert same(one.gnn, other.gnn)
        assert torch.equal(predict(one.gnn, GRAPHS, CPU), predict(other.gnn, GRAPHS, CPU))
        assert not one.gnn.training


def test_stored_tensors_are_copies(trained: WitnessSet) -> None:
    before = weights(trained.witnesses[0].gnn)
    for value in trained.tensors().values():
        value.zero_()
    after = weights(trained.witnesses[0].gnn)
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_more_than_ten_witnesses_keep_their_own_tensors() -> None:
    spec = witness_spec(Architecture.GIN, features=1, classes=2, depth=1, classifies_nodes=False)
    witnesses = WitnessSet(tuple(Witness(Gnn(spec), GIN, "gnn", 0.5) for _ in range(12)))
    loaded = load_witnesses(GNN.spec, witnesses.description(), witnesses.tensors())
    for one, other in zip(loaded.witnesses, witnesses.witnesses, strict=True):
        assert same(one.gnn, other.gnn)


def test_witnesses_of_constant_features_see_edges(trained: WitnessSet) -> None:
    # SAGE takes means, and means of equal features are equal, so GIN takes its place.
    witness, _ = trained.witnesses
    assert witness.plan == GIN
    sparse, dense = graph_of(7, {(0, 1), (1, 2)}), graph_of(7, combinations(range(7), 2))
    classes = predict(witness.gnn, [sparse, dense], CPU).argmax(dim=1).tolist()
    assert classes == [0, 1]


def test_witnesses_of_a_node_classifier_read_no_farther_than_it() -> None:
    # The GNN classifies node 0 by the types of its neighbours.
    gnn = Gnn(GnnSpec(TYPES, 2, (GraphConvLayer(1), LinearLayer(2)))).eval()
    convolution, head = gnn.layers
    with torch.no_grad():
        convolution.conv.lin_rel.weight.copy_(torch.tensor([[1.0, 0.0, -1.0]]))
        convolution.conv.lin_rel.bias.fill_(0.5)
        convolution.conv.lin_root.weight.zero_()
        head.linear.weight.copy_(torch.tensor([[0.0], [1.0]]))
        head.linear.bias.zero_()
    graphs = [random_graph(seed, 5, target=0) for seed in range(MIN_GRAPHS)]
    [witness] = train_witnesses(gnn, graphs, None, seed=0, device=CPU, plans=[SAGE]).witnesses
    assert witness.plan.architecture is Architecture.SAGE
    assert witness.gnn.spec.classifies_nodes
    assert witness.gnn.spec.receptive_field == gnn.spec.receptive_field == 1
    by_gnn = predict(gnn, graphs, CPU).argmax(dim=1)
    by_witness = predict(witness.gnn, graphs, CPU).argmax(dim=1)
    assert float((by_gnn == by_witness).double().mean()) > 0.9
    far = Graph(graphs[0].features, torch.tensor([[1], [2]]), 0)  # an edge at other nodes only
    alone = Graph(graphs[0].features, far.edges[:, :0], 0)
    assert torch.equal(predict(witness.gnn, [far], CPU), predict(witness.gnn, [alone], CPU))


@pytest.mark.parametrize("architecture", Architecture)
@pytest.mark.parametrize("classifies_nodes", [False, True])
def test_an_architecture_uses_its_convolution_alone(
    architecture: Architecture, classifies_nodes: bool
) -> None:
    spec = witness_spec(
        architecture, features=2, classes=3, depth=2, classifies_nodes=classifies_nodes
    )
    layer = {"gin": GinLayer, "sage": SageLayer, "gcn": GcnLayer}[architecture.value]
    assert sum(isinstance(one, layer) for one in spec.layers) == 2
    assert (spec.convolutions, spec.classifies_nodes) == (2, classifies_nodes)
    target = 0 if classifies_nodes else None
    graph = Graph(torch.rand(4, 2), torch.tensor([[0, 1], [1, 2]]), target)
    assert predict(Gnn(spec), [graph], CPU).shape == (1, 3)


def test_a_stop_request_ends_the_training() -> None:
    reports: list[WitnessProgress] = []
    with pytest.raises(WitnessTrainingStoppedError):
        train_witnesses(
            GNN,
            GRAPHS,
            None,
            seed=0,
            device=CPU,
            plans=[GIN, GCN_JUDGE],
            on_progress=reports.append,
            should_stop=lambda: len(reports) == 3,
        )
    assert [report.epoch for report in reports] == [1, 2, 3]
    assert {(report.finished, report.total) for report in reports} == {(0, 2)}


@pytest.mark.parametrize(
    ("graphs", "stops_early", "stopped"),
    [(660, True, False), (680, True, True), (680, False, False)],
)
def test_only_large_sets_stop_early(graphs: int, stops_early: bool, stopped: bool) -> None:
    # 15 % of 680 graphs are more than a hundred held-out ones, and the task is easy.
    reference = [untyped(seed, 0.2 if seed % 2 else 0.8) for seed in range(graphs)]
    reports: list[WitnessProgress] = []
    train_witnesses(
        GNN,
        reference,
        None,
        seed=0,
        device=CPU,
        plans=[GIN],
        stops_early=stops_early,
        on_progress=reports.append,
    )
    assert (reports[-1].epoch < reports[-1].epochs) == stopped


def test_few_graphs_are_refused() -> None:
    with pytest.raises(ValueError, match="need 100 reference graphs, got 99"):
        train_witnesses(GNN, GRAPHS[1:], None, seed=0, device=CPU)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.zeros(99, dtype=torch.long), "99 true labels were given for 100 graphs"),
        (torch.full((100,), 2), "must be from 0 to 1, got 2 to 2"),
        (torch.arange(100) % 2 * 2 - 1, "must be from 0 to 1, got -1 to 1"),
    ],
)
def test_labels_that_are_no_classes_are_refused(labels: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_witnesses(GNN, GRAPHS, labels, seed=0, device=CPU)


def test_the_plans_keep_one_architecture_and_all_seeds_for_judges() -> None:
    selection = {plan.architecture for plan in PLANS if plan.role is Role.SELECTION}
    judges = {plan.architecture for plan in PLANS if plan.role is Role.JUDGE}
    assert judges - selection
    assert len({plan.seed for plan in PLANS}) == len(PLANS)
