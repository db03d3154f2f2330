"""docs/gnns.md lists the vocabulary that the API takes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

from store.gnn_layers import LayerDocument
from store.gnn_spec import parse_spec
from store.gnn_tensors import expected_tensors

PAGE = (Path(__file__).parents[2] / "docs" / "gnns.md").read_text()


def documented() -> dict[str, str]:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    return dict(rows)


def test_every_layer_and_each_of_its_fields_is_documented_and_no_other() -> None:
    union, _ = get_args(LayerDocument)
    layers = {
        get_args(layer.model_fields["type"].annotation)[0]: layer for layer in get_args(union)
    }
    rows = documented()
    assert rows.keys() == layers.keys()
    for name, layer in layers.items():
        for field in layer.model_fields:
            assert field == "type" or f"`{field}`" in rows[name], f"{name}: {field}"


def test_the_example_is_a_spec_and_the_table_names_its_tensors() -> None:
    example = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert example
    spec = parse_spec(json.loads(example.group(1)))
    for tensor in expected_tensors(spec):
        assert f"`{tensor.split('.', 2)[2]}`" in PAGE
