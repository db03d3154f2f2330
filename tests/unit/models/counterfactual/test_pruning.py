"""Pruning against every subset of small edit sets, for monotone and other judges."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.counterfactual.margin_cache import MarginCache
from models.counterfactual.pruning import Margins, prune, without_one
from models.graphs.edits import LARGE_SET, EditSet
from models.graphs.minimal_sets import MinimalSets

edit_sets = st.frozensets(st.integers(0, 7), min_size=1).map(lambda edits: tuple(sorted(edits)))
# of single reverts in rounds, and by halves
ways = st.sampled_from([LARGE_SET, 3, 1])


def pruned_of(starts: Sequence[EditSet], margins: Margins, large: int = LARGE_SET) -> list[EditSet]:
    edits = list(starts)
    prune(edits, margins, large)
    return edits


@settings(max_examples=150, deadline=None)
@given(st.frozensets(edit_sets, max_size=40), edit_sets, ways)
def test_no_single_edit_of_a_pruned_set_can_be_reverted(
    flipping: frozenset[EditSet], start: EditSet, large: int
) -> None:
    # any oracle at all: which sets flip is drawn at random, margins follow no order
    flips = flipping | {start}

    def margins(tried: Sequence[EditSet]) -> list[float]:
        return [1.0 + hash(edits) % 7 if edits in flips else -1.0 for edits in tried]

    (pruned,) = pruned_of([start], margins, large)
    assert pruned in flips
    assert set(pruned) <= set(start)
    assert not any(shorter in flips for shorter in without_one(pruned))


@settings(max_examples=150, deadline=None)
@given(st.lists(edit_sets, min_size=1, max_size=6), edit_sets, ways)
def test_each_set_keeps_what_the_flip_needs_and_nothing_else(
    starts: list[EditSet], needed: EditSet, large: int
) -> None:
    def margins(tried: Sequence[EditSet]) -> list[float]:
        return [float(len(edits)) if set(needed) <= set(edits) else -1.0 for edits in tried]

    joined = [tuple(sorted({*start, *needed})) for start in starts]
    assert pruned_of(joined, margins, large) == [needed] * len(starts)


def test_many_unneeded_edits_are_reverted_in_few_calls() -> None:
    calls = []

    def margins(tried: Sequence[EditSet]) -> list[float]:
        calls.append(len(tried))
        return [1.0 if {3, 40} <= set(edits) else -1.0 for edits in tried]

    assert pruned_of([tuple(range(64))], margins) == [(3, 40)]
    assert len(calls) <= 4


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(1, 50), min_size=LARGE_SET + 1, max_size=3 * LARGE_SET),
    st.floats(0.0, 1.0),
)
def test_of_effects_that_add_up_a_large_set_keeps_as_few_as_can_be(
    effects: list[int], share: float
) -> None:
    surplus = int(share * (sum(effects) - 1)) + 1  # what may be lost is less
    missing = sum(effects) - surplus
    judged = 0

    def margins(tried: Sequence[EditSet]) -> list[float]:
        nonlocal judged
        judged += len(tried)
        return [float(sum(effects[edit] for edit in edits) - missing) for edits in tried]

    start = tuple(range(len(effects)))
    (pruned,) = pruned_of([start], margins)
    assert margins([pruned])[0] > 0
    assert all(margin <= 0 for margin in margins(without_one(pruned)))
    judged -= 1 + len(pruned)
    # the smallest effects are those of which most can be lost
    lost = sum(total < surplus for total in accumulate(sorted(effects)))
    if len(pruned) > LARGE_SET:
        assert len(pruned) == len(effects) - lost
        # one round to know the order, one that finds nothing more
        assert judged <= len(start) + len(pruned) + 50


def redundant(tried: Sequence[EditSet]) -> list[float]:
    """Of edits 2i and 2i + 1 one is needed."""
    halves = (len({edit // 2 for edit in edits}) for edits in tried)
    return [1.0 if count == 2 * LARGE_SET else -1.0 for count in halves]


def crossed(tried: Sequence[EditSet]) -> list[float]:
    """Not monotone: what flips depends on the remainder of a sum, and less may flip again."""
    return [
        float(len(edits)) if sum(edits) % 5 < 3 and len(edits) > LARGE_SET + 40 else -1.0
        for edits in tried
    ]


@pytest.mark.parametrize("margins", [redundant, crossed])
def test_large_sets_are_minimal_where_edits_depend_on_each_other(margins: Margins) -> None:
    start = tuple(range(4 * LARGE_SET))
    judged = 0

    def counted(tried: Sequence[EditSet]) -> list[float]:
        nonlocal judged
        judged += len(tried)
        assert len(tried) <= LARGE_SET  # not all single reverts at once
        return margins(tried)

    assert margins([start])[0] > 0
    (pruned,) = pruned_of([start], counted)
    assert len(pruned) < len(start)
    assert margins([pruned])[0] > 0
    assert all(margin <= 0 for margin in margins(without_one(pruned)))
    assert judged < 20 * len(start)


def test_what_was_reached_stays_when_the_judge_stops() -> None:
    class StopError(Exception):
        pass

    start, left = tuple(range(3 * LARGE_SET)), iter(range(60))

    def margins(tried: Sequence[EditSet]) -> list[float]:
        if next(left, None) is None:
            raise StopError
        return [float(len(edits) - 2 * LARGE_SET) for edits in tried]

    reached = [start, start]
    with pytest.raises(StopError):
        prune(reached, margins)
    first, second = map(len, reached)
    assert first == 2 * LARGE_SET + 1
    assert first < second < len(start)


def test_large_sets_that_were_tried_take_little_memory() -> None:
    tried = MarginCache()
    start = tuple(range(10**6, 10**6 + 4 * LARGE_SET))
    tracemalloc.start()
    try:
        for place, edits in enumerate(without_one(start)):
            tried.add_trial(edits, float(place))
        del edits
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 400 * len(start)  # bytes; as they are, they would take 8,192 each
    assert tried.known(without_one(start)) == {
        edits: float(place) for place, edits in enumerate(without_one(start))
    }
    assert tried.known([start, start[1:-1], start[:5]]) == {}
    assert tried.margins == {}
    assert tried.widest == len(start) - 1
    tried.add(start[1:], 7.0)
    tried.add_trial(start[:5], float("-inf"))
    assert tried.margins == {start[1:]: 7.0, start[:5]: float("-inf")}
    assert tried.known([start[1:]]) == {start[1:]: 7.0}


@settings(max_examples=50, deadline=None)
@given(st.lists(edit_sets))
def test_smallest_sets_are_those_that_contain_no_other(some: list[EditSet]) -> None:
    distinct = set(some)
    expected = {
        edits for edits in distinct if not any(set(other) < set(edits) for other in distinct)
    }
    smallest = MinimalSets(some)
    assert set(smallest.kept) == expected
    assert len(smallest.kept) == len(expected)
    assert all(smallest.covers(edits) for edits in distinct)


@settings(max_examples=50, deadline=None)
@given(st.lists(edit_sets), edit_sets)
def test_covering_is_containing(some: list[EditSet], asked: EditSet) -> None:
    covered = any(set(edits) <= set(asked) for edits in some)
    assert MinimalSets(some).covers(asked) == covered
