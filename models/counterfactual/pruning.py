"""Reverting the edits that a flip does not need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from models.counterfactual.oracle import CounterfactualOracle
from models.graphs.base_edit_space import LARGE_SET, EditSet

_AT_ONCE = 64  # single reverts of a large set that exist at the same time
_PATIENCE = 8  # needed edits in a row after which the margins are asked for anew

Margins = Callable[[Sequence[EditSet]], list[float]]


def prune(edit_sets: list[EditSet], margins: Margins, large: int = LARGE_SET) -> None:
    """Reduces flipping sets in place, until no single edit can be reverted with the flip kept.

    Where the margins raise, as when the search is stopped, what was reached stays. The result is
    minimal with respect to the `margins` given: dense ones are fast, only those of the sparse GNN
    are a promise. Sets of more edits than `large` (1 at least) are reduced by halves.
    """
    for place, edits in enumerate(edit_sets):
        for smaller in _halving(edits, margins, large):
            edit_sets[place] = smaller
    small = [place for place, edits in enumerate(edit_sets) if len(edits) <= large]
    _prune_together(edit_sets, small, margins)


def prune_verified(
    flips: Sequence[EditSet], oracle: CounterfactualOracle, *, stopped: bool
) -> list[EditSet]:
    """Each flip without unnecessary edits, if the sparse GNN confirms the smaller set.

    Once stopped, large sets stay as they are: pruning one takes longer than everything else.
    """
    candidates = [edits for edits in flips if len(edits) <= LARGE_SET or not stopped]
    pruned = list(candidates)
    prune(pruned, oracle.sure_margins)
    margins = oracle.verified_margins(pruned)
    smaller = {
        edits: less
        for edits, less, margin in zip(candidates, pruned, margins, strict=True)
        if margin > 0
    }
    return [smaller.get(edits, edits) for edits in flips]


def _prune_together(pruned: list[EditSet], left: list[int], margins: Margins) -> None:
    """Of the sets at these places.

    A round tries all single reverts of all sets in one call, and then, per set, to revert many of
    the unneeded edits together: all of them, the half whose loss leaves the greatest margins, a
    quarter, ….
    """
    while left:
        # the empty set is the input itself and cannot flip, hence one edit is always needed
        reverted = {place: without_one(pruned[place]) for place in left if len(pruned[place]) > 1}
        margin_of = _margins_of(reverted.values(), margins)
        together: dict[int, list[EditSet]] = {}
        for place, singles in reverted.items():
            kept_flip = sorted(
                (edits for edits in singles if margin_of[edits] > 0),
                key=lambda edits: (-margin_of[edits], edits),
            )
            if kept_flip:
                together[place] = _without_many(pruned[place], kept_flip)
        margin_of |= _margins_of(together.values(), margins)
        for place, tried in together.items():
            pruned[place] = next(edits for edits in tried if margin_of[edits] > 0)
        left = list(together)


def _halving(edits: EditSet, margins: Margins, large: int) -> Iterator[EditSet]:
    """Smaller and smaller flips of a large set, until it is minimal or no longer large.

    Single reverts of a set of n edits take n verdicts and are n² edits, hence few rounds of them,
    a slice at a time. Between two rounds the unneeded edits are reverted in the order of the
    margins that they leave: all at once, of what is needed together one half, a quarter, …, and
    where that worked twice as many again.
    """
    while len(edits) > large:
        unneeded = _unneeded(edits, margins)
        if not unneeded:
            return
        start, size, needed = 0, len(unneeded), 0
        while start < len(unneeded) and needed < _PATIENCE:
            dropped = set(unneeded[start : start + size])
            rest = tuple(edit for edit in edits if edit not in dropped)
            if rest and margins([rest])[0] > 0:
                edits = rest
                yield edits
                start, needed = start + size, 0
                size = min(2 * size, len(unneeded) - start)
            elif size > 1:
                size //= 2
            else:
                start, needed = start + 1, needed + 1


def _unneeded(edits: EditSet, margins: Margins) -> list[int]:
    """Edits that can be reverted one by one, those whose loss leaves the greatest margin first."""
    left: list[float] = []
    for start in range(0, len(edits), _AT_ONCE):
        places = range(start, min(start + _AT_ONCE, len(edits)))
        left += margins([_without(edits, place) for place in places])
    order = sorted(range(len(edits)), key=lambda place: (-left[place], place))
    return [edits[place] for place in order if left[place] > 0]


def without_one(edits: EditSet) -> list[EditSet]:
    return [_without(edits, place) for place in range(len(edits))]


def _without(edits: EditSet, place: int) -> EditSet:
    return edits[:place] + edits[place + 1 :]


def _without_many(edits: EditSet, singles: Sequence[EditSet]) -> list[EditSet]:
    """The set without the edits that these single reverts leave out: all, half, …, the first."""
    members = set(edits)
    unneeded = [members.difference(single).pop() for single in singles]
    count = len(unneeded)
    result = []
    while count > 1:
        rest = members.difference(unneeded[:count])
        if rest:
            result.append(tuple(sorted(rest)))
        count //= 2
    return [*result, singles[0]]


def _margins_of(groups: Iterable[Sequence[EditSet]], margins: Margins) -> dict[EditSet, float]:
    tried = list(dict.fromkeys(edits for group in groups for edits in group))
    return dict(zip(tried, margins(tried), strict=True))
