"""Global counterfactuals of tiny graphs, compared with all graphs that there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product

import networkx as nx
import pytest
import torch

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import GnnSpec, LinearLayer, PoolLayer
from models.global_counterfactuals.config import GlobalConfig
from models.global_counterfactuals.explain import explain_globally

CPU = torch.device("cpu")
THETA = 0.2
Typed = tuple[tuple[int, ...], frozenset[tuple[int, int]]]  # types, edges


def two_of_type_one() -> Gnn:
    """Class 1 if a graph has at least two nodes of type 1."""
    gnn = Gnn(GnnSpec(2, 2, (PoolLayer("sum"), LinearLayer(2)))).eval()
    with torch.no_grad():
        (linear,) = [layer for layer in gnn.modules() if isinstance(layer, torch.nn.Linear)]
        linear.weight.copy_(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
        linear.bias.copy_(torch.tensor([1.5, 0.0]))
    return gnn


def tensors(graph: Typed) -> Graph:
    types, edges = graph
    return Graph(
        torch.nn.functional.one_hot(torch.tensor(types), 2).float(),
        torch.tensor(sorted(edges)).reshape(-1, 2).T.contiguous(),
    )


def size(graph: Typed) -> int:
    return len(graph[0]) + len(graph[1])


def distance(one: Typed, other: Typed) -> int:
    """The exact edit distance, by all assignments of nodes."""
    slots = max(len(one[0]), len(other[0]))
    types = [*one[0], *[-1] * (slots - len(one[0]))]
    goal = [*other[0], *[-1] * (slots - len(other[0]))]
    best = 10**6
    for order in permutations(range(slots)):
        cost = sum(types[order[place]] != goal[place] for place in range(slots))
        moved = {(min(order[a], order[b]), max(order[a], order[b])) for a, b in other[1]}
        best = min(best, cost + len(moved ^ one[1]))
    return best


def all_graphs(nodes: int) -> Iterator[Typed]:
    pairs = list(combinations(range(nodes), 2))
    for types in product((0, 1), repeat=nodes):
        if list(types) != sorted(types):
            continue  # the same graph with other numbers
        for chosen in product((False, True), repeat=len(pairs)):
            edges = frozenset(pair for pair, is_in in zip(pairs, chosen, strict=True) if is_in)
            yield types, edges


@pytest.fixture(scope="module")
def reference() -> list[Typed]:
    path = frozenset({(0, 1), (1, 2), (2, 3)})
    ring = path | {(0, 3)}
    star = frozenset({(0, 1), (0, 2), (0, 3)})
    few = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0)]
    many = [(1, 1, 0, 0), (1, 0, 1, 1), (0, 1, 1, 0)]
    return [(types, edges) for types in few + many for edges in (path, ring, star)]


def test_one_counterfactual_covers_as_much_as_the_best_of_all_graphs(
    reference: list[Typed],
) -> None:
    gnn = two_of_type_one()
    config = GlobalConfig(source_class=0, count=1, radius=THETA)
    found = explain_globally(
        gnn, [tensors(graph) for graph in reference], config, seed=1, device=CPU
    )
    asked = [graph for graph in reference if sum(graph[0]) < 2]
    assert len(found.asked) == len(asked)

    def covered(goal: Typed) -> int:
        return sum(distance(graph, goal) <= THETA * (size(graph) + size(goal)) for graph in asked)

    best = max(covered(goal) for nodes in (3, 4) for goal in all_graphs(nodes) if sum(goal[0]) >= 2)
    (one,) = found.counterfactuals
    answer: Typed = (
        tuple(one.types.tolist()),
        frozenset(tuple(pair) for pair in one.graph.edges.T.tolist()),
    )
    assert int(predict(gnn, [one.graph], CPU).argmax()) == 1
    assert len(one.near) == covered(answer) == best > 0
    for near in one.near:
        assert near.cost == distance(reference[near.graph], answer)


def test_the_exact_distance_is_that_of_networkx(reference: list[Typed]) -> None:
    def network(graph: Typed) -> nx.Graph:
        result = nx.Graph(list(graph[1]))
        for node, kind in enumerate(graph[0]):
            result.add_node(node, kind=kind)
        return result

    for one, other in zip(reference, reference[5:], strict=False):
        expected = nx.graph_edit_distance(
            network(one), network(other), node_match=lambda a, b: a["kind"] == b["kind"]
        )
        assert distance(one, other) == expected
