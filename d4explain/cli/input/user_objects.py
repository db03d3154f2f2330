"""Loads models and sample graphs of the user, given as MODULE:OBJECT."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from d4explain.cli.input.files import graphs_in, read_json
from d4explain.errors import CommandError

if TYPE_CHECKING:
    from torch import nn


def is_python_object(text: str) -> bool:
    """Whether a text is MODULE:OBJECT and not a file."""
    return ":" in text and not Path(text).exists()


def load_model(text: str) -> nn.Module:
    """A model, or what a function without arguments returns."""
    loaded = _import(text)
    from torch import nn  # noqa: PLC0415 - see _import

    if not isinstance(loaded, nn.Module) and callable(loaded):
        loaded = loaded()
    if not isinstance(loaded, nn.Module):
        raise CommandError(f"{text} is a {type(loaded).__name__}, not a torch.nn.Module")
    return loaded


def load_graphs(text: str) -> Any:
    """Graphs of a JSON file, or a Python object, such as a list of PyG Data."""
    if not is_python_object(text):
        return graphs_in(read_json(Path(text)), Path(text))
    loaded = _import(text)
    return loaded() if callable(loaded) else loaded


def _import(text: str) -> object:
    try:
        # Importing torch takes seconds, and the base install does not have it.
        from d4explain.export.import_object import import_object  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise needs_export(error) from error
    return import_object(text)


def needs_export(error: ModuleNotFoundError) -> CommandError:
    hint = "pip install 'd4explain[export]'"
    return CommandError(f"export needs {error.name}, which is not installed", hint)


def split_names(text: str | None) -> list[str] | None:
    """Names separated by commas."""
    return [name.strip() for name in text.split(",")] if text else None
