from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.contracts.features.feature_schema import (
    EmbeddedColumn,
    FeatureSchemaDocument,
    broken_rows,
    column_rules,
    groups_of,
)

GROUPS = ("atom", "charge", None)


def test_a_group_has_all_columns_with_its_name() -> None:
    listed = [("C", "atom"), ("+", "charge"), ("mass", None), ("N", "atom"), ("-", "charge")]
    features = [{"name": name, "group": group} for name, group in listed]
    schema = FeatureSchemaDocument.model_validate({"features": features})
    assert {group.name: group.columns for group in groups_of(schema)} == {
        "atom": (0, 3),
        "charge": (1, 4),
    }
    assert groups_of(None) == ()


@settings(deadline=None)
@given(st.data())
def test_a_row_is_broken_unless_every_group_has_exactly_one_1(data: st.DataObject) -> None:
    width = data.draw(st.integers(2, 6))
    of = data.draw(st.lists(st.sampled_from(GROUPS), min_size=width, max_size=width))
    features = [{"name": str(i), "group": group} for i, group in enumerate(of)]
    value = st.sampled_from([0.0, 1.0, 0.5, -1.0, 2.0])
    rows = data.draw(st.lists(st.lists(value, min_size=width, max_size=width), min_size=1))
    groups = groups_of(FeatureSchemaDocument.model_validate({"features": features}))

    expected = {
        i
        for i, row in enumerate(rows)
        for group in {name for name in of if name is not None}
        if sorted(row[j] for j in range(width) if of[j] == group)
        != [0.0] * (of.count(group) - 1) + [1.0]
    }
    found = list(broken_rows(np.array(rows), groups))
    assert {broken.row for broken in found} == expected
    assert all("one-hot group" in broken.detail for broken in found)


def test_embedded_columns_hold_whole_numbers_below_the_count() -> None:
    layers = [
        {"type": "embedding", "count": 3, "out": 4, "inputs": ["x"], "column": 1},
        {"type": "embedding", "count": 3, "out": 8, "inputs": ["x"], "column": 1},
        {"type": "embedding", "count": 2, "out": 8, "inputs": ["edge_attr"]},
    ]
    rules = column_rules({"layers": layers})
    assert rules == (EmbeddedColumn(1, 3),)
    x = np.array([[9.5, 0], [9.5, 2], [9.5, 3], [9.5, -1], [9.5, 0.5], [9.5, np.nan]])
    found = {broken.row: broken.detail for broken in broken_rows(x, rules)}
    assert found.keys() == {2, 3, 4, 5}
    assert found[2].startswith("column 1 must hold whole numbers from 0 to 2")
    assert found[2].endswith("it has 3")
