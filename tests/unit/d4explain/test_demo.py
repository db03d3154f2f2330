"""The verdict of `d4explain demo`."""

from __future__ import annotations

import pytest

from d4explain.demo import Verification


@pytest.mark.parametrize(
    ("flipped", "contradicted", "passed"), [(20, 0, True), (19, 0, False), (24, 1, False)]
)
def test_the_demo_passes_only_if_enough_graphs_flip(
    flipped: int, contradicted: int, passed: bool
) -> None:
    assert Verification(graphs=25, flipped=flipped, contradicted=contradicted).passed is passed
