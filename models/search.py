"""Search for small flipping edit sets: exact where all sets can be tried, a beam beyond.

The beam's first state always tries all pairs, so the search finds whatever greedy search finds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from models.edits import EditSet, EditSpace, SmallestSets
from models.flips import FORBIDDEN, FlipJudge

_BASES = 24  # sets with two edits dropped that an exchange adds one to


@dataclass(frozen=True)
class SearchConfig:
    """How wide the search looks; the defaults are those measured in the method notes."""

    states_by_margin: int = 3
    states_by_plausibility: int = 3  # ranked by margin + plausibility_weight · plausibility
    plausibility_weight: float = 0.3
    expansions: int = 16  # per criterion, for every state but the best
    full_pairs: int = 2000  # of more pairs only the most promising ones are tried
    full_cells: int = 2**26  # and so few that their adjacencies have at most so many entries
    all_sets: int = 1024  # a depth with at most so many edit sets is tried completely
    full_depth: int = 16  # beyond, the best state too tries its most promising pairs only
    exchanged: int = 4  # flips that are tried to be made smaller by exchange

    def __post_init__(self) -> None:
        if min(self.states_by_margin, self.expansions, self.full_pairs, self.all_sets) < 1:
            raise ValueError(f"a search looks at one state and one edit at least, got {self}")

    def pairs_tried(self, nodes: int) -> int:
        return max(self.expansions, min(self.full_pairs, self.full_cells // max(nodes, 1) ** 2))


@dataclass(frozen=True)
class Guide:
    """What is known about single edits before two of them are combined."""

    pairs: list[int]  # positions of the pairs to try, all of them unless there are too many
    effects: Tensor  # [pair] margin gained by the single edit; by its gradient where not tried
    plausibility: Tensor  # [pair] log-odds that the denoiser gives the single edit

    def mixed(self, weight: float) -> Tensor:
        return self.effects + weight * self.plausibility


def try_single_edits(judge: FlipJudge, plausibility: Tensor, config: SearchConfig) -> Guide:
    """Depth 1: every pair exactly, or of too many pairs the most promising ones.

    Promising are the edges of the graph (at most for one half) and, in turns, the pairs with the
    greatest gradient and those with the greatest plausibility.
    """
    count = judge.space.count
    effects = torch.zeros(count)
    pairs = list(range(count))
    affordable = config.pairs_tried(judge.space.graph.node_count)
    if count > affordable:
        effects = judge.gradients([()])[0]
        pairs = _most_promising(judge.space, effects, plausibility, affordable)
    unedited, *edited = judge.margins([(), *((pair,) for pair in pairs)])
    effects[pairs] = torch.tensor(edited) - unedited
    return Guide(pairs, effects, plausibility)


def _most_promising(
    space: EditSpace, gradient: Tensor, plausibility: Tensor, count: int
) -> list[int]:
    by_gradient = gradient.argsort(descending=True, stable=True)
    by_plausibility = plausibility.argsort(descending=True, stable=True)
    removals = by_gradient[space.present[by_gradient]].tolist()
    chosen = dict.fromkeys(removals[: count // 2])
    for pair in torch.stack([by_gradient, by_plausibility], dim=1).flatten().tolist():
        if len(chosen) >= count:
            break
        chosen[pair] = None
    return sorted(chosen)


class Search:
    """Goes deeper edit by edit until a flip is known; `depth` says how far it got."""

    def __init__(self, judge: FlipJudge, guide: Guide, config: SearchConfig) -> None:
        self.depth = 1
        self._judge = judge
        self._guide = guide
        self._config = config
        self._by_effect = self._top(guide.effects)
        self._by_both = self._top(guide.mixed(config.plausibility_weight))
        self._level: list[EditSet] = [(pair,) for pair in guide.pairs]

    def deepen(self) -> None:
        """Tries sets of one more edit: all of them if they are few, else what the beam reaches."""
        self.depth += 1
        if math.comb(len(self._guide.pairs), self.depth) <= self._config.all_sets:
            children = list(combinations(self._guide.pairs, self.depth))
        else:
            children = self._expanded(self._beam())
        # more than a known flip is no new answer
        flips = SmallestSets(self._judge.flips())
        children = [edits for edits in children if not flips.covers(edits)]
        self._judge.margins(children)
        self._level = children

    def exchange(self) -> None:
        """Looks for a smaller flip near the smallest ones: drop every two edits, add one."""
        smallest = self._smallest_flips()
        while smallest and len(smallest[0]) >= 3:
            kept = list(dict.fromkeys(some for edits in smallest for some in _without_two(edits)))
            self._judge.margins(self._expanded_narrowly(self._by_margin(kept)[:_BASES]))
            before, smallest = smallest, self._smallest_flips()
            if len(smallest[0]) == len(before[0]):
                break

    def _smallest_flips(self) -> list[EditSet]:
        flips = self._judge.flips()
        smallest = [edits for edits in flips if len(edits) == len(flips[0])]
        return self._by_margin(smallest)[: self._config.exchanged]

    def _by_margin(self, edit_sets: Sequence[EditSet]) -> list[EditSet]:
        margin_of = dict(zip(edit_sets, self._judge.margins(edit_sets), strict=True))
        return sorted(edit_sets, key=lambda edits: (-margin_of[edits], edits))

    def _beam(self) -> list[EditSet]:
        """The states to go on from, best margin first; flips are not edited further."""
        margins = self._judge.margins(self._level)
        open_states = [
            (edits, margin)
            for edits, margin in zip(self._level, margins, strict=True)
            if FORBIDDEN < margin <= 0
        ]
        by_margin = sorted(open_states, key=lambda state: (-state[1], state[0]))
        weight = self._config.plausibility_weight
        plausible = self._guide.plausibility.tolist()
        by_both = sorted(
            open_states,
            key=lambda state: (
                -state[1] - weight * sum(plausible[pair] for pair in state[0]),
                state[0],
            ),
        )
        chosen = by_margin[: self._config.states_by_margin]
        chosen += by_both[: self._config.states_by_plausibility]
        return list(dict.fromkeys(edits for edits, _ in chosen))

    def _expanded(self, states: Sequence[EditSet]) -> list[EditSet]:
        if not states:
            return []
        if self.depth > self._config.full_depth:
            return self._expanded_narrowly(states)
        best = _children(states[0], self._guide.pairs)
        return list(dict.fromkeys([*best, *self._expanded_narrowly(states[1:])]))

    def _expanded_narrowly(self, states: Sequence[EditSet]) -> list[EditSet]:
        """Each state with its most promising edits: by single effect, by gradient, by both."""
        if not states:
            return []
        gradients = self._judge.gradients(states)
        children: dict[EditSet, None] = {}
        for state, gradient in zip(states, gradients, strict=True):
            promising = [*self._by_effect, *self._top(gradient), *self._by_both]
            children.update(dict.fromkeys(_children(state, promising)))
        return list(children)

    def _top(self, values: Tensor) -> list[int]:
        pairs = torch.tensor(self._guide.pairs, dtype=torch.long)
        order = values[pairs].argsort(descending=True, stable=True)[: self._config.expansions]
        chosen: list[int] = pairs[order].tolist()
        return chosen


def _children(state: EditSet, pairs: Iterable[int]) -> list[EditSet]:
    present = set(state)
    return [tuple(sorted((*state, pair))) for pair in pairs if pair not in present]


def _without_two(edits: EditSet) -> list[EditSet]:
    return [
        tuple(pair for pair in edits if pair not in dropped) for dropped in combinations(edits, 2)
    ]
