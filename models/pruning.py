"""Reverting the edits that a flip does not need."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from models.edits import EditSet

Margins = Callable[[Sequence[EditSet]], list[float]]


def prune(edit_sets: Sequence[EditSet], margins: Margins) -> list[EditSet]:
    """Flipping sets, each reduced until no single edit can be reverted with the flip kept.

    Every round tries all single reverts of all sets in one call and takes, per set, the one that
    leaves the greatest margin. The result is minimal with respect to the `margins` given: dense
    ones are fast, only those of the sparse GNN are a promise.
    """
    pruned = list(edit_sets)
    # the empty set is the input itself and cannot flip, hence one edit is always needed
    open_positions = [position for position, edits in enumerate(pruned) if len(edits) > 1]
    while open_positions:
        reverted = {position: without_one(pruned[position]) for position in open_positions}
        tried = [edits for some in reverted.values() for edits in some]
        margin_of = dict(zip(tried, margins(tried), strict=True))
        still_open = []
        for position, some in reverted.items():
            best = max(some, key=lambda edits: (margin_of[edits], edits))
            if margin_of[best] > 0:
                pruned[position] = best
                if len(best) > 1:
                    still_open.append(position)
        open_positions = still_open
    return pruned


def without_one(edits: EditSet) -> list[EditSet]:
    return [edits[:position] + edits[position + 1 :] for position in range(len(edits))]
