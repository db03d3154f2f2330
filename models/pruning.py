"""Reverting the edits that a flip does not need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from models.edits import EditSet

Margins = Callable[[Sequence[EditSet]], list[float]]


def prune(edit_sets: Sequence[EditSet], margins: Margins) -> list[EditSet]:
    """Flipping sets, each reduced until no single edit can be reverted with the flip kept.

    A round tries all single reverts of all sets in one call, and then, per set, to revert many of
    the unneeded edits together: all of them, the half whose loss leaves the greatest margins, a
    quarter, …. The result is minimal with respect to the `margins` given: dense ones are fast,
    only those of the sparse GNN are a promise.
    """
    pruned = list(edit_sets)
    left = list(range(len(pruned)))
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
    return pruned


def without_one(edits: EditSet) -> list[EditSet]:
    return [edits[:position] + edits[position + 1 :] for position in range(len(edits))]


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
