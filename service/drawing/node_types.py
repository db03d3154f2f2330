"""Colours and names of node types: what the legend of a drawing lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.results import ResultNode

_MAX_COLOURS = 6  # more would be hard to distinguish


@dataclass(frozen=True)
class NodeType:
    colour: int
    name: str
    count: int  # nodes of this type in the graph


@dataclass(frozen=True)
class NodeTypes:
    """The types in a graph, in the order of their columns; empty if all nodes look the same."""

    entries: tuple[NodeType, ...] = ()
    of_nodes: tuple[NodeType, ...] = ()  # one per node, or none


def node_types(nodes: Sequence[ResultNode], names: GnnNames) -> NodeTypes:
    """A colour per type if all nodes have one of few types."""
    columns: list[int] = []
    for node in nodes:
        column = names.node_type(node.x)
        if column is None:
            return NodeTypes()
        columns.append(column)
    counts = Counter(columns)
    if not 1 <= len(counts) <= _MAX_COLOURS:
        return NodeTypes()
    if len(counts) == 1 and names.feature_names is None:
        return NodeTypes()  # one nameless type says nothing
    by_column = {
        column: NodeType(colour, _name(column, names), counts[column])
        for colour, column in enumerate(sorted(counts))
    }
    return NodeTypes(
        entries=tuple(by_column.values()),
        of_nodes=tuple(by_column[column] for column in columns),
    )


def _name(column: int, names: GnnNames) -> str:
    return f"feature {column}" if names.feature_names is None else names.feature_names[column]
