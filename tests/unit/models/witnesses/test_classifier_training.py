"""Training of classifiers: noise, batches and the random state."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.gnn.graphs import to_sparse
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
    st.lists(st.tuples(st.integers(1, 8), st.floats(0, 1)), min_size=1, max_size=4),
    st.integers(0, 50),
    st.floats(0, 1),
    st.booleans(),
)
def test_noise_makes_at_most_the_wanted_edits(
    sizes: list[tuple[int, float]], seed: int, share: float, marked: bool
) -> None:
    graphs = [
        random_graph(seed + place, nodes, density, target=nodes - 1 if marked else None)
        for place, (nodes, density) in enumerate(sizes)
    ]
    union = to_sparse(graphs)
    noisy = with_edge_noise(union, share, torch.Generator().manual_seed(seed))
    start = 0
    for graph in graphs:
        before = {tuple(edge) for edge in graph.edges.T.tolist()}
        own = (noisy.edge_index >= start) & (noisy.edge_index < start + graph.node_count)
        assert torch.equal(own[0], own[1]), "an edge joins two graphs"
        directed = {tuple(edge) for edge in (noisy.edge_index[:, own[0]] - start).T.tolist()}
        assert len(directed) == int(own[0].sum()), "an edge is there twice"
        assert directed == {(target, source) for source, target in directed}
        after = {(source, target) for source, target in directed if source < target}
        assert 2 * len(after) == len(directed), "a node has a loop"
        assert len(before ^ after) <= max(int(share * len(before)), 1)
        start += graph.node_count
    assert noisy.features is union.features
    assert noisy.targets is union.targets


def test_noise_reaches_the_wanted_share_of_graphs_and_both_kinds_of_edits() -> None:
    graphs = [graph_of(12, {(node, node + 1) for node in range(11)})] * 400
    union = to_sparse(graphs)
    generator = torch.Generator().manual_seed(0)
    noisy = with_edge_noise(union, 0.3, generator, noisy_share=0.5)
    edges = union.edge_index[:, : union.edge_index.shape[1] // 2]
    before = {tuple(edge) for edge in edges.T.tolist()}
    after = {tuple(edge) for edge in noisy.edge_index.T.tolist() if edge[0] < edge[1]}
    removed, added = before - after, after - before
    changed = {edge[0] // 12 for edge in removed | added}
    # Of the 200 noisy graphs, those with one addition of an edge or a loop may stay as they were.
    assert 140 <= len(changed) <= 230
    # 1, 2 or 3 edits, and 0 to that many removals, each equally often: one of each per graph.
    assert 150 <= len(removed) <= 250
    assert 120 <= len(added) <= 220


def test_noise_keeps_the_batch_without_noisy_graphs() -> None:
    union = to_sparse([random_graph(seed, 6) for seed in range(5)])
    noisy = with_edge_noise(union, 0.5, torch.Generator(), noisy_share=0.0)
    columns = [{tuple(edge) for edge in each.edge_index.T.tolist()} for each in (union, noisy)]
    assert columns[0] == columns[1]


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


def curve_of(data: LabelledGraphs, training: Training) -> tuple[list[float], int]:
    """The best validation accuracy after each epoch, and the epochs of the result."""
    reports: list[EpochReport] = []
    trained = train(spec_of(TYPES), data, training, 0, reports.append, validation=data)
    return [report.best_validation or 0.0 for report in reports], trained.epochs


def test_a_training_stops_after_its_patience_without_a_gain() -> None:
    # Labels that the graphs decide: accuracy and likelihood rise, then nothing is left to gain.
    graphs = [random_graph(seed, 6, 0.2 if seed % 2 else 0.9) for seed in range(60)]
    data = LabelledGraphs(graphs, torch.arange(60) % 2)
    training = Training(epochs=200, batch=20, noisy_share=0.0)  # 3 steps per epoch
    whole, epochs = curve_of(data, training)
    assert epochs == 200
    assert whole[-1] == 1.0
    stopped, epochs = curve_of(data, replace(training, patience=30))
    # The rise of the learning rate takes 180 steps; then ten epochs without a gain must pass.
    assert 70 <= epochs < 200
    assert stopped == whole[:epochs], "a plateau changes nothing before it is reached"
    assert stopped[-1] == whole[-1]


def test_a_training_that_still_gains_does_not_stop() -> None:
    # With such a small learning rate the likelihood rises slowly until the end.
    graphs = [random_graph(seed, 6, 0.2 if seed % 2 else 0.9) for seed in range(60)]
    data = LabelledGraphs(graphs, torch.arange(60) % 2)
    training = Training(epochs=60, batch=20, learning_rate=2e-4, noisy_share=0.0, patience=90)
    _, epochs = curve_of(data, training)
    assert epochs == 60


def test_the_best_epoch_is_returned() -> None:
    data = some_graphs(30)  # labels by chance: the accuracy goes up and down
    reports: list[EpochReport] = []
    training = Training(epochs=12, batch=8, ema=0.9)
    gnn = train(spec_of(TYPES), data, training, 0, reports.append, validation=data).gnn
    best = max(report.best_validation or 0.0 for report in reports)
    assert accuracy(gnn, data.graphs, data.labels) == pytest.approx(best)
    assert not gnn.training


def test_the_time_limit_ends_the_training() -> None:
    trained = train(
        spec_of(TYPES), some_graphs(8), Training(epochs=9, seconds=0.0), 0, lambda report: None
    )
    assert trained.epochs == 1
    assert not trained.gnn.training
