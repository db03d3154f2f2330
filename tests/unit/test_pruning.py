"""Pruning against every subset of small edit sets, for monotone and other judges."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from models.edits import EditSet, SmallestSets
from models.pruning import prune, without_one

edit_sets = st.frozensets(st.integers(0, 7), min_size=1).map(lambda edits: tuple(sorted(edits)))


@settings(max_examples=50, deadline=None)
@given(st.frozensets(edit_sets, max_size=40), edit_sets)
def test_no_single_edit_of_a_pruned_set_can_be_reverted(
    flipping: frozenset[EditSet], start: EditSet
) -> None:
    # any judge at all: which sets flip is drawn at random, margins follow no order
    flips = flipping | {start}

    def margins(tried: Sequence[EditSet]) -> list[float]:
        return [1.0 + hash(edits) % 7 if edits in flips else -1.0 for edits in tried]

    (pruned,) = prune([start], margins)
    assert pruned in flips
    assert set(pruned) <= set(start)
    assert not any(shorter in flips for shorter in without_one(pruned))


@settings(max_examples=50, deadline=None)
@given(st.lists(edit_sets, min_size=1, max_size=6), edit_sets)
def test_each_set_keeps_what_the_flip_needs_and_nothing_else(
    starts: list[EditSet], needed: EditSet
) -> None:
    def margins(tried: Sequence[EditSet]) -> list[float]:
        return [float(len(edits)) if set(needed) <= set(edits) else -1.0 for edits in tried]

    joined = [tuple(sorted({*start, *needed})) for start in starts]
    assert prune(joined, margins) == [needed] * len(starts)


def test_many_unneeded_edits_are_reverted_in_few_calls() -> None:
    calls = []

    def margins(tried: Sequence[EditSet]) -> list[float]:
        calls.append(len(tried))
        return [1.0 if {3, 40} <= set(edits) else -1.0 for edits in tried]

    assert prune([tuple(range(64))], margins) == [(3, 40)]
    assert len(calls) <= 4


@settings(max_examples=50, deadline=None)
@given(st.lists(edit_sets))
def test_smallest_sets_are_those_that_contain_no_other(some: list[EditSet]) -> None:
    distinct = set(some)
    expected = {
        edits for edits in distinct if not any(set(other) < set(edits) for other in distinct)
    }
    smallest = SmallestSets(some)
    assert set(smallest.kept) == expected
    assert len(smallest.kept) == len(expected)
    assert all(smallest.covers(edits) for edits in distinct)


@settings(max_examples=50, deadline=None)
@given(st.lists(edit_sets), edit_sets)
def test_covering_is_containing(some: list[EditSet], asked: EditSet) -> None:
    covered = any(set(edits) <= set(asked) for edits in some)
    assert SmallestSets(some).covers(asked) == covered
