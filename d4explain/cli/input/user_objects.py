"""Loads models and sample graphs of the user, given as MODULE:OBJECT."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from d4explain.cli.input.files import graphs_in, read_json
from d4explain.errors import CommandError


def is_python_object(text: str) -> bool:
    """Whether a text is MODULE:OBJECT and not a file."""
    return ":" in text and not Path(text).exists()


@contextmanager
def user_code() -> Iterator[None]:
    """What the user's code prints goes to stderr: stdout is for the result of the command."""
    with redirect_stdout(sys.stderr):
        yield


def load_model(text: str) -> Any:
    """A model, or what a function without arguments returns."""
    return _model(text, *_import(text))


def load_model_and_graphs(model: str, graphs: str) -> tuple[Any, Any]:
    """The model and its sample graphs: those of a JSON file, or PyG graphs as MODULE:OBJECT."""
    if not is_python_object(graphs):
        documents = graphs_in(read_json(Path(graphs)), Path(graphs))
        return load_model(model), documents
    imported_model, imported_graphs = _import(model, graphs)
    return _model(model, imported_model), _samples(graphs, imported_graphs)


def _samples(text: str, imported: object) -> Any:
    """Graphs, or what a function without arguments returns; PyG's graphs are callable, too."""
    is_graph = hasattr(imported, "edge_index") or hasattr(imported, "to_data_list")
    return _called(text, imported) if callable(imported) and not is_graph else imported


def _called(text: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        raise CommandError(f"{text}() failed: {type(error).__name__}: {error}") from error


def _import(*texts: str) -> list[object]:
    # Reporting an error needs the client, and the file's folder is soon first on sys.path.
    import d4explain.client.errors  # noqa: F401, PLC0415

    try:
        # Importing torch takes seconds, and the base install does not have it.
        from d4explain.export.import_object import import_objects  # noqa: PLC0415
    except ModuleNotFoundError as error:
        hint = "pip install 'd4explain[export]'"
        raise CommandError(f"export needs {error.name}, which is not installed", hint) from error
    return import_objects(*texts)


def _model(text: str, imported: object) -> Any:
    from torch import nn  # noqa: PLC0415 - see _import

    loaded = imported
    if not isinstance(loaded, nn.Module) and callable(loaded):
        loaded = _called(text, loaded)
    if not isinstance(loaded, nn.Module):
        raise CommandError(f"{text} is a {type(loaded).__name__}, not a torch.nn.Module")
    return loaded


def split_names(text: str | None) -> list[str] | None:
    """Names separated by commas."""
    return [name.strip() for name in text.split(",")] if text else None
