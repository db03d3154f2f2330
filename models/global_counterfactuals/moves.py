"""Small changes of a pattern, and how many aligned graphs would be near the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from models.global_counterfactuals.typed_graphs import NO_NODE, Slots, TypedGraph

_IMPOSSIBLE = -1.0  # the value of a move that does not exist
_SHIFT = 0.3  # edits; a graph exactly at the radius counts as inside
_MOVES_TOLD = 12  # best moves of each kind


@dataclass(frozen=True)
class PatternRules:
    """What the reference graphs contain: a pattern keeps to it."""

    highest_degree: Tensor  # [type]
    meets: Tensor  # [type, type] bool: whether an edge joins these types

    def holds(self, graph: TypedGraph) -> bool:
        degrees = graph.adjacency.sum(dim=1)
        one, other = graph.edges
        return bool(
            (degrees <= self.highest_degree[graph.types]).all()
            and self.meets[graph.types[one], graph.types[other]].all()
        )


@dataclass(frozen=True)
class Climb:
    """A pattern in slots, graphs aligned with it, and how many edits each is inside the radius."""

    types: Tensor  # [slot], NO_NODE where there is none
    adjacency: Tensor  # [slot, slot]
    others: Slots  # graphs in the slots of the pattern
    slack: Tensor  # [graph] radius · (size + size of the pattern) - edits; covered if >= 0
    radius: float
    softness: float  # edits; graphs this far outside still count for a part

    @property
    def value(self) -> float:
        """A smooth count of the covered graphs."""
        return float(self._value(self.slack))

    def graph(self) -> TypedGraph:
        return Slots(self.types[None], self.adjacency[None]).graph(0)

    def better_moves(self, rules: PatternRules) -> list[tuple[float, Climb]]:
        """Moves and their values, best first: edges, types and leaves are changed."""
        found = [*self._toggles(rules), *self._new_types(rules)]
        found += [*self._new_leaves(rules), *self._lost_leaves()]
        return sorted(found, key=lambda move: -move[0])

    def _value(self, slack: Tensor) -> Tensor:
        return torch.sigmoid((slack + _SHIFT) / self.softness).sum(dim=0)

    def _moved(self, types: Tensor, adjacency: Tensor, change: Tensor) -> Climb:
        return Climb(types, adjacency, self.others, self.slack + change, self.radius, self.softness)

    def _toggles(self, rules: PatternRules) -> Iterator[tuple[float, Climb]]:
        real = self.types != NO_NODE
        kinds = self.types.clamp_min(0)
        room = self.adjacency.sum(dim=1) < rules.highest_degree[kinds]
        possible = (self.adjacency > 0) | (
            rules.meets[kinds][:, kinds] & room[:, None] & room[None, :]
        )
        possible &= real[:, None] & real[None, :]
        sign = 1 - 2 * self.adjacency  # 1 if the toggle adds an edge
        change = self.radius * sign - sign * (1 - 2 * self.others.adjacency)
        values = self._value(self.slack[:, None, None] + change)
        values = values.masked_fill(~possible, _IMPOSSIBLE).triu(1)
        for value, (one, other) in _best(values):
            adjacency = self.adjacency.clone()
            adjacency[one, other] = adjacency[other, one] = 1 - adjacency[one, other]
            yield value, self._moved(self.types, adjacency, change[:, one, other])

    def _new_types(self, rules: PatternRules) -> Iterator[tuple[float, Climb]]:
        real = self.types != NO_NODE
        kinds = len(rules.highest_degree)
        # Neighbours' types that a new type must meet: [slot, kind].
        neighbours = (
            self.adjacency @ torch.nn.functional.one_hot(self.types + 1, kinds + 1).float()[:, 1:]
        )
        foreign = neighbours @ (~rules.meets).float()
        fits = (foreign == 0) & (self.adjacency.sum(dim=1)[:, None] <= rules.highest_degree)
        fits &= real[:, None]
        fits[real, self.types[real]] = False
        equal = (self.others.types[:, :, None] == torch.arange(kinds)).float()
        now = (self.others.types == self.types).float()
        change = equal - now[:, :, None]  # [graph, slot, kind]
        values = self._value(self.slack[:, None, None] + change)
        for value, (slot, kind) in _best(values.masked_fill(~fits, _IMPOSSIBLE)):
            types = self.types.clone()
            types[slot] = kind
            yield value, self._moved(types, self.adjacency, change[:, slot, kind])

    def _new_leaves(self, rules: PatternRules) -> Iterator[tuple[float, Climb]]:
        """A node in an empty slot, with the type that most graphs have there, and an edge."""
        empty = (self.types == NO_NODE).nonzero()[:, 0]
        if not len(empty):
            return
        kinds = len(rules.highest_degree)
        there = torch.nn.functional.one_hot(self.others.types[:, empty] + 1, kinds + 1)
        kind = there.sum(dim=0)[:, 1:].argmax(dim=1)  # [empty]
        theirs = self.others.types[:, empty]
        change = (theirs == kind).float() - (theirs == NO_NODE).float() + 2 * self.radius
        change = change[:, :, None] - (1 - 2 * self.others.adjacency[:, empty])
        own = self.types.clamp_min(0)
        room = (self.types != NO_NODE) & (self.adjacency.sum(dim=1) < rules.highest_degree[own])
        fits = rules.meets[kind][:, own] & room[None, :]
        values = self._value(self.slack[:, None, None] + change)  # [empty, slot]
        for value, (row, anchor) in _best(values.masked_fill(~fits, _IMPOSSIBLE)):
            slot = int(empty[row])
            types, adjacency = self.types.clone(), self.adjacency.clone()
            types[slot] = kind[row]
            adjacency[slot, anchor] = adjacency[anchor, slot] = 1.0
            yield value, self._moved(types, adjacency, change[:, row, anchor])

    def _lost_leaves(self) -> Iterator[tuple[float, Climb]]:
        degrees = self.adjacency.sum(dim=1)
        leaves = ((self.types != NO_NODE) & (degrees <= 1)).nonzero()[:, 0]
        if len(leaves) == int((self.types != NO_NODE).sum()):
            return  # a pattern keeps at least one node with its edges
        edge = self.adjacency[leaves]  # [leaf, slot]
        lost_edge = (edge * (1 - 2 * self.others.adjacency[:, leaves])).sum(dim=2)
        theirs = self.others.types[:, leaves]
        change = (theirs == NO_NODE).float() - (theirs == self.types[leaves]).float()
        change = change + lost_edge - self.radius * (1 + degrees[leaves])
        values = self._value(self.slack[:, None] + change)
        for value, (row,) in _best(values):
            slot = int(leaves[row])
            types, adjacency = self.types.clone(), self.adjacency.clone()
            types[slot] = NO_NODE
            adjacency[slot] = 0.0
            adjacency[:, slot] = 0.0
            yield value, self._moved(types, adjacency, change[:, row])


def _best(values: Tensor) -> Iterator[tuple[float, tuple[int, ...]]]:
    """The largest entries and their positions; impossible moves are left out."""
    count = min(_MOVES_TOLD, values.numel())
    top, places = values.flatten().topk(count)
    for value, place in zip(top.tolist(), places.tolist(), strict=True):
        if value <= 0:
            return
        position, rest = [], place
        for length in reversed(values.shape):
            position.append(rest % length)
            rest //= length
        yield value, tuple(reversed(position))
