"""Search for small flipping edit sets: exact where all sets can be tried, a beam beyond.

Without a pool the beam's first state tries all pairs: the search finds what greedy search finds.
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
from models.scouting import Scout


@dataclass(frozen=True)
class SearchConfig:
    """How wide the search looks."""

    pool: int | None = 32  # pairs tried first of all and in the best state; None: all pairs
    states_by_margin: int = 6
    states_by_plausibility: int = 3  # ranked by margin + plausibility_weight · plausibility
    plausibility_weight: float = 0.3
    expansions: int = 8  # per criterion, for every state but the best
    full_pairs: int = 2000  # of more pairs only the most promising ones are tried
    full_cells: int = 2**26  # and so few that their adjacencies have at most so many entries
    all_sets: int = 1024  # a depth with at most so many edit sets is tried completely
    full_depth: int = 16  # beyond, the best state too tries its most promising pairs only
    exchanged: int = 8  # flips that are tried to be made smaller by exchange
    bases: int = 24  # sets with two edits dropped that an exchange adds one to

    def __post_init__(self) -> None:
        if min(self.states_by_margin, self.expansions, self.full_pairs, self.all_sets) < 1:
            raise ValueError(f"a search looks at one state and one edit at least, got {self}")
        if self.pool is not None and self.pool < 1:
            raise ValueError(f"a pool holds one pair at least, got {self.pool}")

    def pairs_tried(self, nodes: int) -> int:
        return max(self.expansions, min(self.full_pairs, self.full_cells // max(nodes, 1) ** 2))


# How much work an answer is worth: a wider search finds smaller and more flips.
PRESETS: dict[str, SearchConfig] = {
    "fast": SearchConfig(
        pool=16,
        states_by_margin=3,
        states_by_plausibility=1,
        expansions=6,
        exchanged=2,
        bases=8,
    ),
    "balanced": SearchConfig(),
    "thorough": SearchConfig(
        pool=None,
        states_by_margin=12,
        states_by_plausibility=4,
        expansions=16,
        exchanged=16,
        bases=48,
    ),
}


@dataclass(frozen=True)
class Guide:
    """What is known about single edits before two of them are combined."""

    tried: list[int]  # positions of the pairs whose single edit the GNN has judged
    effects: Tensor  # [pair] margin gained by the single edit; as foretold where not tried
    plausibility: Tensor  # [pair] log-odds that the denoiser gives the single edit

    def mixed(self, weight: float) -> Tensor:
        return self.effects + weight * self.plausibility


def try_single_edits(judge: FlipJudge, scout: Scout, config: SearchConfig) -> Guide:
    """Depth 1: every pair exactly, or the most promising ones.

    A scout that foresees effects names a pool. Without one all pairs are tried, or of too many
    the edges of the graph (at most for one half) and, in turns, the pairs with the greatest
    slopes and those with the greatest plausibility.
    """
    count = judge.space.count
    pairs = list(range(count))
    affordable = config.pairs_tried(judge.space.graph.node_count)
    if scout.foresees and config.pool is not None and config.pool < count:
        pairs = _pool(scout.gains, scout.plausibility, config)
    elif count > affordable:
        pairs = _most_promising(judge.space, scout.gains, scout.plausibility, affordable)
    unedited, *edited = judge.margins([(), *((pair,) for pair in pairs)])
    effects = scout.gains.clone() if len(pairs) < count else torch.zeros(count)
    effects[pairs] = torch.tensor(edited) - unedited
    return Guide(pairs, effects, scout.plausibility)


def _pool(gains: Tensor, plausibility: Tensor, config: SearchConfig) -> list[int]:
    """Three quarters by foretold gain, the rest by gain and plausibility together."""
    assert config.pool is not None
    mixed = gains + config.plausibility_weight * plausibility
    chosen = dict.fromkeys(_best(gains, config.pool - config.pool // 4))
    for pair in _best(mixed, config.pool):
        if len(chosen) >= config.pool:
            break
        chosen[pair] = None
    return sorted(chosen)


def _best(values: Tensor, count: int) -> list[int]:
    order: list[int] = values.argsort(descending=True, stable=True)[:count].tolist()
    return order


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

    def __init__(self, judge: FlipJudge, scout: Scout, guide: Guide, config: SearchConfig) -> None:
        self.depth = 1
        self._judge = judge
        self._scout = scout
        self._guide = guide
        self._config = config
        # a scout that foresees nothing says nothing about the pairs that were too many to try
        self._pairs = list(range(judge.space.count)) if scout.foresees else guide.tried
        self._by_effect = self._top(guide.effects)
        self._by_both = self._top(guide.mixed(config.plausibility_weight))
        self._level: list[EditSet] = [(pair,) for pair in guide.tried]

    def deepen(self) -> None:
        """Tries sets of one more edit: all of them if they are few, else what the beam reaches."""
        self.depth += 1
        if math.comb(len(self._pairs), self.depth) <= self._config.all_sets:
            children = list(combinations(self._pairs, self.depth))
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
            self._judge.margins(
                self._expanded_narrowly(self._by_margin(kept)[: self._config.bases])
            )
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
        """The best state with all pairs or with its pool, the others with a few."""
        if not states:
            return []
        widest = self._config.pool if self._scout.foresees else None
        if self.depth > self._config.full_depth:
            widest = self._config.expansions
        if widest is None:
            best = _children(states[0], self._pairs)
            return list(dict.fromkeys([*best, *self._expanded_narrowly(states[1:])]))
        gains = self._scout.gains_at(states)
        best = self._promising(states[0], gains[0], widest)
        return list(dict.fromkeys([*best, *self._expanded_narrowly(states[1:], gains[1:])]))

    def _expanded_narrowly(
        self, states: Sequence[EditSet], gains: Tensor | None = None
    ) -> list[EditSet]:
        """Each state with its most promising edits: by single effect, by foretold gain, by both."""
        if not states:
            return []
        gains = self._scout.gains_at(states) if gains is None else gains
        children: dict[EditSet, None] = {}
        for state, gain in zip(states, gains, strict=True):
            children.update(dict.fromkeys(self._promising(state, gain, self._config.expansions)))
        return list(children)

    def _promising(self, state: EditSet, gain: Tensor, count: int) -> list[EditSet]:
        return _children(state, [*self._by_effect, *self._top(gain, count), *self._by_both])

    def _top(self, values: Tensor, count: int | None = None) -> list[int]:
        pairs = torch.tensor(self._pairs, dtype=torch.long)
        wanted = self._config.expansions if count is None else count
        order = values[pairs].argsort(descending=True, stable=True)[:wanted]
        chosen: list[int] = pairs[order].tolist()
        return chosen


def _children(state: EditSet, pairs: Iterable[int]) -> list[EditSet]:
    present = set(state)
    return [tuple(sorted((*state, pair))) for pair in pairs if pair not in present]


def _without_two(edits: EditSet) -> list[EditSet]:
    return [
        tuple(pair for pair in edits if pair not in dropped) for dropped in combinations(edits, 2)
    ]
