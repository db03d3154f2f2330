"""Classes on the command line: a name comes before a number."""

from __future__ import annotations

import pytest

from d4explain.cli.input.class_names import class_reference


@pytest.mark.parametrize(
    ("text", "names", "reference"),
    [
        ("1", None, 1),
        ("1", ["ring", "open"], 1),
        ("1", ["1", "2"], "1"),  # the class that tables show as 1; its number is 0
        ("0", ["1", "2"], 0),
        ("ring", ["ring", "open"], "ring"),
        ("-1", None, "-1"),  # the API says which names there are
    ],
)
def test_a_class_is_given_by_name_or_else_by_number(
    text: str, names: list[str] | None, reference: int | str
) -> None:
    assert class_reference(text, names) == reference
