"""The places of a worker: every tenant and every group has a part of them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from worker.webhooks.places import PLACES, Places

GROUPS = st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["x", "y", "z"]))


FAILING = "z"


@given(st.lists(st.tuples(GROUPS, st.booleans()), max_size=80))
def test_no_tenant_and_no_group_exceeds_its_part(
    steps: list[tuple[tuple[str, str], bool]],
) -> None:
    places = Places()
    taken: Counter[tuple[str, str]] = Counter()
    for group, gives_back in steps:
        is_failing = group[1] == FAILING
        if gives_back and taken[group]:
            places.give_back(group)
            taken[group] -= 1
            continue
        full = places.full
        if places.take(group, is_failing):
            assert group[0] not in full.tenants
            assert group not in full.groups
            taken[group] += 1
            assert taken[group] <= (1 if is_failing else 4)
        of_tenant = sum(count for (tenant, _), count in taken.items() if tenant == group[0])
        assert of_tenant <= 8
        assert places.free == PLACES - taken.total() >= 0


def test_a_second_tenant_always_finds_a_place() -> None:
    places = Places()
    for group in "abcdef":
        for _ in range(9):
            places.take(("loud", group), False)
    assert places.free == 8
    assert places.take(("quiet", "a"), False)
