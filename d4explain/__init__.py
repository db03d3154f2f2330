"""Explanations of graph neural networks: Python client, export of PyG models, command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from d4explain.client.client import Client
    from d4explain.client.errors import (
        ApiError,
        RefusedError,
        UnreachableError,
        UnsuccessfulJobError,
        WaitTimeoutError,
    )

__all__ = [
    "ApiError",
    "Client",
    "RefusedError",
    "UnreachableError",
    "UnsuccessfulJobError",
    "WaitTimeoutError",
]


def __getattr__(name: str) -> Any:
    """Import the client at first use: other commands start faster without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from d4explain.client import client, errors  # noqa: PLC0415

    return getattr(client if name == "Client" else errors, name)
