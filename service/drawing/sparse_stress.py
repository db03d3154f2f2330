"""Computes positions of large graphs by sparse stress (Ortmann, Klimenta, Brandes 2017).

Only distances to neighbours and to a few pivots count, so time and memory grow with
pivots · (nodes + edges). Pivot MDS (Brandes, Pich 2006) gives the initial positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MIN_PIVOTS = 50  # per component; in smaller components every node is a pivot
_TARGET_PATHS = 50_000  # pivots · nodes: smaller graphs get more pivots
_ITERATIONS = 60
# All nodes move at once: with a full step, pairs would oscillate.
_STEP = 0.6
_SIBLING_STRIDES = (1, 2, 3)
_MAX_SIBLING_DEGREE = 3  # pivots may not distinguish such nodes from their siblings
_MAX_RELAXATIONS = 2**19  # per batch of shortest paths; limits memory
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))


@dataclass(frozen=True)
class _Links:
    """Both directions of each edge, sorted by source (CSR)."""

    starts: Integers  # [node + 1], first entry of each node
    sources: Integers  # [2 · edge]
    targets: Integers
    lengths: Floats


@dataclass(frozen=True)
class _Springs:
    """Ordered pairs with a target distance; a spring moves only its first node."""

    nodes: Integers
    others: Integers
    weights: Floats
    lengths: Floats


@dataclass(frozen=True)
class _PivotTerms:
    """Target distances of nodes to their pivots; all [pivot, node]."""

    pivots: Integers
    weights: Floats
    weighted_distances: Floats


def sparse_stress(
    components: Sequence[Integers], ends: Integers, lengths: Floats, check: Callable[[], None]
) -> Floats:
    """Positions [node, 2], each component around its own origin; `check` may raise to end it."""
    nodes = sum(len(part) for part in components)
    links = _links(nodes, ends, lengths)
    pivot_count = max(_TARGET_PATHS // nodes, _MIN_PIVOTS)
    pivots = _pivots(components, nodes, pivot_count)
    paths = _path_lengths(pivots, links, check)
    points, weights = np.zeros((nodes, 2)), np.zeros_like(paths)
    for part in components:
        if len(part) == 1:
            continue
        check()
        part_paths = paths[: min(len(part), pivot_count), part]
        points[part] = _pivot_mds(part_paths)
        weights[: len(part_paths), part] = _weights(part_paths)
    # Leaves of one hub start at the same point and would stay together.
    angle = np.arange(nodes) * _GOLDEN_ANGLE
    points += 0.05 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    pivot_terms = _PivotTerms(pivots, weights, weights * paths)
    return _minimise(points, pivot_terms, _springs(links, nodes), check)


def _links(nodes: int, ends: Integers, lengths: Floats) -> _Links:
    sources, targets = np.concatenate([ends, ends[:, ::-1]]).T
    order = np.lexsort((targets, sources))
    starts = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(sources, minlength=nodes), out=starts[1:])
    return _Links(starts, sources[order], targets[order], np.tile(lengths, 2)[order])


def _pivots(components: Sequence[Integers], nodes: int, pivot_count: int) -> Integers:
    """[pivot, node]: the pivots of each node's component, padded with the node itself."""
    rows = min(pivot_count, max(len(part) for part in components))
    pivots = np.tile(np.arange(nodes), (rows, 1))
    for part in components:
        count = min(len(part), pivot_count)
        pivots[:count, part] = part[np.arange(count) * len(part) // count, None]
    return pivots


def _path_lengths(pivots: Integers, links: _Links, check: Callable[[], None]) -> Floats:
    """[pivot, node]: lengths of shortest paths."""
    count, nodes = pivots.shape
    paths = np.where(pivots == np.arange(nodes), 0.0, np.inf)
    batch = max(1, _MAX_RELAXATIONS // max(len(links.targets), 1))
    for first in range(0, count, batch):
        _relax(paths[first : first + batch], links, check)
    return paths


def _relax(paths: Floats, links: _Links, check: Callable[[], None]) -> None:
    """Relaxes, in place, the edges of nodes whose path became shorter, until none does."""
    nodes = paths.shape[1]
    flat = paths.reshape(-1)  # [pivot · node], a view
    last_index = np.empty(len(flat), dtype=np.int64)
    improved = np.flatnonzero(flat == 0.0)
    while len(improved):
        check()
        node = improved % nodes
        counts = links.starts[node + 1] - links.starts[node]
        before = np.cumsum(counts) - counts
        entries = np.repeat(links.starts[node] - before, counts) + np.arange(counts.sum())
        reached = np.repeat(improved - node, counts) + links.targets[entries]
        lengths = np.repeat(flat[improved], counts) + links.lengths[entries]
        shorter = lengths < flat[reached] - 1e-9
        reached, lengths = reached[shorter], lengths[shorter]
        np.minimum.at(flat, reached, lengths)
        # Remove duplicates: the last assignment to an entry of `last_index` wins.
        indices = np.arange(len(reached))
        last_index[reached] = indices
        improved = reached[last_index[reached] == indices]


def _pivot_mds(paths: Floats) -> Floats:
    squared = paths**2  # [pivot, node]
    centred = -0.5 * (
        squared
        - squared.mean(axis=0, keepdims=True)
        - squared.mean(axis=1, keepdims=True)
        + squared.mean()
    )
    values, vectors = np.linalg.eigh(centred @ centred.T)
    # Scale the axes as classical scaling does, up to a factor.
    points: Floats = centred.T @ (vectors[:, -2:] / np.maximum(values[-2:], 1e-9) ** 0.25)
    # Fewer pivots than nodes give shorter axes.
    scaled: Floats = points[:, ::-1] * (len(points) / len(paths)) ** 0.25
    return scaled


def _weights(paths: Floats) -> Floats:
    """1/d², times the nodes that the pivot represents: those closer to it than half the path."""
    squared = np.maximum(paths, 1.0) ** 2
    weights: Floats = np.where(paths > 0.0, 1.0 / squared, 0.0)
    if paths.shape[1] > len(paths):
        nearest = paths.argmin(axis=0)
        for pivot, distances in enumerate(paths):
            region = np.sort(distances[nearest == pivot])
            weights[pivot] *= np.searchsorted(region, distances / 2, side="right")
    return weights


def _springs(links: _Links, nodes: int) -> _Springs:
    """Edges, and pairs of neighbours of one node that pivots cannot distinguish."""
    springs = [(links.sources, links.targets, links.lengths)]
    edges = links.sources * nodes + links.targets  # sorted
    is_sibling = np.diff(links.starts)[links.targets] <= _MAX_SIBLING_DEGREE
    hubs, ends = links.sources[is_sibling], links.targets[is_sibling]
    lengths = links.lengths[is_sibling]
    for stride in _SIBLING_STRIDES:
        same_hub = hubs[:-stride] == hubs[stride:]
        one, other = ends[:-stride][same_hub], ends[stride:][same_hub]
        distance = (lengths[:-stride] + lengths[stride:])[same_hub]
        pairs = one * nodes + other
        index = np.minimum(np.searchsorted(edges, pairs), len(edges) - 1)
        new = edges[index] != pairs
        one, other, distance = one[new], other[new], distance[new]
        springs += [(one, other, distance), (other, one, distance)]
    first, second, distances = (np.concatenate(parts) for parts in zip(*springs, strict=True))
    return _Springs(first, second, 1.0 / distances**2, distances)


def _minimise(
    points: Floats, terms: _PivotTerms, springs: _Springs, check: Callable[[], None]
) -> Floats:
    """Moves each node towards the minimum of its stress, all nodes at once."""
    nodes = len(points)
    total = terms.weights.sum(axis=0) + np.bincount(springs.nodes, springs.weights, nodes)
    total = np.maximum(total, 1e-9)
    weighted_lengths = springs.weights * springs.lengths
    x, y = points[:, 0].copy(), points[:, 1].copy()
    for _ in range(_ITERATIONS):
        check()
        pivot_x, pivot_y = x[terms.pivots], y[terms.pivots]  # [pivot, node]
        ratio = terms.weighted_distances / _distances(x - pivot_x, y - pivot_y)
        rest = terms.weights - ratio
        other_x, other_y = x[springs.others], y[springs.others]
        own_x, own_y = x[springs.nodes], y[springs.nodes]
        spring_ratio = weighted_lengths / _distances(own_x - other_x, own_y - other_y)
        spring_rest = springs.weights - spring_ratio
        ratios = ratio.sum(axis=0) + np.bincount(springs.nodes, spring_ratio, nodes)
        sum_x = (rest * pivot_x).sum(axis=0) + x * ratios
        sum_x += np.bincount(springs.nodes, spring_rest * other_x, nodes)
        sum_y = (rest * pivot_y).sum(axis=0) + y * ratios
        sum_y += np.bincount(springs.nodes, spring_rest * other_y, nodes)
        step_x, step_y = _STEP * (sum_x / total - x), _STEP * (sum_y / total - y)
        x, y = x + step_x, y + step_y
        if max(np.abs(step_x).max(), np.abs(step_y).max()) < 1e-2:
            break
    return np.stack([x, y], axis=1)


def _distances(dx: Floats, dy: Floats) -> Floats:
    # `np.hypot` is several times slower.
    distances: Floats = np.sqrt(dx * dx + dy * dy + 1e-12)
    return distances
