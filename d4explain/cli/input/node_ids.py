"""Node ids on the command line: texts that stand for the ids in the file of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from d4explain.contracts.results import NodeId
from d4explain.errors import CommandError


def node_ids(
    graphs: list[dict[str, Any]], texts: Sequence[str] | None, option: str = "--node"
) -> list[NodeId]:
    """The ids of nodes with the types that they have in the file (text or number).

    Without a graph, they are numbers of nodes of a large graph.
    """
    if not texts:
        return []
    if not graphs:
        return [_number(text, option, "a large graph") for text in texts]
    _require_one(graphs, option)
    return [_node_id(graphs[0], text, option) for text in texts]


def node_pairs(
    graphs: list[dict[str, Any]], texts: Sequence[str] | None, option: str
) -> list[list[NodeId]]:
    """Pairs of node ids, each given as A:B."""
    if not texts:
        return []
    if graphs:
        _require_one(graphs, option)
    return [_pair(graphs, text, option) for text in texts]


def _pair(graphs: list[dict[str, Any]], text: str, option: str) -> list[NodeId]:
    """An id may contain a colon: the first colon that separates two nodes counts."""
    for position, character in enumerate(text):
        if character == ":":
            try:
                return node_ids(graphs, [text[:position], text[position + 1 :]], option)
            except CommandError:
                continue
    raise CommandError(f"{option} is {text!r}; it should be A:B, two nodes of the graph")


def _require_one(graphs: list[dict[str, Any]], option: str) -> None:
    if len(graphs) != 1:
        raise CommandError(
            f"{option} needs exactly one graph; got {len(graphs)}",
            hint="give a file with a single graph",
        )


def _node_id(graph: dict[str, Any], text: str, option: str) -> NodeId:
    if "smiles" in graph or ("edge_index" in graph and graph.get("node_ids") is None):
        return _number(text, option, "this graph")
    graph_node_ids = graph.get("node_ids") or [
        item.get("id") for item in graph.get("nodes", []) if isinstance(item, dict)
    ]
    for node_id in graph_node_ids:
        if str(node_id) == text:
            matching: NodeId = node_id
            return matching
    raise CommandError(f"the graph has no node {text!r}")


def _number(text: str, option: str, where: str) -> int:
    if not text.isdecimal():
        raise CommandError(f"{option} is {text!r}; the nodes of {where} are numbered from 0")
    return int(text)
