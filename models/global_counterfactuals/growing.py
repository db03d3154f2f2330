"""Grows a pattern of the wanted class that many graphs are near to, from one of them.

The pattern is aligned with the graphs around it. It then climbs: the move that brings most graphs
into the radius is made, until none helps. Aligning again starts the next round. A pattern that the
GNN gives the wrong class takes the moves that cost least and correct that; from then on, moves
keep the class.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from models.global_counterfactuals.alignment import align
from models.global_counterfactuals.config import GlobalConfig
from models.global_counterfactuals.moves import Climb, PatternRules
from models.global_counterfactuals.pattern_classes import PatternClasses
from models.global_counterfactuals.population import Population
from models.global_counterfactuals.typed_graphs import NO_NODE, Slots, TypedGraph

_NEIGHBOURS = 350  # graphs that a pattern is aligned with
_FAR = 1.6  # estimates above this many radii are not aligned
_STARTS = 2  # of each alignment
_NEW_NODES = 8  # nodes that a pattern may gain in a round
_STEPS = 25  # of a climb
_CROSSINGS = 6  # moves to another class
_SEEN = 6.0  # edits; graphs farther outside the radius do not steer the climb
_SOFTEST, _HARDEST = 1.5, 0.4  # softness of the first and of the last round
_CHECKED = 12  # better moves whose class is asked for


@dataclass(frozen=True)
class Grown:
    """A pattern of the wanted class and the graphs within the radius."""

    pattern: TypedGraph
    covered: Tensor  # [graph of the population] bool


@dataclass(frozen=True)
class Grower:
    population: Population
    classes: PatternClasses
    rules: PatternRules
    config: GlobalConfig
    generator: torch.Generator

    def grow(self, start: TypedGraph, wanted: Tensor) -> Grown | None:
        """Grows a pattern that covers many of the wanted graphs ([graph] bool).

        None if no pattern of the wanted class was found.
        """
        best: Grown | None = None
        pattern = start
        for number in range(self.config.rounds):
            climb, near = self._aligned(pattern, wanted, number)
            if self._is_right(pattern):
                covered = torch.zeros_like(wanted)
                covered[near[climb.slack >= 0]] = True
                if best is None or covered.sum() > best.covered.sum():
                    best = Grown(pattern, covered)
            after = self._climbed(self._only_near(climb))
            if after.key() == pattern.key():
                break
            pattern = after
        return best

    def _aligned(self, pattern: TypedGraph, wanted: Tensor, number: int) -> tuple[Climb, Tensor]:
        """A climb of this round and the positions of its graphs in the population."""
        slots = min(pattern.node_count + _NEW_NODES, self.config.max_nodes)
        allowed = self.config.radius * (self.population.sizes + pattern.size)
        estimates = self.population.estimates(pattern) / allowed
        near = (wanted & (estimates < _FAR) & (self.population.nodes <= slots)).nonzero()[:, 0]
        near = near[estimates[near].argsort(stable=True)[:_NEIGHBOURS]]
        own = Slots.of([pattern], slots)
        if not len(near):
            nothing = Slots(own.types[:0], own.adjacency[:0])
            return Climb(own.types[0], own.adjacency[0], nothing, allowed[near], 0.1, 1.0), near
        aligned = align(
            pattern,
            [self.population.graphs[row] for row in near.tolist()],
            self.population.type_counts.shape[1],
            self.generator,
            slots=slots,
            starts=_STARTS,
        )
        softness = max(_SOFTEST * (1 - number / self.config.rounds), _HARDEST)
        slack = allowed[near] - aligned.costs
        return (
            Climb(
                own.types[0],
                own.adjacency[0],
                aligned.slots,
                slack,
                self.config.radius,
                softness,
            ),
            near,
        )

    @staticmethod
    def _only_near(climb: Climb) -> Climb:
        kept = climb.slack > -_SEEN
        others = Slots(climb.others.types[kept], climb.others.adjacency[kept])
        return Climb(
            climb.types, climb.adjacency, others, climb.slack[kept], climb.radius, climb.softness
        )

    def _climbed(self, climb: Climb) -> TypedGraph:
        is_right = self._is_right(climb.graph())
        for _ in range(_STEPS):
            better = self._better(climb, must_be_right=is_right)
            if better is None:
                break
            climb = better
        if not is_right:
            climb = self._crossed(climb)
        return climb.graph()

    def _better(self, climb: Climb, *, must_be_right: bool) -> Climb | None:
        """The best move that raises the value and is allowed; None if there is none."""
        value = climb.value
        moves = [move for gained, move in climb.better_moves(self.rules) if gained > value + 1e-4]
        moves = [move for move in moves[:_CHECKED] if not _splits(climb, move)]
        if not moves or not must_be_right:
            return moves[0] if moves else None
        margins = self.classes.margins([move.graph() for move in moves])
        right = (margins > 0).nonzero()[:, 0]
        return moves[int(right[0])] if len(right) else None

    def _crossed(self, climb: Climb) -> Climb:
        """The climb after the moves to the wanted class that lose least; a few are tried."""
        for _ in range(_CROSSINGS):
            if self._is_right(climb.graph()):
                break
            moves = [move for _, move in climb.better_moves(self.rules)]
            moves = [move for move in moves if not _splits(climb, move)]
            if not moves:
                break
            margins = self.classes.margins([move.graph() for move in moves])
            right = (margins > 0).nonzero()[:, 0]
            climb = moves[int(right[0]) if len(right) else int(margins.argmax())]
        return climb

    def _is_right(self, pattern: TypedGraph) -> bool:
        return bool(self.classes.margins([pattern])[0] > 0)


def _splits(before: Climb, after: Climb) -> bool:
    """Whether a move leaves more components than there were."""
    return _components(after) > _components(before)


def _components(climb: Climb) -> int:
    real = climb.types != NO_NODE
    count: int = connected_components(climb.adjacency[real][:, real].numpy(), directed=False)[0]
    return count
