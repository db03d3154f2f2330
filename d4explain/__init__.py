"""Explanations of graph neural networks: Python client, export of PyG models, command line."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from d4explain.client.client import AsyncClient, Client
    from d4explain.client.errors import (
        ApiError,
        InvalidNameError,
        RefusedError,
        RejectedGnnError,
        UnreachableError,
        UnsuccessfulJobError,
        WaitTimeoutError,
    )
    from d4explain.client.graph_formats.answer_graphs import ConversionError
    from d4explain.client.graph_formats.posted_graphs import GraphFormatError
    from d4explain.client.results.answer import Answer, NoCounterfactualError
    from d4explain.client.results.answers import Answers, AsyncAnswers, UnfinishedError

__all__ = [
    "Answer",
    "Answers",
    "ApiError",
    "AsyncAnswers",
    "AsyncClient",
    "Client",
    "ConversionError",
    "GraphFormatError",
    "InvalidNameError",
    "NoCounterfactualError",
    "RefusedError",
    "RejectedGnnError",
    "UnfinishedError",
    "UnreachableError",
    "UnsuccessfulJobError",
    "WaitTimeoutError",
]
_MODULES = {
    "results.answer": ("Answer", "NoCounterfactualError"),
    "results.answers": ("Answers", "AsyncAnswers", "UnfinishedError"),
    "client": ("AsyncClient", "Client"),
    "graph_formats.answer_graphs": ("ConversionError",),
    "graph_formats.posted_graphs": ("GraphFormatError",),
}


def __getattr__(name: str) -> Any:
    """Import the client at first use: other commands start faster without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), "errors")
    return getattr(import_module(f"d4explain.client.{module}"), name)
