"""Beam search for small flipping edit sets; exhaustive for sizes with few sets.

Without a pool, the best state of the beam tries all pairs, so the search is at least as good as
greedy search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, islice

import torch
from torch import Tensor

from models.counterfactual.edit_ranking import EditRanker
from models.counterfactual.oracle import FORBIDDEN, CounterfactualOracle
from models.counterfactual.search.rank_correction import corrected
from models.counterfactual.search.search_config import SearchConfig
from models.counterfactual.search.single_edits import (
    SingleEdits,
    best_pairs,
    first_pairs,
    interleaved,
    natural_flips,
    pool_size,
)
from models.graphs.base_edit_space import EditSet
from models.graphs.minimal_sets import MinimalSets

_ROUND = 32  # pairs of a pool evaluated before the predictions for the rest are corrected
_WORTHWHILE_SHARE = 0.5  # share of the way to a flip that some edit must go for another round
_WITHOUT_TWO = 2048  # sets with two edits dropped that an exchange evaluates
_WITHOUT_TWO_NODES = 2**19  # limit on the nodes of all their graphs together


class BeamSearch:
    """Combines more and more edits; `depth` is the current number of edits.

    It evaluates batches of edit sets, most promising first, and calls `enough` after each batch.
    """

    def __init__(
        self,
        oracle: CounterfactualOracle,
        ranker: EditRanker,
        config: SearchConfig,
        enough: Callable[[int], bool] = lambda depth: False,
    ) -> None:
        self.depth = 0
        self._oracle = oracle
        self._ranker = ranker
        self._config = config
        self._enough = enough
        self._level: list[EditSet] = []
        # In random order, consecutive misses predict nothing about the next sets.
        self._stale_limit = math.inf
        if ranker.predicts_effects and config.stale_limit is not None:
            self._stale_limit = config.stale_limit

    def begin(self) -> SingleEdits:
        """Depth 1: tries single edits, either a pool of them or all."""
        self.depth = 1
        count = self._oracle.space.count
        self._pool = pool_size(self._ranker, self._config, count)
        pairs = first_pairs(self._oracle, self._ranker, self._config)
        if self._corrects_ranking:
            self._level = self._try(self._in_rounds(pairs))
        else:
            self._level = self._try((pair,) for pair in pairs)
        tried = sorted(pair for (pair,) in self._level)
        effects = self._corrected_gains(tried)
        effects[tried] = self._measured_gains(tried)
        self.single_edits = SingleEdits(tried, effects, self._ranker.plausibility)
        # With a pool, deeper states rank all pairs again; otherwise untried pairs are excluded.
        self._pairs = list(range(count)) if self._pool is not None else sorted(pairs)
        self._by_effect = self._top(effects)
        self._by_both = self._top(self.single_edits.mixed(self._config.plausibility_weight))
        return self.single_edits

    @property
    def _corrects_ranking(self) -> bool:
        """Whether measured gains correct predicted ones; not if the ranker is uncalibrated."""
        calibrated = self._ranker.predicts_effects and self._ranker.calibrated_pool is not None
        return calibrated and self._config.extend_pool and self._config.pool is not None

    def _in_rounds(self, pool: Sequence[int]) -> Iterator[EditSet]:
        """The single edits of a pool, and as many again while none of them flips.

        After each round, the measured gains correct the predictions for the remaining pairs.
        Without a flip, it ends if no edit, measured or predicted, goes half of the way to a flip.
        """
        tried: list[int] = []
        most = len(pool) if self._pool is None else 2 * self._pool
        while len(tried) < most:
            pairs = self._next_round(pool, tried)[: most - len(tried)]
            if not pairs:
                return
            yield from ((pair,) for pair in pairs)
            tried += pairs

    def _next_round(self, pool: Sequence[int], tried: Sequence[int]) -> list[int]:
        known = set(tried)
        if not tried or self._oracle.flips():
            return [pair for pair in pool if pair not in known][:_ROUND]
        predicted, corrected_gains = self._ranker.gains, self._corrected_gains(tried)
        optimistic = torch.maximum(predicted, corrected_gains)
        optimistic[list(tried)] = self._measured_gains(tried)
        if float(optimistic.max()) < _WORTHWHILE_SHARE * -self._ranker.unedited_margin:
            return []
        count = len(tried) + _ROUND
        ranked = interleaved(best_pairs(corrected_gains, count), best_pairs(predicted, count))
        return [pair for pair in ranked if pair not in known][:_ROUND]

    def _measured_gains(self, tried: Sequence[int]) -> Tensor:
        """True margin gains of single edits: [tried]."""
        margins = torch.tensor(self._oracle.margins([(pair,) for pair in tried]))
        return margins - self._ranker.unedited_margin

    def _corrected_gains(self, tried: Sequence[int]) -> Tensor:
        """Predicted gains of single edits, corrected by the measured ones: [pair]."""
        if len(tried) == self._oracle.space.count:
            return torch.zeros(len(self._ranker.plausibility))
        predicted = self._ranker.gains
        if not self._corrects_ranking or not self._config.corrects_ranking:
            return predicted.clone()
        measured = self._measured_gains(tried)
        return corrected(self._oracle.space, predicted, torch.tensor(tried), measured)

    def deepen(self) -> None:
        """Tries sets of one more edit: all of them if they are few, else those of the beam.

        If flips are known, only alternatives are missing and a narrow beam is enough.
        """
        self.depth += 1
        known = self._oracle.flips()
        # No set of this depth can contain a larger flip, and there may be thousands of those.
        flips = MinimalSets(edits for edits in known if len(edits) <= self.depth)
        if math.comb(len(self._pairs), self.depth) <= self._config.all_sets:
            children = self._all_sets()
        elif self.depth > self._config.wide_depth:
            children = self._steepest(self._beam(narrow=True)[:1])
        else:
            children = self._expanded(self._beam(narrow=bool(known)))
        # A superset of a known flip is no new answer.
        self._level = self._try([edits for edits in children if not flips.covers(edits)])

    def _all_sets(self) -> list[EditSet]:
        """Every set of `depth` pairs, first those that the beam would try."""
        every = list(combinations(self._pairs, self.depth))
        if not self._ranker.predicts_effects:
            return every
        promising = self._expanded(self._beam(narrow=bool(self._oracle.flips())))
        return list(dict.fromkeys([*promising, *every]))

    def _try(self, edit_sets: Iterable[EditSet]) -> list[EditSet]:
        """Evaluates batches of sets until there are enough flips; returns the evaluated sets.

        If a flip is known and predictions give the order, consecutive misses end the depth. The
        more flips are known, the fewer misses are needed.
        """
        evaluated: list[EditSet] = []
        misses_in_a_row = 0
        remaining = iter(edit_sets)
        while batch := list(islice(remaining, self._config.batch_size)):
            flipped = max(self._oracle.margins(batch)) > 0
            misses_in_a_row = 0 if flipped else misses_in_a_row + len(batch)
            evaluated += batch
            # Flips of denoiser samples may have more edits than this depth.
            known = sum(len(edits) <= self.depth for edits in self._oracle.flips())
            if misses_in_a_row * known >= self._stale_limit or self._enough(self.depth):
                break
        return evaluated

    def exchange(self) -> None:
        """Tries to shrink the smallest flips: drops every two edits and adds one."""
        smallest = self._smallest_flips()
        while (affordable := self._exchangeable(smallest)) > 0:
            near = smallest[:affordable]
            smaller = list(dict.fromkeys(rest for edits in near for rest in _without_two(edits)))
            bases = self._by_margin(smaller)[: self._config.exchange_bases]
            if self._ranker.predicts_effects:
                children = self._expanded(bases)[: self._config.exchange_sets]
            else:
                children = self._expanded_narrowly(bases)
            self._oracle.margins(children)
            before, smallest = smallest, self._smallest_flips()
            if len(smallest[0]) == len(before[0]):
                break

    def _exchangeable(self, flips: Sequence[EditSet]) -> int:
        """How many flips an exchange can afford: a flip of n edits gives n(n - 1)/2 sets."""
        if not flips or len(flips[0]) < 3:
            return 0
        nodes = max(self._oracle.space.graph.node_count, 1)
        return min(_WITHOUT_TWO, _WITHOUT_TWO_NODES // nodes) // math.comb(len(flips[0]), 2)

    def _smallest_flips(self) -> list[EditSet]:
        flips = self._oracle.flips()
        smallest = [edits for edits in flips if len(edits) == len(flips[0])]
        return self._by_margin(smallest)[: self._config.exchange_flips]

    def _by_margin(self, edit_sets: Sequence[EditSet]) -> list[EditSet]:
        margin_of = dict(zip(edit_sets, self._oracle.margins(edit_sets), strict=True))
        return sorted(edit_sets, key=lambda edits: (-margin_of[edits], edits))

    def _beam(self, *, narrow: bool) -> list[EditSet]:
        """The states to expand, best margin first; flips are not expanded."""
        margins = self._oracle.margins(self._level)
        open_states = [
            (edits, margin)
            for edits, margin in zip(self._level, margins, strict=True)
            if FORBIDDEN < margin <= 0
        ]
        by_margin = sorted(open_states, key=lambda state: (-state[1], state[0]))
        weight = self._config.plausibility_weight
        plausible = self.single_edits.plausibility.tolist()
        by_both = sorted(
            open_states,
            key=lambda state: (
                -state[1] - weight * sum(plausible[pair] for pair in state[0]),
                state[0],
            ),
        )
        share = self._config.beam_divisor if narrow else 1
        chosen = by_margin[: -(-self._config.states_by_margin // share)]
        chosen += by_both[: self._config.states_by_plausibility // share]
        return list(dict.fromkeys(edits for edits, _ in chosen))

    def _expanded(self, states: Sequence[EditSet]) -> list[EditSet]:
        """Children of the best state with all pairs or a pool, and of the others with a few pairs.

        Alternates between the largest predicted margins and the most natural predicted flips.
        """
        if not states:
            return []
        if not self._ranker.predicts_effects:
            best = _children(states[0], self._pairs)
            others = self._expanded_narrowly(states[1:])
            return self._ranker.shuffled(list(dict.fromkeys([*best, *others])))
        gains = self._ranker.gains_at(states)
        margins = self._oracle.margins(states)
        predicted: dict[EditSet, float] = {}
        for position, (state, margin) in enumerate(zip(states, margins, strict=True)):
            width = self._config.expansions if position else self._pool or len(self._pairs)
            chosen = [pair for pair in self._promising(gains[position], width) if pair not in state]
            values = (margin + gains[position][chosen]).tolist()
            for child, value in zip(_children(state, chosen), values, strict=True):
                predicted[child] = max(predicted.get(child, -math.inf), value)
        by_margin = sorted(predicted, key=lambda child: (-predicted[child], child))
        return interleaved(by_margin, natural_flips(self._oracle.space, predicted))

    def _steepest(self, states: Sequence[EditSet]) -> list[EditSet]:
        """Children of the states by the GNN's slopes, which are cheap."""
        return (
            [
                child
                for state, slopes in zip(states, self._oracle.gradients(states), strict=True)
                for child in _children(state, self._promising(slopes))
            ]
            if states
            else []
        )

    def _expanded_narrowly(self, states: Sequence[EditSet]) -> list[EditSet]:
        """Children of each state with its most promising edits."""
        if not states:
            return []
        children: dict[EditSet, None] = {}
        for state, gain in zip(states, self._ranker.gains_at(states), strict=True):
            promising = self._promising(gain, self._config.expansions)
            children.update(dict.fromkeys(_children(state, promising)))
        return list(children)

    def _promising(self, gain: Tensor, count: int | None = None) -> list[int]:
        """Pairs by single effect, by predicted gain, and by effect plus plausibility."""
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
