"""Pruning: reverts the edits that a flip does not need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from models.counterfactual.oracle import CounterfactualOracle
from models.graphs.base_edit_space import LARGE_SET, EditSet

_REVERTS_PER_CALL = 64  # single reverts of a large set that are in memory together
_MAX_FAILURES = 8  # consecutive necessary edits before the margins are evaluated again

Margins = Callable[[Sequence[EditSet]], list[float]]


def prune(edit_sets: list[EditSet], margins: Margins, large: int = LARGE_SET) -> None:
    """Reduces flipping sets in place until every edit is necessary for the flip.

    If `margins` raises because the search is stopped, the sets stay as small as they are. The
    result is minimal with respect to `margins`: those of the dense GNN are fast, those of the
    sparse GNN decide. Sets of more than `large` edits (at least 1) are reduced by halving.
    """
    for position, edits in enumerate(edit_sets):
        for smaller in _halving(edits, margins, large):
            edit_sets[position] = smaller
    small = [position for position, edits in enumerate(edit_sets) if len(edits) <= large]
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
        edits: subset
        for edits, subset, margin in zip(candidates, pruned, margins, strict=True)
        if margin > 0
    }
    return [smaller.get(edits, edits) for edits in flips]


def _prune_together(pruned: list[EditSet], left: list[int], margins: Margins) -> None:
    """Prunes the sets at the positions `left`.

    A round tries all single reverts of all sets in one call. Then, per set, it tries to revert many
    unnecessary edits together: all, the half that leaves the largest margins, a quarter, ….
    """
    while left:
        # The empty set is the input and cannot flip, so one edit is always necessary.
        reverted = {
            position: without_one(pruned[position])
            for position in left
            if len(pruned[position]) > 1
        }
        margin_of = _margins_of(reverted.values(), margins)
        together: dict[int, list[EditSet]] = {}
        for position, singles in reverted.items():
            kept_flip = sorted(
                (edits for edits in singles if margin_of[edits] > 0),
                key=lambda edits: (-margin_of[edits], edits),
            )
            if kept_flip:
                together[position] = _without_many(pruned[position], kept_flip)
        margin_of |= _margins_of(together.values(), margins)
        for position, tried in together.items():
            pruned[position] = next(edits for edits in tried if margin_of[edits] > 0)
        left = list(together)


def _halving(edits: EditSet, margins: Margins, large: int) -> Iterator[EditSet]:
    """Yields smaller and smaller flips of a large set, until it is minimal or no longer large.

    The single reverts of n edits take n evaluations and memory for n² edits, so there are few
    rounds of them, in slices. Between two rounds it reverts unnecessary edits, those with the
    largest remaining margins first: all at once, half as many after a failure, twice as many after
    a success.
    """
    while len(edits) > large:
        unneeded = _unneeded(edits, margins)
        if not unneeded:
            return
        start, size, failures = 0, len(unneeded), 0
        while start < len(unneeded) and failures < _MAX_FAILURES:
            dropped = set(unneeded[start : start + size])
            rest = tuple(edit for edit in edits if edit not in dropped)
            if rest and margins([rest])[0] > 0:
                edits = rest
                yield edits
                start, failures = start + size, 0
                size = min(2 * size, len(unneeded) - start)
            elif size > 1:
                size //= 2
            else:
                start, failures = start + 1, failures + 1


def _unneeded(edits: EditSet, margins: Margins) -> list[int]:
    """Edits that can be reverted alone, those that leave the largest margin first."""
    remaining: list[float] = []  # margin without each edit
    for start in range(0, len(edits), _REVERTS_PER_CALL):
        positions = range(start, min(start + _REVERTS_PER_CALL, len(edits)))
        remaining += margins([_without(edits, position) for position in positions])
    order = sorted(range(len(edits)), key=lambda position: (-remaining[position], position))
    return [edits[position] for position in order if remaining[position] > 0]


def without_one(edits: EditSet) -> list[EditSet]:
    return [_without(edits, position) for position in range(len(edits))]


def _without(edits: EditSet, position: int) -> EditSet:
    return edits[:position] + edits[position + 1 :]


def _without_many(edits: EditSet, singles: Sequence[EditSet]) -> list[EditSet]:
    """The set without the edits of these single reverts: all of them, half, …, the first."""
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
