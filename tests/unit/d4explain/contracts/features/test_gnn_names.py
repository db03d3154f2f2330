"""Names of classes and node types in a spec."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d4explain.contracts.features.gnn_names import GnnNames, gnn_names

SCHEMA = {
    "features": [
        {"name": "charge"},
        {"name": "carbon", "group": "element"},
        {"name": "oxygen", "group": "element"},
    ]
}


def test_a_group_of_the_schema_is_the_type() -> None:
    names = gnn_names({"class_names": ["a", "b"], "feature_schema": SCHEMA})
    assert names.type_name([0.7, 0.0, 1.0]) == "oxygen"
    assert names.type_name([0.7, 1.0, 1.0]) is None
    assert [names.class_name(number) for number in (0, 1, 2)] == ["a", "b", None]


def test_a_featuriser_names_its_elements() -> None:
    featuriser = {"kind": "smiles", "atoms": ["C", "N"], "other": True}
    names = gnn_names({"featuriser": featuriser})
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert [names.type_name(row) for row in rows] == ["C", "N", "other"]


def test_a_spec_without_names_has_types_but_no_names() -> None:
    names = gnn_names({"features": 3, "classes": 2})
    assert names == GnnNames()
    assert (names.node_type([0.0, 1.0, 0.0]), names.type_name([0.0, 1.0, 0.0])) == (1, None)
    assert names.class_name(0) is None


@given(st.lists(st.sampled_from([0.0, 1.0, 0.5, -1.0]), max_size=6))
def test_only_one_hot_rows_have_a_type(row: list[float]) -> None:
    found = GnnNames().node_type(row)
    if len(row) > 1 and sorted(row) == [0.0] * (len(row) - 1) + [1.0]:
        assert found == row.index(1.0)
    else:
        assert found is None


@pytest.mark.parametrize("spec", [{}, {"feature_schema": None, "featuriser": None}])
def test_old_specs_have_no_names(spec: dict[str, Any]) -> None:
    assert gnn_names(spec) == GnnNames()
