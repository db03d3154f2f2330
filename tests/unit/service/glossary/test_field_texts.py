"""Every field of the API has a line of text, every text has a field, and the page shows them."""

from __future__ import annotations

from typing import Any

import pytest

from service.glossary.field_texts import add_field_texts, field_texts, objects, parameters
from service.glossary.page import PAGE, glossary, openapi_document


@pytest.fixture(scope="module")
def document() -> Any:
    return openapi_document()


def test_every_property_has_one_line_of_description(document: Any) -> None:
    described = {
        f"{name}.{field}": schema.get("description")
        for name, properties in objects(document)
        for field, schema in properties.items()
    }
    assert len(described) > 500
    assert {field for field, text in described.items() if not text} == set()
    assert {field for field, text in described.items() if "\n" in text or text[-1] != "."} == set()


def test_every_parameter_has_a_description(document: Any) -> None:
    described = {one["name"]: one.get("description") for one in parameters(document)}
    assert {"gnn_id", "cursor", "Prefer"} < set(described)
    assert {name for name, text in described.items() if not text} == set()


def test_no_text_is_left_over(document: Any) -> None:
    """A text whose field is gone, or has a description in the code, would mislead its readers."""
    shown = {
        (name, field): schema["description"]
        for name, properties in objects(document)
        for field, schema in properties.items()
    }
    texts = dict(field_texts())
    common, of_parameters = texts.pop("common"), texts.pop("parameters")
    unused = {
        f"{name}.{field}"
        for name, fields in texts.items()
        for field, text in fields.items()
        if shown.get((name, field)) != text
    }
    unused |= {f"common.{field}" for field, text in common.items() if text not in shown.values()}
    in_use = {one["description"] for one in parameters(document)}
    unused |= {f"parameters.{name}" for name, text in of_parameters.items() if text not in in_use}
    assert unused == set()


def test_a_description_in_the_code_wins() -> None:
    fields = {"seed": {"description": "My own."}, "id": {}, "unheard_of": {}}
    document = {"components": {"schemas": {"Thing": {"properties": fields}}}, "paths": {}}
    add_field_texts(document)
    assert fields["seed"]["description"] == "My own."
    assert fields["id"]["description"].startswith("Unique id")
    assert "description" not in fields["unheard_of"]


def test_the_page_is_up_to_date(document: Any) -> None:
    assert PAGE.read_text(encoding="utf-8") == glossary(document), (
        "write it again: python -m service.glossary.page"
    )
