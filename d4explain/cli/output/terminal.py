"""Output: results go to stdout, progress and errors to stderr."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic_core import to_json
from rich.console import Console

_WIDE = 1000  # columns


def output() -> Console:
    """For results."""
    return Console(highlight=False)


def wide_output() -> Console:
    """For tables with ids: as wide as needed if the output is not a terminal."""
    console = output()
    return console if console.is_terminal else Console(highlight=False, width=_WIDE)


def messages() -> Console:
    """For progress and errors, so that results can be piped."""
    return Console(stderr=True, highlight=False)


def print_line(text: str) -> None:
    """A result of one line, which is not wrapped."""
    output().print(text, markup=False, soft_wrap=True)


def print_warnings(texts: Iterable[str]) -> None:
    """What the API left out of posted graphs, on stderr."""
    for text in texts:
        messages().print(f"warning: {text}", markup=False, style="yellow", soft_wrap=True)


def print_json(value: Any) -> None:
    """A result as one JSON document: resources, lists and dicts of them, or plain values."""
    print(to_json(value, indent=2, inf_nan_mode="null").decode(), flush=True)
