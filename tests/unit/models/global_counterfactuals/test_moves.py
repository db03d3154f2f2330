"""Moves of a pattern: what they promise is what a count from the start gives."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.global_counterfactuals.moves import Climb, PatternRules
from models.global_counterfactuals.typed_graphs import NO_NODE, Slots, TypedGraph

KINDS, SLOTS, RADIUS = 3, 6, 0.15
ANYTHING = PatternRules(torch.full((KINDS,), 99.0), torch.ones(KINDS, KINDS, dtype=torch.bool))


def random_graph(nodes: int, generator: torch.Generator) -> TypedGraph:
    upper = (torch.rand(nodes, nodes, generator=generator) < 0.4).float().triu(1)
    return TypedGraph(torch.randint(KINDS, (nodes,), generator=generator), upper + upper.T)


def scattered(graphs: list[TypedGraph], generator: torch.Generator) -> Slots:
    """The graphs in slots in any order."""
    slots = Slots.of(graphs, SLOTS)
    order = torch.stack([torch.randperm(SLOTS, generator=generator) for _ in graphs])
    return slots.reordered(order)


def slack(types: Tensor, adjacency: Tensor, others: Slots) -> Tensor:
    """Radius · sizes - edits, counted from the definition."""
    edits = (others.types != types).sum(dim=1)
    edits = edits + (others.adjacency - adjacency).abs().sum(dim=(1, 2)) / 2
    size = (types != NO_NODE).sum() + adjacency.sum() / 2
    return RADIUS * (others.sizes + size) - edits


def climb(seed: int, rules: PatternRules = ANYTHING) -> Climb:
    generator = torch.Generator().manual_seed(seed)
    own = Slots.of([random_graph(4, generator)], SLOTS)
    others = scattered([random_graph(2 + seed % 4, generator) for _ in range(5)], generator)
    now = slack(own.types[0], own.adjacency[0], others)
    return Climb(own.types[0], own.adjacency[0], others, now, RADIUS, 1.0)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_each_move_tells_its_value_and_the_slack_after_it(seed: int) -> None:
    before = climb(seed)
    moves = before.better_moves(ANYTHING)
    assert moves
    values = [value for value, _ in moves]
    assert values == sorted(values, reverse=True)
    for value, after in moves:
        counted = slack(after.types, after.adjacency, after.others)
        torch.testing.assert_close(after.slack, counted, atol=1e-4, rtol=0)
        assert abs(after.value - value) < 1e-3
        assert torch.equal(after.adjacency, after.adjacency.T)
        assert not after.adjacency.diagonal().any()
        empty = after.types == NO_NODE
        assert not after.adjacency[empty].any()
        assert after.graph().key() != before.graph().key()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_moves_keep_a_pattern_to_the_rules(seed: int) -> None:
    before = climb(seed)
    one, other = before.graph().types[before.graph().edges]
    meets = torch.zeros(KINDS, KINDS, dtype=torch.bool)
    meets[one, other] = meets[other, one] = True
    highest = torch.zeros(KINDS)
    degrees = before.graph().adjacency.sum(dim=1)
    highest.scatter_reduce_(0, before.graph().types, degrees, "amax")
    rules = PatternRules(highest, meets)
    assert rules.holds(before.graph())
    for _, after in before.better_moves(rules):
        assert rules.holds(after.graph())


def test_a_better_move_is_found() -> None:
    """The pattern is a path, all graphs are the triangle: the missing edge is the best move."""
    path = torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])
    triangle = TypedGraph(torch.zeros(3, dtype=torch.long), torch.ones(3, 3) - torch.eye(3))
    own = Slots.of([TypedGraph(triangle.types, path)], SLOTS)
    others = Slots.of([triangle] * 4, SLOTS)
    before = Climb(
        own.types[0],
        own.adjacency[0],
        others,
        slack(own.types[0], own.adjacency[0], others),
        RADIUS,
        1.0,
    )
    value, best = before.better_moves(ANYTHING)[0]
    assert value > before.value
    assert best.graph().key() == triangle.key()
