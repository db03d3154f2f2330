"""Adds the texts of `field_texts.toml` to an OpenAPI document."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

Json = dict[str, Any]
REGISTRATION = "Registration"  # the form of POST /v1/gnns, which is no model

_FILE = Path(__file__).with_name("field_texts.toml")
_COMMON, _PARAMETERS = "common", "parameters"


@cache
def field_texts() -> dict[str, dict[str, str]]:
    """Texts by object and field."""
    texts: dict[str, dict[str, str]] = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return texts


def objects(document: Json) -> Iterator[tuple[str, Json]]:
    """Every object of the API with its properties, by name."""
    for name, schema in sorted(document["components"]["schemas"].items()):
        if "properties" in schema:
            yield name, schema["properties"]
    for operation in _operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            if "properties" in content.get("schema", {}):
                yield REGISTRATION, content["schema"]["properties"]


def parameters(document: Json) -> Iterator[Json]:
    """All parameters of paths, queries and headers."""
    for operation in _operations(document):
        yield from operation.get("parameters", ())


def _operations(document: Json) -> Iterator[Json]:
    for methods in document["paths"].values():
        yield from methods.values()


def add_field_texts(document: Json) -> None:
    """Describes every property and parameter that has no description of its own."""
    texts = field_texts()
    for name, properties in objects(document):
        for field, schema in properties.items():
            text = texts.get(name, {}).get(field) or texts[_COMMON].get(field)
            if text is not None:
                schema.setdefault("description", text)
    for parameter in parameters(document):
        text = texts[_PARAMETERS].get(parameter["name"])
        if text is not None:
            parameter.setdefault("description", text)
