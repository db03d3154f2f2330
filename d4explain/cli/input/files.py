"""Files that commands read and write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from d4explain.errors import CommandError


def require_file(path: Path) -> Path:
    if not path.is_file():
        raise CommandError(f"no such file: {path}")
    return path


def require_folder_of(path: Path | None) -> None:
    """Refuse a file that cannot be written, before any work is done for it."""
    if path is not None and not path.resolve().parent.is_dir():
        raise CommandError(f"{path} cannot be written: there is no folder {path.parent}")
    if path is not None and path.is_dir():
        raise CommandError(f"{path} cannot be written: it is a folder")


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from error


def read_text(path: Path) -> str:
    try:
        return read_file(path).decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 text") from error


def write_file(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error


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
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise CommandError(f"{path} is not JSON: {error}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it contains {name}; numbers must be finite")


def read_object(path: Path) -> dict[str, Any]:
    document = read_json(path)
    if not isinstance(document, dict):
        raise CommandError(f"{path} is not a JSON object")
    return document


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


def read_graphs(path: Path | None, smiles: list[str] | None = None) -> list[dict[str, Any]]:
    """The graphs of a file, and molecules given as SMILES."""
    graphs = [] if path is None else graphs_in(read_json(path), path)
    return graphs + [{"smiles": text} for text in smiles or []]
