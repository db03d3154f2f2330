"""Transfer of a flip to judges with known thresholds."""

from __future__ import annotations

import pytest
import torch

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.witnesses.transfer import Judges, Transfer, Verdict
from tests.unit.models.small_gnns import edge_counter, graph_of, random_gnn, random_graph

torch.set_num_threads(1)
CPU = torch.device("cpu")


def path(edges: int) -> Graph:
    return graph_of(9, {(k, k + 1) for k in range(edges)})


def class_of(gnn: Gnn, graph: Graph) -> int:
    return int(predict(gnn, [graph], CPU)[0].argmax())


def judges(*thresholds: float) -> Judges:
    """They give class 1 to graphs with more edges than their thresholds; the original has 4."""
    return Judges([edge_counter(threshold) for threshold in thresholds], path(4), CPU)


def test_a_judge_shares_a_flip_if_it_gives_both_graphs_the_classes_of_the_gnn() -> None:
    # The first judge already gives the original class 1, the last gives no answer class 1.
    panel = judges(3.5, 4.5, 5.5, 8.5)
    transfers = panel.transfers([path(5), path(6), path(8)], 0, [1, 1, 1])
    assert transfers == [Transfer(1, 3, 4), Transfer(2, 3, 4), Transfer(2, 3, 4)]


def test_a_flip_to_another_class_is_not_shared() -> None:
    panel = judges(4.5)
    assert panel.transfers([path(6)], 0, [0]) == [Transfer(0, 1, 1)]
    assert panel.transfers([path(6)], 1, [0]) == [Transfer(0, 0, 1)]
    assert judges(3.5).transfers([path(2)], 1, [0]) == [Transfer(1, 1, 1)]


def test_no_judges_and_no_answers() -> None:
    assert judges().transfers([path(6)], 0, [1]) == [Transfer(0, 0, 0)]
    assert judges(4.5).transfers([], 0, []) == []


@pytest.mark.parametrize(
    ("shared", "agreeing", "asked", "verdict"),
    [
        (0, 0, 0, Verdict.UNJUDGED),  # nobody was asked
        (0, 0, 5, Verdict.UNJUDGED),  # nobody agrees on the original
        (2, 2, 5, Verdict.UNJUDGED),  # fewer than half agree on it
        (1, 2, 4, Verdict.BRITTLE),  # half agree, half of these share
        (2, 2, 4, Verdict.MEANINGFUL),
        (3, 5, 5, Verdict.MEANINGFUL),
        (2, 5, 5, Verdict.BRITTLE),
        (2, 4, 5, Verdict.BRITTLE),  # exactly half is not most
        (0, 1, 1, Verdict.BRITTLE),
        (1, 1, 1, Verdict.MEANINGFUL),
    ],
)
def test_verdicts(shared: int, agreeing: int, asked: int, verdict: Verdict) -> None:
    assert Transfer(shared, agreeing, asked).verdict is verdict


def test_judges_that_read_no_edge_attributes_ignore_them() -> None:
    plain = random_graph(0, 5)
    attributes = torch.arange(plain.edge_count).float()[:, None]
    graph = Graph(plain.features, plain.edges, edge_attributes=attributes)
    judge = random_gnn(1, plain)
    old = class_of(judge, plain)
    assert Judges([judge], graph, CPU).transfers([graph], old, [old]) == [Transfer(1, 1, 1)]


def test_judges_of_nodes_read_the_marked_node() -> None:
    graphs = [random_graph(2, 6, target=node) for node in range(6)]
    for seed in range(9):
        judge = random_gnn(seed, graphs[0])
        classes = [class_of(judge, graph) for graph in graphs]
        if len(set(classes)) == 2:  # the classes depend on the node
            break
    one, other = graphs[classes.index(0)], graphs[classes.index(1)]
    assert Judges([judge], one, CPU).transfers([other, one], 0, [1, 1]) == [
        Transfer(1, 1, 1),
        Transfer(0, 1, 1),
    ]
