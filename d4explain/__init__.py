"""The face of d4explain: command line, Python client and the embedded stack."""

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
    """Loaded at first use, so that `d4explain up` does not wait for what it does not need."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from d4explain.client import client, errors  # noqa: PLC0415

    return getattr(client if name == "Client" else errors, name)
