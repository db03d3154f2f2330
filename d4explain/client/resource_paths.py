"""Paths of the API that need quoting."""

from __future__ import annotations

from urllib.parse import quote


def gnn_path(reference: str) -> str:
    """The path of a GNN, given as id, `name@3`, `name@alias` or name."""
    return f"/v1/gnns/{quote(reference, safe='@')}"


def alias_path(name: str, alias: str) -> str:
    return f"{gnn_path(name)}/aliases/{quote(alias, safe='')}"
