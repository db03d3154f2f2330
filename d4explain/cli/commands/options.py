"""Options and input files that several commands share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from d4explain.errors import CommandError

Url = Annotated[
    str | None,
    typer.Option(
        help="Address of the API; default: D4_URL, then the running stack of the data folder."
    ),
]


def require_file(path: Path) -> Path:
    if not path.is_file():
        raise CommandError(f"no such file: {path}")
    return path


def read_json(path: Path) -> Any:
    """Parse a JSON file, or stdin if the path is `-`."""
    try:
        text = (
            typer.get_text_stream("stdin").read() if str(path) == "-" else path.read_text("utf-8")
        )
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CommandError(f"{path} cannot be read: {reason}") from error
    try:
        return json.loads(text)
    except ValueError as error:
        raise CommandError(f"{path} is not JSON: {error}") from error


def graphs_in(document: Any, path: Path) -> list[dict[str, Any]]:
    """The graphs in a document: one graph, a list, {graph: …} or {graphs: […]}."""
    if isinstance(document, dict) and not {"nodes", "edge_index"} & document.keys():
        document = document.get("graphs", document.get("graph", document))
    graphs = document if isinstance(document, list) else [document]
    if not graphs or not all(isinstance(item, dict) for item in graphs):
        raise CommandError(
            f"{path} contains no graph", hint="a graph is node-link JSON, a PyG dict or SMILES"
        )
    return graphs


def parse_tags(texts: Sequence[str]) -> dict[str, str]:
    """Parse KEY=VALUE texts."""
    tags = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise CommandError(f"{text!r} is not KEY=VALUE")
        tags[key] = value
    return tags
