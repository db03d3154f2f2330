"""Intervals of shares agree with SciPy's, and slices cover each instance once per kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from d4explain.contracts.evaluations.rows import EvaluationRow
from service import examples
from service.reports.audit.slices import SliceCounts, wilson


@given(count=st.integers(1, 5000), share=st.floats(0, 1))
def test_the_interval_is_wilsons(count: int, share: float) -> None:
    successes = round(share * count)
    expected = binomtest(successes, count).proportion_ci(method="wilson")
    assert wilson(successes, count) == pytest.approx((expected.low, expected.high), abs=1e-8)


def row(**changes: Any) -> EvaluationRow:
    return EvaluationRow.model_validate({**examples.ROWS["items"][0], **changes})


def test_each_instance_is_in_one_class_and_one_size() -> None:
    sizes = [3, 4, 5, 6, 7, 8, 8, 8, 9]
    counts = SliceCounts(np.array(sizes), {0: "cycle", 1: "house"})
    for instance, size in enumerate(sizes):
        for explainer in ("search", "greedy"):
            counts.add(
                row(instance=instance, edge_count=size, predicted_class=instance % 2,
                    explainer=explainer, label=None if instance == 0 else 1)
            )  # fmt: skip
    shares = {(s.figure, s.explainer, s.slice): s for s in counts.shares()}
    validity = [
        s for (figure, name, _), s in shares.items() if (figure, name) == ("validity", "search")
    ]
    assert sum(share.count for share in validity) == 2 * len(sizes)
    assert shares["accuracy", None, "predicted “house”"].count == 4
    assert shares["accuracy", None, "predicted “cycle”"].successes == 0
    assert counts.labels == {1: 8}
    assert list(counts.slices()) == [
        "predicted “cycle”",
        "predicted “house”",
        "graphs with at most 5 edges",
        "graphs with 6 to 8 edges",
        "graphs with more than 8 edges",
    ]


def test_unjudged_changes_are_in_no_brittle_share() -> None:
    counts = SliceCounts(np.array([26]), {1: "house"})
    counts.add(row(verdict="unjudged"))
    assert "brittle_share" not in {share.figure for share in counts.shares()}
    assert [share.count for share in counts.shares() if share.figure == "validity"] == [1, 1]
