"""Attributes of posted edges: all have as many, and both directions of an edge have the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from d4explain.contracts.gnn_spec import MAX_EDGE_FEATURES
from d4explain.contracts.requests import Pair
from service.http.faults import Faults

Row = list[float]


@dataclass(frozen=True)
class EdgeSize:
    """How many attributes each edge must have, and who says so."""

    size: int
    owner: str  # "the GNN gnn_… takes"

    @property
    def said(self) -> str:
        return f"{self.owner} {self.size or 'none'}"


@dataclass(frozen=True)
class ListedEdges:
    """What was posted about edges, and where."""

    rows: Sequence[Row | None]  # of every listed edge
    places: Mapping[Pair, int]  # positions of both ends → where the edge was listed
    pointer: Callable[[int], str]  # to the attributes of an edge

    def of(self, ends: Pair, faults: Faults) -> Row:
        """What an edge carries; it may have been listed once per direction."""
        one, other = ends
        found = [self.places[pair] for pair in ((one, other), (other, one)) if pair in self.places]
        first, last = min(found), max(found)
        if self.rows[first] != self.rows[last]:
            said = f"differs from that of the same edge the other way, which is edge {first}"
            faults.add(self.pointer(last), f"{said}; graphs are undirected")
        return self.rows[first] or []


def edge_attributes(
    listed: ListedEdges, edges: Sequence[Pair], expected: EdgeSize | None, faults: Faults
) -> list[Row] | None:
    """[edge][attribute], None if the edges have none, which is for `expected` to allow."""
    if not listed.rows:
        return [] if expected and expected.size else None
    first, row = next(
        ((edge, row) for edge, row in enumerate(listed.rows) if row is not None), (0, None)
    )
    if row is None:
        if expected and expected.size:
            faults.add(listed.pointer(0), f"is missing; {expected.said} attributes per edge")
        return None
    if expected is None and not 1 <= len(row) <= MAX_EDGE_FEATURES:
        said = f"an edge has {len(row):,} attributes; allowed are 1 to {MAX_EDGE_FEATURES}"
        faults.add(listed.pointer(first), said)
        return None
    expected = expected or EdgeSize(len(row), "the first edge has")
    if not expected.size:
        said = f"has {len(row):,} attributes; {expected.said}: leave them out"
        faults.add(listed.pointer(first), said)
        return None
    before = len(faults)
    for edge, own in enumerate(listed.rows):
        if own is None:
            faults.add(listed.pointer(edge), "is missing, while other edges have attributes")
        elif len(own) != expected.size:
            faults.add(listed.pointer(edge), f"has {len(own):,} attributes; {expected.said}")
    if len(faults) > before:
        return None
    return [listed.of(ends, faults) for ends in edges]
