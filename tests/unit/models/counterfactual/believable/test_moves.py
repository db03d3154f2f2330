"""Moves, compared with an enumeration of toggles, moved edges and swapped edges."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.counterfactual.believable.moves import MAX_TOGGLES, MoveSpace
from models.graphs.edits import EditRules, EditSpace
from tests.unit.models.small_gnns import graph_of

torch.set_num_threads(1)

Pair = tuple[int, int]


def ordered(a: int, b: int) -> Pair:
    return (min(a, b), max(a, b))


def all_moves(edges: set[Pair], editable: set[Pair], nodes: int) -> list[frozenset[Pair]]:
    """Single toggles, edges of which one end moves, and pairs of edges that swap their ends."""
    removable, free = edges & editable, editable - edges
    moves = [frozenset({pair}) for pair in editable]
    for u, v in removable:
        for kept, other in ((u, v), (v, u)):
            moves += [
                frozenset({(u, v), ordered(kept, new)})
                for new in range(nodes)
                if new not in (kept, other) and ordered(kept, new) in free
            ]
    for (a, b), (c, d) in combinations(removable, 2):
        if len({a, b, c, d}) < 4:
            continue
        for added in ({ordered(a, d), ordered(b, c)}, {ordered(a, c), ordered(b, d)}):
            if added <= free:
                moves.append(frozenset({(a, b), (c, d)} | added))
    return moves


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, set[Pair], EditRules, set[Pair]]:
    """A graph, rules for its edits, and pairs that are already toggled if the rules allow it."""
    nodes = draw(st.integers(1, 6))
    pairs = list(combinations(range(nodes), 2))
    chosen = st.sets(st.sampled_from(pairs)) if pairs else st.just(set())
    edges = draw(chosen)
    rules = EditRules(
        max_ratio=10.0,
        add=draw(st.booleans()),
        remove=draw(st.booleans()),
        frozen_nodes=frozenset(draw(st.sets(st.integers(0, nodes - 1), max_size=1))),
        frozen_pairs=frozenset(draw(chosen)) if draw(st.booleans()) else frozenset(),
    )
    return nodes, edges, rules, draw(chosen)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_moves_are_exactly_the_enumerated_ones(
    case: tuple[int, set[Pair], EditRules, set[Pair]],
) -> None:
    nodes, edges, rules, toggled = case
    space = EditSpace.of(graph_of(nodes, edges), rules)
    pairs = list(zip(space.sources.tolist(), space.targets.tolist(), strict=True))
    edits = tuple(position for position, pair in enumerate(pairs) if pair in toggled)
    adjacency = space.adjacency([edits])[0]
    rows = MoveSpace(space).moves(adjacency, torch.zeros(space.count))
    assert rows.shape[1] == MAX_TOGGLES
    moves = [frozenset(pairs[pair] for pair in row if pair >= 0) for row in rows.tolist()]
    current = edges ^ {pairs[pair] for pair in edits}
    expected = all_moves(current, set(pairs), nodes)
    assert sorted(map(sorted, moves)) == sorted(map(sorted, expected))
    graph = nx.Graph(list(current))
    graph.add_nodes_from(range(nodes))
    for move in moves:
        after = nx.Graph(list(current ^ move))
        after.add_nodes_from(range(nodes))
        changed = sum(graph.degree(node) != after.degree(node) for node in range(nodes))
        assert changed == {1: 2, 2: 2, 4: 0}[len(move)]


def test_the_most_promising_edges_move_in_large_graphs() -> None:
    nodes = 14
    complete = set(combinations(range(nodes), 2))
    missing = {(0, 1), (2, 3)}  # a place to move to
    space = EditSpace.of(graph_of(nodes, complete - missing), EditRules(max_ratio=1.0))
    gains = torch.rand(space.count, generator=torch.Generator().manual_seed(0))
    rows = MoveSpace(space).moves(space.base, gains)
    compound = rows[rows[:, 1] >= 0]
    removed = {
        pair for row in compound.tolist() for pair in row if pair >= 0 and space.present[pair]
    }
    edges = [pair for pair in range(space.count) if space.present[pair]]
    best = set(sorted(edges, key=lambda pair: -float(gains[pair]))[:64])
    assert len(edges) == 89
    assert removed
    assert removed <= best
