"""Checks posted edges and their attributes; both directions of a pair are one edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from d4explain.contracts.features.feature_schema import broken_rows
from d4explain.contracts.gnn_spec import MAX_EDGE_FEATURES
from d4explain.contracts.requests import Pair
from d4explain.contracts.results import NodeId
from service.graph_io.features.expected_features import ExpectedEdgeAttributes
from service.graph_io.input_formats import EdgeEnd, ParsedGraph
from service.http.faults import Faults, shown, too_many

Row = list[float]

_LOOPS = "leave it out, layers that need self-loops add them"


def read_edges(
    graph: ParsedGraph, positions: Mapping[NodeId, int], max_edges: int, faults: Faults
) -> tuple[list[Pair], dict[Pair, int]]:
    """Undirected edges by node position, and the index of each ordered pair in `graph.edges`."""
    pointers = graph.pointers
    index_of: dict[Pair, int] = {}
    for edge, (source, target) in enumerate(graph.edges):
        if source not in positions or target not in positions:
            end: EdgeEnd = "target" if source in positions else "source"
            unknown = target if source in positions else source
            detail = f"there is no node with the id {shown(unknown)}"
            other: NodeId | None = next(
                (one for one in positions if str(one) == str(unknown)), None
            )
            if other is not None:
                detail += f"; there is one with the id {shown(other)}: numbers and texts differ"
            faults.add(pointers.edge_end(edge, end), detail)
            continue
        pair = (positions[source], positions[target])
        if pair[0] == pair[1]:
            faults.add(pointers.edge(edge), f"is a self-loop of node {shown(source)}; {_LOOPS}")
        elif pair in index_of:
            faults.add(
                pointers.edge(edge),
                f"the edge from {shown(source)} to {shown(target)} is already listed, "
                f"as edge {index_of[pair]}; list each edge once, or once per direction",
            )
        index_of.setdefault(pair, edge)
    edges = sorted({(min(pair), max(pair)) for pair in index_of})
    if len(edges) > max_edges:
        faults.add(pointers.edges, too_many(len(edges), "edges", max_edges))
    return edges, index_of


def read_edge_attributes(
    graph: ParsedGraph,
    edges: Sequence[Pair],
    index_of: Mapping[Pair, int],
    expected: ExpectedEdgeAttributes | None,
    faults: Faults,
) -> list[Row] | None:
    """[edge][attribute]; None if the edges have no attributes."""
    pointer = graph.pointers.edge_attributes
    if not graph.edge_attr:
        return [] if expected and expected.size else None
    first, row = next(
        ((edge, row) for edge, row in enumerate(graph.edge_attr) if row is not None), (0, None)
    )
    if row is None:
        if expected and expected.size:
            faults.add(pointer(0), f"is missing; {expected.requirement} attributes per edge")
        return None
    if expected is None and not 1 <= len(row) <= MAX_EDGE_FEATURES:
        faults.add(
            pointer(first),
            f"an edge has {len(row):,} attributes; expected 1 to {MAX_EDGE_FEATURES}",
        )
        return None
    expected = expected or ExpectedEdgeAttributes(len(row), "the first edge has")
    if not expected.size:
        detail = f"has {len(row):,} attributes; {expected.requirement}"
        faults.add(pointer(first), detail)
        return None
    before = len(faults)
    for edge, posted in enumerate(graph.edge_attr):
        if posted is None:
            faults.add(pointer(edge), "is missing, while other edges have attributes")
        elif len(posted) != expected.size:
            faults.add(pointer(edge), f"has {len(posted):,} attributes; {expected.requirement}")
    if len(faults) > before:
        return None
    rows = np.asarray([row or [] for row in graph.edge_attr])
    for broken in broken_rows(rows, expected.column_rules):
        faults.add(pointer(broken.row), broken.detail)
    return [_attributes_of(graph, pair, index_of, faults) for pair in edges]


def _attributes_of(
    graph: ParsedGraph, pair: Pair, index_of: Mapping[Pair, int], faults: Faults
) -> Row:
    """The attributes of one edge; if both directions are listed, they must agree."""
    one, other = pair
    listed = [index_of[ends] for ends in ((one, other), (other, one)) if ends in index_of]
    first, last = min(listed), max(listed)
    if graph.edge_attr[first] != graph.edge_attr[last]:
        faults.add(
            graph.pointers.edge_attributes(last),
            f"differs from edge {first}, the same edge in the other direction; graphs are "
            "undirected",
        )
    return graph.edge_attr[first] or []
