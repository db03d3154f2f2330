"""Beam search for small flipping edit sets; exhaustive for sizes with few sets.

Without a pool, the best state of the beam tries all pairs, so the search is at least as good as
greedy search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, islice

import torch
from torch import Tensor

from models.counterfactual.edit_ranking import EditRanker
from models.counterfactual.oracle import FORBIDDEN, CounterfactualOracle
from models.counterfactual.search.search_config import SearchConfig
from models.counterfactual.search.single_edits import (
    SingleEdits,
    first_pairs,
    interleaved,
    natural_flips,
    pool_size,
)
from models.graphs.base_edit_space import EditSet
from models.graphs.minimal_sets import MinimalSets


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
        self._level = self._try((pair,) for pair in pairs)
        tried = sorted(pair for (pair,) in self._level)
        # Predicted gains need a pass of the denoiser or the GNN, so only where they are used.
        effects = torch.zeros(count) if len(tried) == count else self._ranker.gains.clone()
        margins = torch.tensor(self._oracle.margins([(pair,) for pair in tried]))
        effects[tried] = margins - self._ranker.unedited_margin
        # With a pool, deeper states rank all pairs again; otherwise untried pairs are excluded.
        self._pairs = list(range(count)) if self._pool is not None else sorted(pairs)
        self._by_effect = self._top(effects)
        return SingleEdits(tried, effects)

    def deepen(self) -> None:
        """Tries sets of one more edit: all of them if they are few, else those of the beam."""
        self.depth += 1
        # No set of this depth can contain a larger flip, and there may be thousands of those.
        known = self._oracle.flips()
        flips = MinimalSets(edits for edits in known if len(edits) <= self.depth)
        if math.comb(len(self._pairs), self.depth) <= self._config.all_sets:
            children = self._all_sets()
        elif self.depth > self._config.wide_depth:
            children = self._steepest(self._beam()[:1])
        else:
            children = self._expanded(self._beam())
        # A superset of a known flip is no new answer.
        self._level = self._try([edits for edits in children if not flips.covers(edits)])

    def _all_sets(self) -> list[EditSet]:
        """Every set of `depth` pairs, first those that the beam would try."""
        every = list(combinations(self._pairs, self.depth))
        if not self._ranker.predicts_effects:
            return every
        return list(dict.fromkeys([*self._expanded(self._beam()), *every]))

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
            # Flips of many edits at once may have more edits than this depth.
            known = sum(len(edits) <= self.depth for edits in self._oracle.flips())
            if misses_in_a_row * known >= self._stale_limit or self._enough(self.depth):
                break
        return evaluated

    def _beam(self) -> list[EditSet]:
        """The states to expand, best margin first; flips are not expanded."""
        margins = self._oracle.margins(self._level)
        open_states = [
            (-margin, edits)
            for edits, margin in zip(self._level, margins, strict=True)
            if FORBIDDEN < margin <= 0
        ]
        return [edits for _, edits in sorted(open_states)[: self._config.states]]

    def _expanded(self, states: Sequence[EditSet]) -> list[EditSet]:
        """Children of the best state with all pairs or a pool, and of the others with a few pairs.

        Alternates between the largest predicted margins and the most natural predicted flips.
        """
        if not states:
            return []
        gains = self._ranker.gains_at(states)
        if not self._ranker.predicts_effects:
            best = _children(states[0], self._pairs)
            others = [
                child
                for state, gain in zip(states[1:], gains[1:], strict=True)
                for child in _children(state, self._promising(gain, self._config.expansions))
            ]
            return self._ranker.shuffled(list(dict.fromkeys([*best, *others])))
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
        if not states:
            return []
        return [
            child
            for state, slopes in zip(states, self._oracle.gradients(states), strict=True)
            for child in _children(state, self._promising(slopes, self._config.expansions))
        ]

    def _promising(self, gain: Tensor, count: int) -> list[int]:
        """Pairs by single effect and by predicted gain."""
        return list(dict.fromkeys([*self._by_effect, *self._top(gain, count)]))

    def _top(self, values: Tensor, count: int | None = None) -> list[int]:
        pairs = torch.tensor(self._pairs, dtype=torch.long)
        wanted = self._config.expansions if count is None else count
        order = values[pairs].argsort(descending=True, stable=True)[:wanted]
        chosen: list[int] = pairs[order].tolist()
        return chosen


def _children(state: EditSet, pairs: Iterable[int]) -> list[EditSet]:
    present = set(state)
    return [tuple(sorted((*state, pair))) for pair in pairs if pair not in present]
