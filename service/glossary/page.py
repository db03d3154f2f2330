"""Writes docs/glossary.md from the OpenAPI document: `python -m service.glossary.page`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from service.app import create_app
from service.glossary.field_texts import REGISTRATION, Json, objects
from store.settings import Settings
from store.store import Store

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"
_INTRODUCTION = """# Glossary

Every field of the API, as `GET /docs` describes it. `python -m service.glossary.page` writes this
page from the OpenAPI document. The first table explains the words; the others list the fields of
each object.

| word | meaning |
|---|---|
| GNN | your trained classifier, which the service explains |
| reference set, `dataset` | graphs like those that the GNN was trained on |
| counterfactual | an edited graph to which the GNN gives another class |
| edit | one added or removed edge |
| modification ratio | number of edits divided by the number of edges of the original |
| class explanation | patterns that recur in a class, are rare elsewhere and move the GNN to it |
| global counterfactuals | few graphs of another class that are near to many graphs of a class |
| coverage | share of the graphs of a class that few edits turn into one of some graphs |
| denoiser | the diffusion network that proposes edits, trained once per GNN and reference set |
| witness | a small GNN that the service trains beside yours on the same reference set |
| judge | a witness or a GNN that you name; it takes no part in the search and judges the flip |
| verdict | what the judges say about an answer: meaningful, brittle or unjudged |
| MMD | maximum mean discrepancy: a distance between two sets of graphs |
| job, attempt | one unit of work, and one try of it by one worker |
| probe | the checks that a GNN passes before it can be explained |
| receipt | everything needed to check and repeat an explanation |
"""


def openapi_document() -> Json:
    """The document of an API with default settings."""
    with TemporaryDirectory() as folder, Store.open(Settings(data_dir=Path(folder))) as store:
        document: Json = create_app(store).openapi()
    return document


def glossary(document: Json) -> str:
    schemas = document["components"]["schemas"]
    parts = [_INTRODUCTION]
    for name, properties in objects(document):
        schema = schemas.get(name, {})
        title = "Form of `POST /v1/gnns`" if name == REGISTRATION else f"`{name}`"
        text = _one_line(schema.get("description", ""))
        required = set(schema.get("required", ()))
        rows = [
            f"| `{field}` | {_type(value)}{'' if field in required else ', optional'} "
            f"| {_cell(value.get('description', ''))} |"
            for field, value in properties.items()
        ]
        table = "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])
        parts.append(f"## {title}\n\n{text}\n\n{table}\n" if text else f"## {title}\n\n{table}\n")
    return "\n".join(parts)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _one_line(text).replace("|", "\\|")


def _type(schema: Json) -> str:
    """The JSON type, the allowed values and the range, as the schema states them."""
    named = [part for part in _type_names(schema) if part]
    return _cell(" or ".join(dict.fromkeys(named)) or "any")


def _type_names(schema: Json) -> Iterator[str]:
    if "$ref" in schema:
        yield f"`{schema['$ref'].rpartition('/')[2]}`"
    elif "const" in schema:
        yield f"`{json.dumps(schema['const'])}`"
    elif "enum" in schema:
        yield " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    elif "anyOf" in schema or "oneOf" in schema:
        for option in schema.get("anyOf") or schema["oneOf"]:
            yield from _type_names(option)
    elif schema.get("type") == "array":
        yield f"list of {' or '.join(_unique(_type_names(schema.get('items', {})))) or 'any'}"
    elif "type" in schema:
        yield f"{schema['type']}{_range(schema)}"


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _range(schema: Json) -> str:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None and high is None:
        return ""
    above = "above " if "exclusiveMinimum" in schema else ""
    below = "below " if "exclusiveMaximum" in schema else ""
    if high is None:
        return f" from {above}{low:,}"
    return f" {above}{low:,} to {below}{high:,}" if low is not None else f" to {below}{high:,}"


if __name__ == "__main__":
    PAGE.write_text(glossary(openapi_document()), encoding="utf-8")
