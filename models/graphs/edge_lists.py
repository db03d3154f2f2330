"""Components, statistics and symmetry codes from edge lists, for graphs without a dense form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from models.graphs.hashing import Words, hashed

Edges = npt.NDArray[np.int64]  # [2, edge], each once
_LOW_BITS = np.uint64(2**24 - 1)


def component_labels(nodes: int, edges: Edges) -> Edges:
    """The first node of each node's connected component: [node]."""
    source, target = edges
    adjacency = coo_array((np.ones(len(source), dtype=np.int8), (source, target)), (nodes, nodes))
    count, component = connected_components(adjacency, directed=False)
    first = np.empty(count, dtype=np.int64)
    first[component[::-1]] = np.arange(nodes)[::-1]  # the last assignment, of the first node, wins
    labels: Edges = first[component]
    return labels


def neighbour_sets(nodes: int, edges: Edges) -> list[set[int]]:
    neighbours: list[set[int]] = [set() for _ in range(nodes)]
    for source, target in edges.T.tolist():
        neighbours[source].add(target)
        neighbours[target].add(source)
    return neighbours


class LocalShape:
    """Degrees and triangles of a graph's nodes, updated locally when edges are toggled."""

    def __init__(self, nodes: int, edges: Edges) -> None:
        self._neighbours = neighbour_sets(nodes, edges)
        self._degrees = np.array([len(row) for row in self._neighbours], dtype=np.float64)
        self._triangles = np.zeros(nodes)
        for source, target in edges.T.tolist():
            for third in self._neighbours[source] & self._neighbours[target]:
                self._triangles[third] += 1  # counted at the edge opposite to it
        self._usual_degree = max(float(self._degrees.mean()), 1.0)
        self._before = self._sorted(self._degrees, self._triangles)

    def shift(self, pairs: Sequence[tuple[int, int]]) -> float:
        """How far toggling the pairs shifts degrees (over the mean) and clustering.

        The sum of both earth mover's distances, as in `statistics.statistics_shift`.
        """
        degrees, triangles = self._degrees.copy(), self._triangles.copy()
        for one, other in pairs:
            common = list(self._neighbours[one] & self._neighbours[other])
            change = -1 if other in self._neighbours[one] else 1
            degrees[[one, other]] += change
            triangles[common] += change
            triangles[[one, other]] += change * len(common)
            self._toggle(one, other)
        for one, other in pairs:
            self._toggle(one, other)
        after = self._sorted(degrees, triangles)
        return sum(
            float(np.abs(now - then).mean()) for now, then in zip(after, self._before, strict=True)
        )

    def _toggle(self, one: int, other: int) -> None:
        self._neighbours[one] ^= {other}
        self._neighbours[other] ^= {one}

    def _sorted(
        self, degrees: npt.NDArray[np.float64], triangles: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        possible = np.maximum(degrees * (degrees - 1) / 2, 1)
        return np.sort(degrees / self._usual_degree), np.sort(triangles / possible)


def refined_code(colours: Words, relations: Sequence[Edges], rounds: int) -> int:
    """The sum of colours refined along each relation's edges, as in `isomorphism.marked_codes`."""
    colours = hashed(colours)
    for _ in range(rounds):
        refined = colours
        for source, target in relations:
            low = _summed(colours & _LOW_BITS, source, target)
            high = _summed((colours >> np.uint64(24)) & _LOW_BITS, source, target)
            refined = hashed(hashed(hashed(refined) + low) + high)
        colours = refined
    return int(colours.sum())


def _summed(values: Words, source: Edges, target: Edges) -> Words:
    """Sums over each node's neighbours; values of 24 bits keep float sums exact."""
    nodes = len(values)
    weights = values.astype(np.float64)
    total = np.bincount(target, weights[source], nodes) + np.bincount(
        source, weights[target], nodes
    )
    return total.astype(np.uint64)
