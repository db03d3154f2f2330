"""Consoles: results go to stdout, progress and errors to stderr."""

from __future__ import annotations

from rich.console import Console


def output() -> Console:
    """For results."""
    return Console(highlight=False)


def messages() -> Console:
    """For progress and errors, so that results can be piped."""
    return Console(stderr=True, highlight=False)
