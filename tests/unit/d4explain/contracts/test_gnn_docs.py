"""docs/gnns.md lists the vocabulary that the API takes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

from d4explain.contracts.gnn_files.gnn_tensors import expected_tensors
from d4explain.contracts.gnn_layers import LayerDocument
from d4explain.contracts.gnn_spec import parse_spec
from d4explain.contracts.vocabulary.spec_model import LayerModel
from worker.loading.reference_sampling import REFERENCE_NODES

PAGE = (Path(__file__).parents[4] / "docs" / "gnns.md").read_text()


def documented() -> dict[str, str]:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    return dict(rows)


def test_exactly_the_existing_layers_and_fields_are_documented() -> None:
    union, _ = get_args(LayerDocument)
    layers = {
        get_args(layer.model_fields["type"].annotation)[0]: layer for layer in get_args(union)
    }
    rows = documented()
    assert rows.keys() == layers.keys()
    for name, layer in layers.items():
        for field in layer.model_fields.keys() - LayerModel.model_fields.keys():
            assert field == "type" or f"`{field}`" in rows[name], f"{name}: {field}"
    for field in LayerModel.model_fields:
        assert f"`{field}`" in PAGE


def test_the_examples_are_specs_and_the_table_names_their_tensors() -> None:
    examples = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    specs = [parse_spec(json.loads(example)) for example in examples]
    assert [spec.task for spec in specs] == ["graph", "graph", "node"]
    for spec in specs:
        for tensor in expected_tensors(spec):
            assert f"`{tensor.split('.', 2)[2]}`" in PAGE


def test_the_number_of_reference_nodes_is_documented() -> None:
    assert f"of {REFERENCE_NODES:,} drawn with a fixed seed" in PAGE
