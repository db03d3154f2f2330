"""Pruning, compared with all subsets of small edit sets, for monotone and other margins."""

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
# Limits above which sets are pruned by halving instead of in rounds of single reverts.
large_limits = st.sampled_from([LARGE_SET, 3, 1])


def pruned_of(starts: Sequence[EditSet], margins: Margins, large: int = LARGE_SET) -> list[EditSet]:
    edits = list(starts)
    prune(edits, margins, large)
    return edits


@settings(max_examples=150, deadline=None)
@given(st.frozensets(edit_sets, max_size=40), edit_sets, large_limits)
def test_no_single_edit_of_a_pruned_set_can_be_reverted(
    flipping: frozenset[EditSet], start: EditSet, large: int
) -> None:
    # A random set of flips, with margins in no order.
    flips = flipping | {start}

    def margins(tried: Sequence[EditSet]) -> list[float]:
        return [1.0 + hash(edits) % 7 if edits in flips else -1.0 for edits in tried]

    (pruned,) = pruned_of([start], margins, large)
    assert pruned in flips
    assert set(pruned) <= set(start)
    assert not any(shorter in flips for shorter in without_one(pruned))


@settings(max_examples=150, deadline=None)
@given(st.lists(edit_sets, min_size=1, max_size=6), edit_sets, large_limits)
def test_each_set_keeps_only_the_necessary_edits(
    starts: list[EditSet], needed: EditSet, large: int
) -> None:
    def margins(tried: Sequence[EditSet]) -> list[float]:
        return [float(len(edits)) if set(needed) <= set(edits) else -1.0 for edits in tried]

    joined = [tuple(sorted({*start, *needed})) for start in starts]
    assert pruned_of(joined, margins, large) == [needed] * len(starts)


def test_many_unnecessary_edits_are_reverted_in_few_calls() -> None:
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
def test_a_large_set_with_additive_effects_keeps_the_fewest_edits(
    effects: list[int], share: float
) -> None:
    surplus = int(share * (sum(effects) - 1)) + 1  # removable effects sum to less
    threshold = sum(effects) - surplus
    evaluated = 0

    def margins(tried: Sequence[EditSet]) -> list[float]:
        nonlocal evaluated
        evaluated += len(tried)
        return [float(sum(effects[edit] for edit in edits) - threshold) for edits in tried]

    start = tuple(range(len(effects)))
    (pruned,) = pruned_of([start], margins)
    assert margins([pruned])[0] > 0
    assert all(margin <= 0 for margin in margins(without_one(pruned)))
    evaluated -= 1 + len(pruned)
    # Most edits can be removed if those with the smallest effects go first.
    removable = sum(total < surplus for total in accumulate(sorted(effects)))
    if len(pruned) > LARGE_SET:
        assert len(pruned) == len(effects) - removable
        # One round gives the order, and a last one shows that the set is minimal.
        assert evaluated <= len(start) + len(pruned) + 50


def redundant(tried: Sequence[EditSet]) -> list[float]:
    """Needs one of the edits 2i and 2i + 1, for every i."""
    counts = (len({edit // 2 for edit in edits}) for edits in tried)
    return [1.0 if count == 2 * LARGE_SET else -1.0 for count in counts]


def not_monotone(tried: Sequence[EditSet]) -> list[float]:
    """Not monotone: flips depend on the remainder of a sum, so a subset may flip again."""
    return [
        float(len(edits)) if sum(edits) % 5 < 3 and len(edits) > LARGE_SET + 40 else -1.0
        for edits in tried
    ]


@pytest.mark.parametrize("margins", [redundant, not_monotone])
def test_large_sets_of_dependent_edits_are_pruned_to_minimal_sets(margins: Margins) -> None:
    start = tuple(range(4 * LARGE_SET))
    evaluated = 0

    def counting_margins(tried: Sequence[EditSet]) -> list[float]:
        nonlocal evaluated
        evaluated += len(tried)
        assert len(tried) <= LARGE_SET  # not all single reverts at once
        return margins(tried)

    assert margins([start])[0] > 0
    (pruned,) = pruned_of([start], counting_margins)
    assert len(pruned) < len(start)
    assert margins([pruned])[0] > 0
    assert all(margin <= 0 for margin in margins(without_one(pruned)))
    assert evaluated < 20 * len(start)


def test_pruned_sets_stay_pruned_if_the_search_is_stopped() -> None:
    class StopError(Exception):
        pass

    start, calls = tuple(range(3 * LARGE_SET)), iter(range(60))

    def margins(tried: Sequence[EditSet]) -> list[float]:
        if next(calls, None) is None:
            raise StopError
        return [float(len(edits) - 2 * LARGE_SET) for edits in tried]

    edits = [start, start]
    with pytest.raises(StopError):
        prune(edits, margins)
    first, second = map(len, edits)
    assert first == 2 * LARGE_SET + 1
    assert first < second < len(start)


def test_cached_large_sets_take_little_memory() -> None:
    cache = MarginCache()
    start = tuple(range(10**6, 10**6 + 4 * LARGE_SET))
    tracemalloc.start()
    try:
        for position, edits in enumerate(without_one(start)):
            cache.add_trial(edits, float(position))
        del edits
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 400 * len(start)  # bytes; as tuples they would take 8,192 each
    assert cache.known(without_one(start)) == {
        edits: float(position) for position, edits in enumerate(without_one(start))
    }
    assert cache.known([start, start[1:-1], start[:5]]) == {}
    assert cache.margins == {}
    assert cache.widest == len(start) - 1
    cache.add(start[1:], 7.0)
    cache.add_trial(start[:5], float("-inf"))
    assert cache.margins == {start[1:]: 7.0, start[:5]: float("-inf")}
    assert cache.known([start[1:]]) == {start[1:]: 7.0}


@settings(max_examples=50, deadline=None)
@given(st.lists(edit_sets))
def test_minimal_sets_contain_no_other_set(sets: list[EditSet]) -> None:
    distinct = set(sets)
    expected = {
        edits for edits in distinct if not any(set(other) < set(edits) for other in distinct)
    }
    minimal = MinimalSets(sets)
    assert set(minimal.kept) == expected
    assert len(minimal.kept) == len(expected)
    assert all(minimal.covers(edits) for edits in distinct)


@settings(max_examples=50, deadline=None)
@given(st.lists(edit_sets), edit_sets)
def test_a_set_is_covered_if_it_contains_another(sets: list[EditSet], edits: EditSet) -> None:
    covered = any(set(other) <= set(edits) for other in sets)
    assert MinimalSets(sets).covers(edits) == covered
