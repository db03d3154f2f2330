"""The last stages: verify and prune the flips, and select the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from models.counterfactual.oracle import FORBIDDEN, CounterfactualOracle
from models.counterfactual.pruning import prune_verified
from models.counterfactual.search.shortlist import Shortlist
from models.graphs.base_edit_space import BaseEditSpace, EditSet
from models.graphs.minimal_sets import MinimalSets

_CHECKED_MISSES = 8

CountUnseen = Callable[[Sequence[EditSet]], list[int]]  # patterns that the reference set lacks


def nothing_unseen(edit_sets: Sequence[EditSet]) -> list[int]:
    """For searches without a reference set."""
    return [0] * len(edit_sets)


@dataclass(frozen=True)
class Selection:
    """The answers, best first; each is verified by the sparse GNN."""

    chosen: list[EditSet]
    closest_miss: EditSet | None  # only if nothing was chosen
    sampled: frozenset[EditSet] = frozenset()  # sets that the paper's sampler drew


def select_counterfactuals(
    oracle: CounterfactualOracle,
    shortlist: Shortlist,
    *,
    alternatives: int,
    minimal: bool,
    stopped: bool,
    count_unseen: CountUnseen = nothing_unseen,
) -> Selection:
    """Verifies, prunes and selects the best of the known flips.

    The dense and the sparse form differ by rounding only, so sets are chosen first and then
    verified. If the sparse GNN refutes a set, the next best is verified.
    """
    space = oracle.space
    # Because of rounding, the closest miss may be a flip of the sparse GNN.
    left = shortlist.flips(stopped=stopped) or oracle.misses(_CHECKED_MISSES)
    code_of = dict(zip(left, shortlist.codes(left), strict=True))
    kept: list[EditSet] = []
    while left and len(kept) < alternatives:
        best = choose(space, left, alternatives, count_unseen)
        flips = verified_flips(oracle, best)
        pruned = prune_verified(flips, oracle, stopped=stopped) if minimal else flips
        kept = choose(space, [*kept, *pruned], alternatives, count_unseen)
        # Symmetric sets get the same verdict.
        decided = {code_of[edits] for edits in best}
        left = [edits for edits in left if code_of[edits] not in decided]
    miss = None if kept else closest_miss(oracle, oracle.misses(_CHECKED_MISSES))
    return Selection(kept, miss)


def verified_flips(oracle: CounterfactualOracle, edit_sets: Sequence[EditSet]) -> list[EditSet]:
    """The sets that flip the sparse GNN."""
    margins = oracle.verified_margins(edit_sets)
    return [edits for edits, margin in zip(edit_sets, margins, strict=True) if margin > 0]


def closest_miss(oracle: CounterfactualOracle, misses: Sequence[EditSet]) -> EditSet | None:
    """The set nearest to a flip by the sparse GNN; None if the rules forbid all."""
    margins = oracle.verified_margins(misses)
    allowed = [
        (margin, edits) for margin, edits in zip(margins, misses, strict=True) if margin > FORBIDDEN
    ]
    return max(allowed, key=lambda miss: miss[0])[1] if allowed else None


def choose(
    space: BaseEditSpace,
    edit_sets: Sequence[EditSet],
    count: int,
    count_unseen: CountUnseen = nothing_unseen,
) -> list[EditSet]:
    """The best `count` sets: few edits first, then few unseen patterns, then a small shift.

    No chosen set contains another, and no symmetry of the graph maps one to another. Among sets of
    equal size, those that share the fewest edits with the chosen ones go first.
    """
    distinct = MinimalSets(edit_sets).kept
    shift = dict(zip(distinct, space.statistics_shift(distinct), strict=True))
    unseen = dict(zip(distinct, count_unseen(distinct), strict=True))
    distinct.sort(key=lambda edits: (len(edits), unseen[edits], shift[edits], edits))
    by_code: dict[int, EditSet] = {}
    for code, edits in zip(space.symmetry_codes(distinct), distinct, strict=True):
        by_code.setdefault(code, edits)
    left = list(by_code.values())
    chosen: list[EditSet] = []
    while left and len(chosen) < count:
        best = min(
            left,
            key=lambda edits: (
                len(edits),
                unseen[edits],
                max((_jaccard(edits, other) for other in chosen), default=0.0),
                shift[edits],
                edits,
            ),
        )
        left.remove(best)
        chosen.append(best)
    return sorted(chosen, key=lambda edits: (len(edits), unseen[edits], shift[edits], edits))


def _jaccard(one: EditSet, other: EditSet) -> float:
    """Jaccard similarity of two edit sets."""
    both = len(set(one) & set(other))
    return both / (len(one) + len(other) - both)
