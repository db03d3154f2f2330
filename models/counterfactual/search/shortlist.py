"""The flips worth verifying, and whether there are enough of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, groupby

from torch import Tensor

from models.counterfactual.oracle import CounterfactualOracle
from models.graphs.base_edit_space import EditSet
from models.graphs.minimal_sets import MinimalSets

_KEPT_FLIPS = 64  # flips on the list; fewer for large graphs
_KEPT_CELLS = 2**22


class Shortlist:
    """The smallest flips in the oracle's cache, none containing another."""

    def __init__(
        self,
        oracle: CounterfactualOracle,
        plausibility: Tensor,  # [pair]
        *,
        alternatives: int,
        min_flips: int,
    ) -> None:
        self._oracle = oracle
        self._plausibility = plausibility
        self._alternatives = alternatives
        self._min_flips = min_flips
        self._code_of: dict[EditSet, int] = {}

    def flips(self, *, stopped: bool = False) -> list[EditSet]:
        """Smallest first; after a stop request, at most the requested number of alternatives."""
        if stopped:
            return shortest_flips(self._oracle, self._plausibility, self._alternatives)
        affordable = _KEPT_CELLS // self._oracle.space.graph.node_count**2
        wanted = max(4 * self._alternatives, self._min_flips)
        count = max(wanted, min(_KEPT_FLIPS, affordable))
        return shortest_flips(self._oracle, self._plausibility, count)

    def codes(self, edit_sets: Sequence[EditSet]) -> list[int]:
        """Symmetry codes of the edit sets, cached."""
        new = [edits for edits in edit_sets if edits not in self._code_of]
        self._code_of.update(zip(new, self._oracle.space.symmetry_codes(new), strict=True))
        return [self._code_of[edits] for edits in edit_sets]

    def is_complete(self, depth: int) -> bool:
        """Whether `depth` exceeds the smallest flips, or has enough alternatives."""
        flips = self._oracle.flips()
        if not flips or len(flips[0]) > depth:
            return False
        return len(flips[0]) < depth or self._has(self._alternatives, depth)

    def has_choice(self, depth: int) -> bool:
        """Whether there are enough flips of up to `depth` edits to select the best from.

        Beyond the size of the smallest flip, as many flips as alternatives are enough.
        """
        if (flips := self._oracle.flips()) and len(flips[0]) < depth:
            return self._has(self._alternatives, depth)
        return self._has(max(self._alternatives, self._min_flips), depth)

    def _has(self, wanted: int, depth: int) -> bool:
        """Whether `wanted` flips of up to `depth` edits differ by more than a symmetry."""
        flips = [edits for edits in self.flips() if len(edits) <= depth]
        return len(flips) >= wanted and len(set(self.codes(flips))) >= wanted


def shortest_flips(oracle: CounterfactualOracle, plausibility: Tensor, count: int) -> list[EditSet]:
    """Up to `count` flips, smallest first.

    If there are too many of one size, half have the largest margins and half are the most
    plausible.
    """
    single = plausibility.tolist()
    smallest = MinimalSets()
    for _, group in groupby(oracle.flips(), key=len):
        fresh = [edits for edits in group if not smallest.covers(edits)]
        room = count - len(smallest.kept)
        if len(fresh) > room:
            margin_of = dict(zip(fresh, oracle.margins(fresh), strict=True))
            by_margin = sorted(fresh, key=lambda edits: (-margin_of[edits], edits))
            likely = {edits: sum(single[pair] for pair in edits) for edits in fresh}
            by_likelihood = sorted(fresh, key=lambda edits: (-likely[edits], edits))
            alternating = chain.from_iterable(zip(by_likelihood, by_margin, strict=True))
            fresh = list(dict.fromkeys(alternating))[:room]
        for edits in fresh:
            smallest.add(edits)
        if len(smallest.kept) >= count:
            break
    return smallest.kept
