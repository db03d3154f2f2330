"""A large graph in compressed sparse rows, read locally.

The arrays may be memory maps. Time and memory do not depend on the size of the whole graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

_ENTRIES_AT_ONCE = 2**20  # entries of the rows that are read together
# Longer rows are not read; the wanted nodes are found by bisection.
_LONG_ROW = 4096


@dataclass(frozen=True)
class Ball:
    """The nodes within some hops of one node, sorted by hops and then by number."""

    nodes: Numbers  # [node]
    hops: Numbers  # [node]
    complete: bool


@dataclass(frozen=True)
class Inside:
    """The edges between nodes of a set."""

    edges: Numbers  # [2, edge] positions in the set, source < target, in order
    cut: NDArray[np.bool_]  # [node] whether some neighbour is not in the set


@dataclass(frozen=True)
class CsrGraph:
    """An undirected graph without self-loops; every edge is in two rows."""

    features: NDArray[np.floating]  # [node, feature]
    starts: NDArray[np.integer]  # [node + 1]
    neighbours: NDArray[np.integer]  # [2·edge], ascending within a row

    @property
    def node_count(self) -> int:
        return len(self.starts) - 1

    @property
    def edge_count(self) -> int:
        return len(self.neighbours) // 2

    def ball(self, centre: int, radius: int, most: int) -> Ball:
        """The nodes within `radius` hops, at most `most`, nearest first.

        If a ring does not fit, its first nodes stay.
        """
        rings = [np.array([centre], dtype=np.int64)]
        seen = rings[0]  # ascending
        complete = True
        for _ in range(radius):
            ring = np.empty(0, dtype=np.int64)
            for reached in self._prefixes(rings[-1], most + 1):
                fresh = _without(np.unique(reached), seen)
                ring = np.union1d(ring, fresh) if len(ring) else fresh
                if len(seen) + len(ring) > most:
                    complete = False
                    ring = ring[: most - len(seen)]
                    break
            if not len(ring):
                break
            rings.append(ring)
            seen = np.union1d(seen, ring)
            if not complete:
                break
        hops = np.repeat(np.arange(len(rings)), [len(ring) for ring in rings])
        return Ball(np.concatenate(rings), hops, complete)

    def inside(self, nodes: Numbers) -> Inside:
        """Edges between the given nodes, and which nodes have other edges."""
        order = np.argsort(nodes)
        wanted = nodes[order]
        degrees = self._degrees(nodes)
        found = np.zeros(len(nodes), dtype=np.int64)
        sources, targets = [], []
        for some in _shares(np.minimum(degrees, _LONG_ROW)):
            short = some[degrees[some] <= _LONG_ROW]
            place, reached = self._rows(nodes[short], degrees[short])
            hit = np.searchsorted(wanted, reached).clip(max=len(wanted) - 1)
            known = wanted[hit] == reached
            sources.append(short[place[known]])
            targets.append(order[hit[known]])
            for node in some[degrees[some] > _LONG_ROW].tolist():
                there = order[_contained(wanted, self.row(int(nodes[node])))]
                sources.append(np.full(len(there), node))
                targets.append(there)
        source, target = np.concatenate(sources), np.concatenate(targets)
        np.add.at(found, source, 1)
        once = source < target
        codes = np.sort(source[once] * len(nodes) + target[once])
        edges = np.stack([codes // len(nodes), codes % len(nodes)])
        return Inside(edges, found < degrees)

    def _prefixes(self, nodes: Numbers, longest: int) -> Iterator[Numbers]:
        """Neighbours of the nodes, some rows at a time, at most `longest` entries per row.

        That is enough entries for as many new nodes as can be kept.
        """
        lengths = np.minimum(self._degrees(nodes), longest)
        for some in _shares(lengths):
            yield self._rows(nodes[some], lengths[some])[1]

    def _rows(self, nodes: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers]:
        """The first entries of the nodes' rows: position of the node, and neighbour."""
        place = np.repeat(np.arange(len(nodes)), lengths)
        ends = np.cumsum(lengths)
        within = np.arange(len(place)) - np.repeat(ends - lengths, lengths)
        at = np.repeat(self.starts[nodes].astype(np.int64), lengths) + within
        return place, self.neighbours[at].astype(np.int64)

    def row(self, node: int) -> NDArray[np.integer]:
        return self.neighbours[int(self.starts[node]) : int(self.starts[node + 1])]

    def _degrees(self, nodes: Numbers) -> Numbers:
        degrees: Numbers = (self.starts[nodes + 1] - self.starts[nodes]).astype(np.int64)
        return degrees


def rows_of(features: NDArray[np.floating], edges: Numbers) -> CsrGraph:
    """The graph with these [2, edge] edges, each listed once."""
    nodes = len(features)
    codes = np.sort(np.concatenate([edges[0] * nodes + edges[1], edges[1] * nodes + edges[0]]))
    starts = np.searchsorted(codes, np.arange(nodes + 1) * nodes)
    return CsrGraph(features, starts, codes % nodes)


def _shares(lengths: Numbers) -> Iterator[Numbers]:
    """Consecutive positions in groups of a bounded total length, at least one per group."""
    if not len(lengths):
        return
    share = (np.cumsum(lengths) - lengths) // _ENTRIES_AT_ONCE
    yield from np.split(np.arange(len(lengths)), np.flatnonzero(np.diff(share)) + 1)


def _without(values: Numbers, others: Numbers) -> Numbers:
    """The ascending values that are not among the ascending others."""
    place = np.searchsorted(others, values).clip(max=len(others) - 1)
    fresh: Numbers = values[others[place] != values]
    return fresh


def _contained(wanted: Numbers, row: NDArray[np.integer]) -> Numbers:
    """Positions of the wanted numbers that are in an ascending row, by bisection."""
    # Another type would convert the whole row.
    place = np.searchsorted(row, wanted.astype(row.dtype)).clip(max=len(row) - 1)
    return np.flatnonzero(row[place] == wanted)
