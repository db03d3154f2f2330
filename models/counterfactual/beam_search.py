"""Search for small flipping edit sets: exact where all sets can be tried, a beam beyond.

Without a pool the beam's first state tries all pairs: the search finds what greedy search finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, zip_longest
from typing import TypeVar

import torch
from torch import Tensor

from models.counterfactual.edit_ranking import EditRanker
from models.counterfactual.large.patches import PatchEditRanker
from models.counterfactual.oracle import FORBIDDEN, CounterfactualOracle
from models.counterfactual.rank_correction import corrected
from models.counterfactual.search_config import SearchConfig
from models.counterfactual.selection import statistics_shift
from models.graphs.edits import EditSet, EditSpace, SmallestSets

_LOOK = 32  # pairs of a pool that are judged before what is foretold of the rest is corrected
_HOPE = 0.5  # of the way to a flip, that the best edit goes where one may flip
_NATURAL = 64  # foretold flips whose naturalness is looked at
_WITHOUT_TWO = 2048  # sets with two edits dropped that an exchange judges
_WITHOUT_TWO_NODES = 2**19  # and nodes of all their graphs together

T = TypeVar("T")
AnyScout = EditRanker | PatchEditRanker


@dataclass(frozen=True)
class Guide:
    """What is known about single edits before two of them are combined."""

    tried: list[int]  # positions of the pairs whose single edit the GNN has judged
    effects: Tensor  # [pair] margin gained by the single edit; as foretold where not tried
    plausibility: Tensor  # [pair] log-odds that the denoiser gives the single edit

    def mixed(self, weight: float) -> Tensor:
        return self.effects + weight * self.plausibility


def first_pairs(judge: CounterfactualOracle, scout: AnyScout, config: SearchConfig) -> list[int]:
    """The pairs to try as single edits, in the order to try them.

    A scout that foresees effects names a pool, best first. Without one, or if there are few, it is
    all pairs, or of too
    many the edges of the graph (at most for one half) and, in turns, the pairs with the greatest
    slopes and those with the greatest plausibility; in random order if nothing is foretold.
    """
    count = judge.space.count
    affordable = config.pairs_tried(judge.space.graph.node_count)
    pool = pool_size(scout, config, count)
    if pool is not None:
        return _pool(judge, scout, config, pool)
    pairs = list(range(count))
    if count > affordable:
        slopes = scout.gains if judge.gnn.has_dense else scout.plausibility
        pairs = _most_promising(judge.space, slopes, scout.plausibility, affordable)
    if not scout.foresees:
        return scout.shuffled(pairs)
    gains = scout.gains.tolist()
    return sorted(pairs, key=lambda pair: (-gains[pair], pair))


def pool_size(scout: AnyScout, config: SearchConfig, count: int) -> int | None:
    """Of so many pairs, how many are tried; None: all of them."""
    if not scout.foresees or config.pool is None:
        return None
    size = config.pool
    if config.calibrated:
        if scout.needed is None:
            return None
        size = max(size, scout.needed)
    # of hardly more pairs than a pool holds it is not worth leaving some out
    return size if 2 * size < count else None


def _pool(
    judge: CounterfactualOracle, scout: AnyScout, config: SearchConfig, size: int
) -> list[int]:
    """In turns by foretold gain, by naturalness, and by gain and plausibility together.

    As many of the first as the denoiser needed on held-out graphs are in it in any case.
    """
    gains = scout.gains
    by_gain = _best(gains, size)
    mixed = gains + config.plausibility_weight * scout.plausibility
    foretold: dict[EditSet, float] = {
        (pair,): scout.unedited + float(gains[pair]) for pair in _best(gains, 2 * size)
    }
    natural = [edits[0] for edits in _natural_flips(judge.space, foretold)]
    chosen = _in_turns(by_gain, natural, _best(mixed, size))[:size]
    needed = by_gain[: scout.needed] if config.calibrated else []
    return list(dict.fromkeys([*chosen, *needed]))


def _natural_flips(space: EditSpace, foretold: Mapping[EditSet, float]) -> list[EditSet]:
    """Of the sets foretold to flip those most like the input first, of many the surest."""
    flips = [edits for edits, margin in foretold.items() if margin > 0]
    surest = sorted(flips, key=lambda edits: (-foretold[edits], edits))[:_NATURAL]
    strange = dict(zip(surest, statistics_shift(space, surest), strict=True))
    return sorted(surest, key=lambda edits: (strange[edits], edits))


def _in_turns(*orders: Sequence[T]) -> list[T]:
    """One of each in turn, as long as there are some, without repetitions."""
    rounds = zip_longest(*([(one,) for one in order] for order in orders), fillvalue=())
    return list(dict.fromkeys(one for some in rounds for cell in some for one in cell))


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
    """Goes deeper edit by edit until enough flips are known; `depth` says how far it got.

    What is tried comes in portions, most promising first, and `enough` is asked after each.
    """

    def __init__(
        self,
        judge: CounterfactualOracle,
        scout: AnyScout,
        config: SearchConfig,
        enough: Callable[[int], bool] = lambda depth: False,
    ) -> None:
        self.depth = 0
        self._judge = judge
        self._scout = scout
        self._config = config
        self._enough = enough
        self._level: list[EditSet] = []
        # a random order says nothing about what comes next
        self._dry = config.dry if scout.foresees and config.dry is not None else math.inf

    def begin(self) -> Guide:
        """Depth 1: single edits, all of them unless there is a reason to leave some out."""
        self.depth = 1
        count = self._judge.space.count
        self._pool = pool_size(self._scout, self._config, count)
        pairs = first_pairs(self._judge, self._scout, self._config)
        if self._looks_again:
            self._level = self._try(self._looks(pairs))
        else:
            self._level = self._try((pair,) for pair in pairs)
        tried = sorted(pair for (pair,) in self._level)
        effects = self._learnt(tried)
        effects[tried] = self._gained(tried)
        self.guide = Guide(tried, effects, self._scout.plausibility)
        # beyond a pool all pairs are ranked anew in every state; else what was too much stays out
        self._pairs = list(range(count)) if self._pool is not None else sorted(pairs)
        self._by_effect = self._top(effects)
        self._by_both = self._top(self.guide.mixed(self._config.plausibility_weight))
        return self.guide

    @property
    def _looks_again(self) -> bool:
        """Whether what was judged corrects what is foretold; not where nobody knows how good it is.

        Where all pairs are asked for they are all tried.
        """
        known = self._scout.foresees and self._scout.needed is not None
        return known and self._config.second_look and self._config.pool is not None

    def _looks(self, pool: Sequence[int]) -> Iterator[EditSet]:
        """A pool's single edits, and as many again while none of them flips; or all, if few.

        A look at a time: what was judged corrects what is foretold of the rest. Without a flip it
        ends where none is to be expected: no edit goes half of the way, neither of those that were
        judged nor, as foretold, of the others.
        """
        tried: list[int] = []
        most = len(pool) if self._pool is None else 2 * self._pool
        while len(tried) < most:
            look = self._next_look(pool, tried)[: most - len(tried)]
            if not look:
                return
            yield from ((pair,) for pair in look)
            tried += look

    def _next_look(self, pool: Sequence[int], tried: Sequence[int]) -> list[int]:
        known = set(tried)
        if not tried or self._judge.flips():
            return [pair for pair in pool if pair not in known][:_LOOK]
        foretold, learnt = self._scout.gains, self._learnt(tried)
        hoped = torch.maximum(foretold, learnt)
        hoped[list(tried)] = self._gained(tried)
        if float(hoped.max()) < _HOPE * -self._scout.unedited:
            return []
        best = len(tried) + _LOOK
        ranked = _in_turns(_best(learnt, best), _best(foretold, best))
        return [pair for pair in ranked if pair not in known][:_LOOK]

    def _gained(self, tried: Sequence[int]) -> Tensor:
        """What single edits really do to the margin: [tried]"""
        return torch.tensor(self._judge.margins([(pair,) for pair in tried])) - self._scout.unedited

    def _learnt(self, tried: Sequence[int]) -> Tensor:
        """Gains of single edits, as foretold and as those that were tried correct it: [pair]"""
        if len(tried) == self._judge.space.count:
            return torch.zeros(len(self._scout.plausibility))
        foretold = self._scout.gains
        if not self._looks_again:
            return foretold.clone()
        return corrected(self._judge.space, foretold, torch.tensor(tried), self._gained(tried))

    def deepen(self) -> None:
        """Tries sets of one more edit: all of them if they are few, else what the beam reaches.

        Where flips are known already, only alternatives are missing, and a narrow beam will do.
        """
        self.depth += 1
        known = self._judge.flips()
        # larger ones are part of no set of so many edits, and there may be thousands
        flips = SmallestSets(edits for edits in known if len(edits) <= self.depth)
        if math.comb(len(self._pairs), self.depth) <= self._config.all_sets:
            children = self._all_sets()
        elif self.depth > self._config.wide_depth:
            children = self._steepest(self._beam(narrow=True)[:1])
        else:
            children = self._expanded(self._beam(narrow=bool(known)))
        # more than a known flip is no new answer
        self._level = self._try([edits for edits in children if not flips.covers(edits)])

    def _all_sets(self) -> list[EditSet]:
        """Every set of so many pairs, first those that the beam would try."""
        every = list(combinations(self._pairs, self.depth))
        if not self._scout.foresees:
            return every
        promising = self._expanded(self._beam(narrow=bool(self._judge.flips())))
        return list(dict.fromkeys([*promising, *every]))

    def _try(self, edit_sets: Iterable[EditSet]) -> list[EditSet]:
        """Judges portion by portion until enough is known; returns what was judged.

        Where a flip is known, only alternatives are missing. If what is foretold gives the order,
        many sets in a row without a flip say that those behind them have none either; the more
        flips are known, the fewer such sets will do.
        """
        judged: list[EditSet] = []
        dry = 0
        waiting = iter(edit_sets)
        while portion := list(islice(waiting, self._config.portion)):
            dry = 0 if max(self._judge.margins(portion)) > 0 else dry + len(portion)
            judged += portion
            # a sample's flip may have more edits than are tried now
            known = sum(len(edits) <= self.depth for edits in self._judge.flips())
            if dry * known >= self._dry or self._enough(self.depth):
                break
        return judged

    def exchange(self) -> None:
        """Looks for a smaller flip near the smallest ones: drop every two edits, add one."""
        smallest = self._smallest_flips()
        while (affordable := self._exchangeable(smallest)) > 0:
            near = smallest[:affordable]
            kept = list(dict.fromkeys(some for edits in near for some in _without_two(edits)))
            bases = self._by_margin(kept)[: self._config.bases]
            if self._scout.foresees:
                children = self._expanded(bases)[: self._config.exchanges]
            else:
                children = self._expanded_narrowly(bases)
            self._judge.margins(children)
            before, smallest = smallest, self._smallest_flips()
            if len(smallest[0]) == len(before[0]):
                break

    def _exchangeable(self, flips: Sequence[EditSet]) -> int:
        """Of how many of the flips every two edits can be dropped: their pairs grow as a square."""
        if not flips or len(flips[0]) < 3:
            return 0
        nodes = max(self._judge.space.graph.node_count, 1)
        return min(_WITHOUT_TWO, _WITHOUT_TWO_NODES // nodes) // math.comb(len(flips[0]), 2)

    def _smallest_flips(self) -> list[EditSet]:
        flips = self._judge.flips()
        smallest = [edits for edits in flips if len(edits) == len(flips[0])]
        return self._by_margin(smallest)[: self._config.exchanged]

    def _by_margin(self, edit_sets: Sequence[EditSet]) -> list[EditSet]:
        margin_of = dict(zip(edit_sets, self._judge.margins(edit_sets), strict=True))
        return sorted(edit_sets, key=lambda edits: (-margin_of[edits], edits))

    def _beam(self, *, narrow: bool) -> list[EditSet]:
        """The states to go on from, best margin first; flips are not edited further."""
        margins = self._judge.margins(self._level)
        open_states = [
            (edits, margin)
            for edits, margin in zip(self._level, margins, strict=True)
            if FORBIDDEN < margin <= 0
        ]
        by_margin = sorted(open_states, key=lambda state: (-state[1], state[0]))
        weight = self._config.plausibility_weight
        plausible = self.guide.plausibility.tolist()
        by_both = sorted(
            open_states,
            key=lambda state: (
                -state[1] - weight * sum(plausible[pair] for pair in state[0]),
                state[0],
            ),
        )
        share = self._config.narrow if narrow else 1
        chosen = by_margin[: -(-self._config.states_by_margin // share)]
        chosen += by_both[: self._config.states_by_plausibility // share]
        return list(dict.fromkeys(edits for edits, _ in chosen))

    def _expanded(self, states: Sequence[EditSet]) -> list[EditSet]:
        """The best state with all pairs or with its pool, the others with a few.

        In turns those with the greatest foretold margins and the most natural foretold flips.
        """
        if not states:
            return []
        if not self._scout.foresees:
            best = _children(states[0], self._pairs)
            narrow = self._expanded_narrowly(states[1:])
            return self._scout.shuffled(list(dict.fromkeys([*best, *narrow])))
        gains = self._scout.gains_at(states)
        margins = self._judge.margins(states)
        foretold: dict[EditSet, float] = {}
        for place, (state, margin) in enumerate(zip(states, margins, strict=True)):
            width = self._config.expansions if place else self._pool or len(self._pairs)
            chosen = [pair for pair in self._promising(gains[place], width) if pair not in state]
            values = (margin + gains[place][chosen]).tolist()
            for child, value in zip(_children(state, chosen), values, strict=True):
                foretold[child] = max(foretold.get(child, -math.inf), value)
        by_margin = sorted(foretold, key=lambda child: (-foretold[child], child))
        return _in_turns(by_margin, _natural_flips(self._judge.space, foretold))

    def _steepest(self, states: Sequence[EditSet]) -> list[EditSet]:
        """States with what the GNN's slopes promise, which is cheap."""
        return (
            [
                child
                for state, slopes in zip(states, self._judge.gradients(states), strict=True)
                for child in _children(state, self._promising(slopes))
            ]
            if states
            else []
        )

    def _expanded_narrowly(self, states: Sequence[EditSet]) -> list[EditSet]:
        """Each state with its most promising edits."""
        if not states:
            return []
        children: dict[EditSet, None] = {}
        for state, gain in zip(states, self._scout.gains_at(states), strict=True):
            promising = self._promising(gain, self._config.expansions)
            children.update(dict.fromkeys(_children(state, promising)))
        return list(children)

    def _promising(self, gain: Tensor, count: int | None = None) -> list[int]:
        """Pairs by single effect, by foretold gain, and by effect and plausibility together."""
        return list(dict.fromkeys([*self._by_effect, *self._top(gain, count), *self._by_both]))

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
