"""The face of d4explain: command line, Python client and the embedded stack."""

from d4explain.api_errors import (
    ApiError,
    RefusedError,
    UnreachableError,
    UnsuccessfulJobError,
    WaitTimeoutError,
)
from d4explain.client import Client

__all__ = [
    "ApiError",
    "Client",
    "RefusedError",
    "UnreachableError",
    "UnsuccessfulJobError",
    "WaitTimeoutError",
]
