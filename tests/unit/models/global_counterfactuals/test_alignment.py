"""Assignments of nodes, against exhaustive search and NetworkX's exact edit distance."""

from __future__ import annotations

from itertools import permutations

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.global_counterfactuals.alignment import align
from models.global_counterfactuals.edit_paths import applied, edit_path
from models.global_counterfactuals.population import Population
from models.global_counterfactuals.typed_graphs import Slots, TypedGraph

KINDS = 3


@st.composite
def typed_graphs(draw: st.DrawFn, most: int = 6) -> TypedGraph:
    nodes = draw(st.integers(1, most))
    types = draw(st.lists(st.integers(0, KINDS - 1), min_size=nodes, max_size=nodes))
    adjacency = torch.zeros(nodes, nodes)
    for one in range(nodes):
        for other in range(one):
            if draw(st.booleans()):
                adjacency[one, other] = adjacency[other, one] = 1.0
    return TypedGraph(torch.tensor(types), adjacency)


def network(graph: TypedGraph) -> nx.Graph:
    result = nx.Graph()
    for node, kind in enumerate(graph.types.tolist()):
        result.add_node(node, kind=kind)
    result.add_edges_from(graph.edges.T.tolist())
    return result


def exact_distance(one: TypedGraph, other: TypedGraph) -> float:
    distance: float = nx.graph_edit_distance(
        network(one), network(other), node_match=lambda a, b: a["kind"] == b["kind"]
    )
    return distance


def cost_of(pattern: TypedGraph, graph: TypedGraph, order: tuple[int, ...]) -> float:
    """The definition: types that differ and edges that only one graph has."""
    slots = Slots.of([pattern, graph], len(order))
    moved = list(order)
    edges = (slots.adjacency[0] - slots.adjacency[1][moved][:, moved]).abs().sum() / 2
    return float((slots.types[0] != slots.types[1][moved]).sum() + edges)


@settings(max_examples=40, deadline=None)
@given(pattern=typed_graphs(5), graph=typed_graphs(5), seed=st.integers(0, 99))
def test_the_cost_is_that_of_the_assignment_and_never_below_the_distance(
    pattern: TypedGraph, graph: TypedGraph, seed: int
) -> None:
    slots = max(pattern.node_count, graph.node_count) + 1
    generator = torch.Generator().manual_seed(seed)
    aligned = align(pattern, [graph], KINDS, generator, slots=slots, starts=2)
    path = edit_path(pattern, graph, aligned, 0)
    assert path.cost == aligned.costs[0]
    assert aligned.costs[0] >= exact_distance(pattern, graph)
    result = applied(graph, path)
    assert torch.equal(result.types, pattern.types)
    assert torch.equal(result.adjacency, pattern.adjacency)


@settings(max_examples=25, deadline=None)
@given(pattern=typed_graphs(5), graph=typed_graphs(5))
def test_replacing_nodes_is_enough_for_the_exact_distance(
    pattern: TypedGraph, graph: TypedGraph
) -> None:
    slots = max(pattern.node_count, graph.node_count)
    cheapest = min(cost_of(pattern, graph, order) for order in permutations(range(slots)))
    assert cheapest == exact_distance(pattern, graph)


def test_shuffled_molecules_are_recognised() -> None:
    generator = torch.Generator().manual_seed(0)
    found = 0
    for seed in range(20):
        tree = nx.random_labeled_tree(20, seed=seed)
        tree.add_edge(0, 19)
        adjacency = torch.from_numpy(nx.to_numpy_array(tree)).float()
        graph = TypedGraph(torch.randint(KINDS, (20,), generator=generator), adjacency)
        order = torch.randperm(20, generator=generator)
        shuffled = TypedGraph(graph.types[order], graph.adjacency[order][:, order])
        aligned = align(graph, [shuffled], KINDS, generator, slots=24, starts=3)
        found += int(aligned.costs[0] == 0)
    assert found >= 18


def test_most_small_distances_are_exact() -> None:
    generator = torch.Generator().manual_seed(1)
    exact = 0
    for _ in range(40):
        nodes = int(torch.randint(3, 7, (1,), generator=generator))
        pair = []
        for _ in range(2):
            adjacency = (torch.rand(nodes, nodes, generator=generator) < 0.5).float().triu(1)
            types = torch.randint(KINDS, (nodes,), generator=generator)
            pair.append(TypedGraph(types, adjacency + adjacency.T))
        aligned = align(pair[0], [pair[1]], KINDS, generator, slots=nodes, starts=5)
        exact += int(aligned.costs[0] == exact_distance(*pair))
    assert exact >= 34


@settings(max_examples=40, deadline=None)
@given(pattern=typed_graphs(5), graph=typed_graphs(5))
def test_bounds_are_not_above_the_distance(pattern: TypedGraph, graph: TypedGraph) -> None:
    population = Population.of([graph], KINDS)
    assert population.bounds(pattern)[0] <= exact_distance(pattern, graph)
    assert population.estimates(pattern)[0] >= population.bounds(pattern)[0]


def test_a_graph_with_more_nodes_than_slots_is_refused() -> None:
    graph = TypedGraph(torch.zeros(4, dtype=torch.long), torch.zeros(4, 4))
    with pytest.raises(RuntimeError):
        align(graph, [graph], KINDS, torch.Generator(), slots=3, starts=1)
