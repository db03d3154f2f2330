"""Training of classifiers: noise, batches and the random state."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.gnn.network import predict
from d4explain.gnn.spec import GnnSpec
from models.witnesses.architectures import Architecture, witness_spec
from models.witnesses.classifier_training import (
    EpochReport,
    LabelledGraphs,
    Training,
    accuracy,
    train,
    with_edge_noise,
)
from tests.unit.models.small_gnns import TYPES, graph_of, random_graph

torch.set_num_threads(1)
CPU = torch.device("cpu")


def spec_of(features: int, *, classifies_nodes: bool = False) -> GnnSpec:
    return witness_spec(
        Architecture.GIN,
        features=features,
        classes=2,
        depth=1,
        classifies_nodes=classifies_nodes,
    )


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(0, 50),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
)
def test_noise_makes_at_most_the_wanted_edits(
    nodes: int, seed: int, density: float, share: float, marked: bool
) -> None:
    graph = random_graph(seed, nodes, density, target=nodes - 1 if marked else None)
    noisy = with_edge_noise(graph, share, torch.Generator().manual_seed(seed))
    before = {tuple(edge) for edge in graph.edges.T.tolist()}
    after = [tuple(edge) for edge in noisy.edges.T.tolist()]
    assert len(set(after)) == len(after)
    assert all(source < target for source, target in after)
    assert len(before ^ set(after)) <= max(int(share * len(before)), 1)
    assert noisy.target == graph.target
    assert torch.equal(noisy.features, graph.features)


def some_graphs(count: int, *, marked: bool = False) -> LabelledGraphs:
    graphs = [random_graph(seed, 5, target=0 if marked else None) for seed in range(count)]
    return LabelledGraphs(graphs, torch.arange(count) % 2)


@pytest.mark.parametrize("marked", [False, True])
def test_training_leaves_the_global_random_state_and_does_not_read_it(marked: bool) -> None:
    data, training = some_graphs(20, marked=marked), Training(epochs=2, batch=8)
    spec = spec_of(TYPES, classifies_nodes=marked)
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        results.append(train(spec, data, training, 0, lambda report: None).gnn)
        assert torch.equal(torch.get_rng_state(), before)
    one, other = (predict(gnn, data.graphs, CPU) for gnn in results)
    assert torch.equal(one, other)


def test_a_single_node_left_over_joins_the_batch_before() -> None:
    # 9 graphs of one node in batches of 4: batch norm cannot normalise the last one alone.
    graphs = [graph_of(1, set()) for _ in range(9)]
    data = LabelledGraphs(graphs, torch.arange(9) % 2)
    reports: list[EpochReport] = []
    train(spec_of(1), data, Training(epochs=2, batch=4), 0, reports.append)
    assert [report.epoch for report in reports] == [1, 2]


def test_selected_graphs_keep_their_labels() -> None:
    data = some_graphs(6)
    graphs, labels = data.select(torch.tensor([4, 1]))
    assert labels.tolist() == [0, 1]
    assert graphs[0] is data.graphs[4]
    assert graphs[1] is data.graphs[1]


def test_accuracy_is_the_share_of_right_labels() -> None:
    data = some_graphs(10)
    gnn = train(spec_of(TYPES), data, Training(epochs=1), 0, lambda report: None).gnn
    predicted = predict(gnn, data.graphs, CPU).argmax(dim=1)
    wrong = predicted.clone()
    wrong[:3] = 1 - wrong[:3]
    assert accuracy(gnn, data.graphs, wrong) == pytest.approx(0.7)


def test_the_time_limit_ends_the_training() -> None:
    trained = train(
        spec_of(TYPES), some_graphs(8), Training(epochs=9, seconds=0.0), 0, lambda report: None
    )
    assert trained.epochs == 1
    assert not trained.gnn.training
