"""Patterns of a reference set, compared with counts of neighbours by NetworkX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import networkx as nx
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from d4explain.gnn.graphs import Graph, to_dense
from models.realism.node_types import TypeSource
from models.realism.reference_patterns import (
    MIN_COUNT,
    InputPatterns,
    PatternKind,
    ReferencePatterns,
)
from tests.unit.models.small_gnns import TYPES, graph_of

torch.set_num_threads(1)

Pair = tuple[int, int]
Pattern = tuple[int, tuple[int, ...]]  # a node's type and the sorted types of its neighbours


def patterns_of(nodes: int, edges: set[Pair], types: Sequence[int]) -> list[Pattern]:
    graph = nx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(edges)
    return [
        (types[node], tuple(sorted(types[other] for other in graph.neighbors(node))))
        for node in range(nodes)
    ]


@st.composite
def typed_graphs(draw: st.DrawFn, most: int = 6) -> tuple[set[Pair], list[int]]:
    nodes = draw(st.integers(1, most))
    pairs = list(combinations(range(nodes), 2))
    edges = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    return edges, draw(st.lists(st.integers(0, TYPES - 1), min_size=nodes, max_size=nodes))


def tensors(edges: set[Pair], types: list[int], *, typed: bool) -> Graph:
    return graph_of(len(types), edges, types if typed else None)


@settings(max_examples=120, deadline=None)
@given(st.lists(typed_graphs(), min_size=1, max_size=12), typed_graphs(), st.booleans(), st.data())
def test_patterns_agree_with_counted_neighbours(
    reference: list[tuple[set[Pair], list[int]]],
    graph: tuple[set[Pair], list[int]],
    typed: bool,
    data: st.DataObject,
) -> None:
    edges, types = graph
    nodes = len(types)
    pairs = list(combinations(range(nodes), 2))
    assume(pairs)
    known = [tensors(some, kinds, typed=typed) for some, kinds in reference]
    patterns = InputPatterns(ReferencePatterns.of(known), tensors(edges, types, typed=typed))
    kinds_of = (lambda kinds: kinds) if typed else (lambda kinds: [0] * len(kinds))
    counts = Counter(
        pattern
        for some, kinds in reference
        for pattern in patterns_of(len(kinds), some, kinds_of(kinds))
    )
    before = patterns_of(nodes, edges, kinds_of(types))

    def unseen_nodes(edited: set[Pair]) -> set[int]:
        after = patterns_of(nodes, edited, kinds_of(types))
        return {
            node
            for node in range(nodes)
            if counts[after[node]] < MIN_COUNT and after[node] != before[node]
        }

    # The toggles start from an edited graph, as in the search.
    start = edges ^ data.draw(st.sets(st.sampled_from(pairs), max_size=3))
    adjacency = to_dense([tensors(start, types, typed=typed)]).adjacency[0]
    moves = data.draw(
        st.lists(st.sets(st.sampled_from(pairs), min_size=1, max_size=4), min_size=1, max_size=6)
    )
    rows = torch.full((2, len(moves), 4), -1)
    for position, move in enumerate(moves):
        rows[:, position, : len(move)] = torch.tensor(sorted(move)).T
    seen = patterns.toggles_seen(adjacency, rows[0], rows[1]).tolist()
    assert seen == [not unseen_nodes(start ^ move) for move in moves]

    for edited in [start ^ move for move in moves]:
        after = to_dense([tensors(edited, types, typed=typed)]).adjacency[0]
        found = patterns.unseen(after)
        # Each unseen node is named, and nothing else.
        assert {node for pattern in found for node in pattern.nodes} == unseen_nodes(edited)
        for pattern in found:
            if pattern.kind == "edge":
                assert pattern.nodes in edited - edges
            else:
                assert len(pattern.nodes) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(typed_graphs(), min_size=1, max_size=4), typed_graphs())
def test_the_unedited_graph_has_nothing_unseen(
    reference: list[tuple[set[Pair], list[int]]], graph: tuple[set[Pair], list[int]]
) -> None:
    known = ReferencePatterns.of([tensors(*one, typed=True) for one in reference])
    original = tensors(*graph, typed=True)
    for features in (original.features, original.features + 0.5):  # known and unknown types
        patterns = InputPatterns(known, Graph(features, original.edges))
        assert patterns.unseen(to_dense([original]).adjacency[0]) == ()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(typed_graphs(), min_size=1, max_size=8),
    typed_graphs(),
    st.randoms(use_true_random=False),
    st.data(),
)
def test_patterns_do_not_depend_on_node_order(
    reference: list[tuple[set[Pair], list[int]]],
    graph: tuple[set[Pair], list[int]],
    rng: object,
    data: st.DataObject,
) -> None:
    edges, types = graph
    pairs = list(combinations(range(len(types)), 2))
    assume(pairs)
    edited = edges ^ data.draw(st.sets(st.sampled_from(pairs), max_size=4))
    order = list(range(len(types)))
    rng.shuffle(order)  # type: ignore[attr-defined]

    def renamed(some: set[Pair]) -> set[Pair]:
        return {(min(order[a], order[b]), max(order[a], order[b])) for a, b in some}

    new_types = [types[order.index(node)] for node in range(len(types))]
    known = ReferencePatterns.of([tensors(*one, typed=True) for one in reference])
    kinds: list[Counter[tuple[PatternKind, str]]] = []
    for before, after, own in (
        (edges, edited, types),
        (renamed(edges), renamed(edited), new_types),
    ):
        patterns = InputPatterns(known, tensors(before, own, typed=True))
        found = patterns.unseen(to_dense([tensors(after, own, typed=True)]).adjacency[0])
        kinds.append(Counter((pattern.kind, pattern.detail) for pattern in found))
    assert kinds[0] == kinds[1]


def unseen_after(
    reference: list[Graph], graph: Graph, edges: set[Pair]
) -> list[tuple[str, object]]:
    patterns = InputPatterns(ReferencePatterns.of(reference), graph)
    edited = Graph(graph.features, torch.tensor(sorted(edges)).T)
    return [(one.kind, one.nodes) for one in patterns.unseen(to_dense([edited]).adjacency[0])]


STAR = {(0, 1), (0, 2), (0, 3)}


def test_a_degree_above_that_of_the_type_is_named() -> None:
    # Type 0 is the centre of a star, type 1 a leaf.
    graph = graph_of(4, STAR, [0, 1, 1, 1])
    reference = [graph] * MIN_COUNT
    found = unseen_after(reference, graph, STAR | {(1, 2)})
    assert found == [("degree", (1,)), ("degree", (2,)), ("edge", (1, 2))]
    patterns = InputPatterns(ReferencePatterns.of(reference), graph)
    first = patterns.unseen(to_dense([graph_of(4, STAR | {(1, 2)}, [0, 1, 1, 1])]).adjacency[0])[0]
    assert first.detail == "degree 2; nodes of its type have up to 1 in the data"


def test_degrees_beyond_those_of_all_types_are_unseen() -> None:
    graph = graph_of(3, {(0, 1)})
    complete = {(0, 1), (0, 2), (1, 2)}
    found = unseen_after([graph] * MIN_COUNT, graph, complete)
    assert found == [("degree", (0,)), ("degree", (1,)), ("degree", (2,))]


def test_a_degree_that_the_type_skips_is_unseen() -> None:
    # Nodes of type 0 have 1 or 3 neighbours, never 2.
    graphs = [graph_of(4, STAR, [0, 1, 1, 1]), graph_of(2, {(0, 1)}, [0, 1])] * MIN_COUNT
    patterns = InputPatterns(ReferencePatterns.of(graphs), graphs[0])
    edited = to_dense([graph_of(4, {(0, 1), (0, 2)}, [0, 1, 1, 1])]).adjacency[0]
    details = {one.nodes: one.detail for one in patterns.unseen(edited)}
    assert details[(0,)] == (
        "degree 2; nodes of its type never or fewer than 3 times have it in the data"
    )


def test_a_swap_between_types_that_meet_in_the_input_is_seen() -> None:
    # No reference graph has an edge between the types 0 and 1; the input has two.
    reference = [graph_of(2, {(0, 1)}, [0, 0])] * MIN_COUNT
    graph = graph_of(4, {(0, 1), (2, 3)}, [0, 1, 0, 1])
    swapped = {(0, 3), (1, 2)}
    assert unseen_after(reference, graph, swapped) == []


def test_rare_patterns_count_as_unseen() -> None:
    path, edge = graph_of(3, {(0, 1), (1, 2)}), graph_of(3, {(0, 1)})
    rare = [edge] * 10 + [path] * (MIN_COUNT - 1)
    assert unseen_after(rare, edge, {(0, 1), (1, 2)}) == [("degree", (1,))]
    assert unseen_after([*rare, path], edge, {(0, 1), (1, 2)}) == []


def test_an_edit_at_a_node_of_an_unknown_type_is_unseen() -> None:
    reference = [graph_of(3, {(0, 1), (1, 2)}, [0, 1, 2])] * MIN_COUNT
    graph = graph_of(3, {(0, 1), (1, 2)}, [0, 1, 2])
    features = graph.features.clone()
    features[2] = 0.5
    found = unseen_after(reference, Graph(features, graph.edges), {(0, 1)})
    assert ("degree", (2,)) in found


def test_rows_as_types_distinguish_neighbours() -> None:
    rows = torch.tensor([[0.5], [2.5], [4.5]])
    kinds = torch.tensor([0, 1, 2])
    edges = torch.tensor([[0, 1], [1, 2]])
    reference = ReferencePatterns.of([Graph(rows[kinds], edges)] * 60)
    assert reference.types.source is TypeSource.ROWS
    patterns = InputPatterns(reference, Graph(rows[kinds], edges))
    moved = to_dense([Graph(rows[kinds], torch.tensor([[0, 0], [1, 2]]))]).adjacency[0]
    assert [(one.kind, one.nodes) for one in patterns.unseen(moved)] == [
        ("degree", (0,)),
        ("degree", (1,)),
        ("edge", (0, 2)),
    ]


def test_no_reference_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one reference graph"):
        ReferencePatterns.of([])
