"""Class explainers without a denoiser: hill climbing and XGNN."""

from __future__ import annotations

from itertools import product

import networkx as nx
import pytest
import torch

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import predict
from models.classes.alone.hill_climbing import climb
from models.classes.alone.xgnn import NodeKinds, generate
from models.classes.config import ClassConfig
from models.classes.explain import explain_class
from models.classes.node_features import ClassParts
from tests.unit.models.small_gnns import edge_counter, graph_of, random_gnn, random_graph

CPU = torch.device("cpu")


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def climbed(seed: int) -> tuple[Graph, float, list[float]]:
    """A local maximum, its confidence and those of all its neighbours."""
    like = random_graph(seed, 5)
    gnn = random_gnn(seed, like)
    (graph,) = climb(
        gnn,
        1,
        ClassParts([like], rng(seed)),
        sizes=[5],
        steps=50,
        generator=rng(seed),
        device=CPU,
        should_stop=lambda: False,
        on_step=lambda _: None,
    )
    neighbours = []
    for one, other in product(range(5), range(5)):
        if one < other:
            network = nx.Graph(graph.edges.T.tolist())
            if network.has_edge(one, other):
                network.remove_edge(one, other)
            else:
                network.add_edge(one, other)
            edges = sorted((min(pair), max(pair)) for pair in network.edges)
            ends = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
            neighbours.append(Graph(graph.features, ends))
    values = predict(gnn, [graph, *neighbours], CPU)[:, 1].tolist()
    return graph, values[0], values[1:]


@pytest.mark.parametrize("seed", range(6))
def test_no_toggle_improves_on_a_climbed_graph(seed: int) -> None:
    graph, own, neighbours = climbed(seed)
    assert graph.node_count == 5
    assert own >= max(neighbours) - 1e-6


def test_xgnn_learns_to_add_edges() -> None:
    gnn = edge_counter(6.5)  # class 1 from seven edges
    kinds = NodeKinds.of([graph_of(6, [(a, b) for a in range(6) for b in range(a)])], rng())
    trained, untrained = (
        generate(
            gnn,
            1,
            kinds,
            nodes=6,
            count=40,
            marked=False,
            generator=rng(1),
            device=CPU,
            should_stop=lambda: False,
            updates=updates,
        )
        for updates in (60, 0)
    )
    shares = [float(predict(gnn, graphs, CPU)[:, 1].mean()) for graphs in (trained, untrained)]
    assert shares[0] >= max(shares[1], 0.7)
    assert all(nx.is_connected(nx.Graph(graph.edges.T.tolist())) for graph in trained)
    assert {graph.node_count for graph in trained} == {6}


def test_xgnn_prefers_the_node_type_of_the_class() -> None:
    types = [random_graph(seed, 6) for seed in range(4)]
    kinds = NodeKinds.of(types, rng())
    assert kinds.features.tolist() == torch.eye(3).flip(0).tolist()
    # A GNN of types alone would do; this one has random weights, and its confidence must rise.
    gnn = random_gnn(3, types[0])
    means = []
    for updates in (0, 60):
        graphs = generate(
            gnn,
            0,
            kinds,
            nodes=5,
            count=64,
            marked=False,
            generator=rng(2),
            device=CPU,
            should_stop=lambda: False,
            updates=updates,
        )
        means.append(float(predict(gnn, graphs, CPU)[:, 0].mean()))
    assert means[1] > means[0]


def test_degrees_are_those_of_the_class() -> None:
    paths = [graph_of(5, [(0, 1), (1, 2), (2, 3), (3, 4)])]
    graphs = generate(
        edge_counter(1.5),
        1,
        NodeKinds.of(paths, rng()),
        nodes=5,
        count=20,
        marked=True,
        generator=rng(),
        device=CPU,
        should_stop=lambda: False,
        updates=2,
    )
    for graph in graphs:
        assert int(torch.bincount(graph.edges.flatten()).max()) <= 2
        assert graph.target == 0


@pytest.mark.parametrize("sampler", ["xgnn", "hill-climbing"])
@pytest.mark.parametrize("target", [None, 0])
def test_a_class_is_explained_without_a_denoiser(sampler: str, target: int | None) -> None:
    graphs = [random_graph(seed, 6, target=target) for seed in range(30)]
    gnn = random_gnn(1, graphs[0])
    predicted = predict(gnn, graphs, CPU).argmax(dim=1)
    config = ClassConfig(1, nodes=4, chains=3, steps=20, sampler=sampler)  # type: ignore[arg-type]

    def explain() -> list[tuple[list[list[int]], float]]:
        found = explain_class(
            gnn, None, graphs, (predicted == 1).tolist(), config, seed=3, device=CPU
        )
        assert found.reason is None
        return [
            (pattern.graph.edges.tolist(), float(pattern.probabilities[1]))
            for pattern in found.patterns
        ]

    patterns = explain()
    assert patterns == explain()
    assert 1 <= len(patterns) <= 3
    confidences = [confidence for _, confidence in patterns]
    assert confidences == sorted(confidences, reverse=True)


def test_a_stopped_build_says_so() -> None:
    graphs = [random_graph(seed, 6) for seed in range(20)]
    gnn = random_gnn(1, graphs[0])
    predicted = predict(gnn, graphs, CPU).argmax(dim=1)
    found = explain_class(
        gnn,
        None,
        graphs,
        (predicted == 1).tolist(),
        ClassConfig(1, nodes=4, sampler="xgnn"),
        seed=0,
        device=CPU,
        should_stop=lambda: True,
    )
    assert (found.patterns, found.reason) == (
        [],
        "the sampling was stopped before its first graph",
    )


def test_answers_do_not_repeat_unless_asked() -> None:
    graphs = [random_graph(seed, 6) for seed in range(20)]
    gnn = random_gnn(1, graphs[0])
    predicted = (predict(gnn, graphs, CPU).argmax(dim=1) == 1).tolist()
    counts = []
    for repeats in (True, False):
        config = ClassConfig(1, nodes=3, chains=12, sampler="hill-climbing", repeats=repeats)
        found = explain_class(gnn, None, graphs, predicted, config, seed=0, device=CPU)
        counts.append(len(found.patterns))
    assert counts[0] == 12
    assert counts[1] < 12  # there are few graphs of three nodes
