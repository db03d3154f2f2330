"""Positions of large graphs: sparse stress (Ortmann, Klimenta, Brandes 2017), near-linear.

A node knows its distance to its neighbours and to a few pivots only, so time and memory grow with
pivots · (nodes + edges). Pivot MDS (Brandes, Pich 2006) gives the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_FEWEST_PIVOTS = 50  # of each component; smaller components have all pairs
_WANTED_PATHS = 50_000  # pivots · nodes, where the graph is small enough for more pivots
_ITERATIONS = 60
# All nodes move at once. A pair that moved the whole way from both ends would swing for ever.
_STEP = 0.6
_STRIDES = (1, 2, 3)
_FEW_LINKS = 3  # of a node that pivots may not tell from others
_MOST_RELAXATIONS = 2**19  # at once, of shortest paths; bounds memory
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))


@dataclass(frozen=True)
class _Links:
    """Each edge from both ends, sorted by source."""

    starts: Integers  # [node + 1] of a node's entries
    sources: Integers  # [2 · edge]
    targets: Integers
    lengths: Floats


@dataclass(frozen=True)
class _Springs:
    """Pairs with a wanted distance; only the first node of a pair is moved by it."""

    nodes: Integers
    others: Integers
    weights: Floats
    wanted: Floats


@dataclass(frozen=True)
class _Pulls:
    """What a node's pivots want of it; all are [pivot, node]."""

    anchors: Integers
    weights: Floats
    wanted: Floats  # distances, times the weights


def sparse_stress(
    components: Sequence[Integers], ends: Integers, lengths: Floats, check: Callable[[], None]
) -> Floats:
    """Positions [node, 2], each component around its own origin; `check` may raise to end it."""
    nodes = sum(len(part) for part in components)
    links = _links(nodes, ends, lengths)
    pivots = max(_WANTED_PATHS // nodes, _FEWEST_PIVOTS)
    anchors = _anchors(components, nodes, pivots)
    paths = _path_lengths(anchors, links, check)
    points, weights = np.zeros((nodes, 2)), np.zeros_like(paths)
    for part in components:
        if len(part) == 1:
            continue
        check()
        own = paths[: min(len(part), pivots), part]
        points[part] = _pivot_mds(own)
        weights[: len(own), part] = _weights(own)
    # Twins (leaves of one hub) start on one point and would never part.
    angle = np.arange(nodes) * _GOLDEN_ANGLE
    points += 0.05 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    pulls = _Pulls(anchors, weights, weights * paths)
    return _relaxed(points, pulls, _springs(links, nodes), check)


def _links(nodes: int, ends: Integers, lengths: Floats) -> _Links:
    sources, targets = np.concatenate([ends, ends[:, ::-1]]).T
    order = np.lexsort((targets, sources))
    starts = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(sources, minlength=nodes), out=starts[1:])
    return _Links(starts, sources[order], targets[order], np.tile(lengths, 2)[order])


def _anchors(components: Sequence[Integers], nodes: int, pivots: int) -> Integers:
    """[pivot, node]: the pivots of each node's component; the node itself where there are fewer."""
    most = min(pivots, max(len(part) for part in components))
    anchors = np.tile(np.arange(nodes), (most, 1))
    for part in components:
        count = min(len(part), pivots)
        anchors[:count, part] = part[np.arange(count) * len(part) // count, None]
    return anchors


def _path_lengths(anchors: Integers, links: _Links, check: Callable[[], None]) -> Floats:
    """[pivot, node]: shortest paths, by relaxing the edges of nodes that came nearer."""
    pivots, nodes = anchors.shape
    paths = np.where(anchors == np.arange(nodes), 0.0, np.inf)
    at_once = max(1, _MOST_RELAXATIONS // max(len(links.targets), 1))
    for first in range(0, pivots, at_once):
        _relax(paths[first : first + at_once], links, check)
    return paths


def _relax(paths: Floats, links: _Links, check: Callable[[], None]) -> None:
    nodes = paths.shape[1]
    known = paths.reshape(-1)  # [pivot · node], a view
    seen = np.empty(len(known), dtype=np.int64)
    nearer = np.flatnonzero(known == 0.0)
    while len(nearer):
        check()
        node = nearer % nodes
        counts = links.starts[node + 1] - links.starts[node]
        before = np.cumsum(counts) - counts
        entries = np.repeat(links.starts[node] - before, counts) + np.arange(counts.sum())
        reached = np.repeat(nearer - node, counts) + links.targets[entries]
        lengths = np.repeat(known[nearer], counts) + links.lengths[entries]
        shorter = lengths < known[reached] - 1e-9
        reached, lengths = reached[shorter], lengths[shorter]
        np.minimum.at(known, reached, lengths)
        # Each once: of equal entries the last one stays in `seen`.
        numbers = np.arange(len(reached))
        seen[reached] = numbers
        nearer = reached[seen[reached] == numbers]


def _pivot_mds(paths: Floats) -> Floats:
    squared = paths**2  # [pivot, node]
    centred = -0.5 * (
        squared
        - squared.mean(axis=0, keepdims=True)
        - squared.mean(axis=1, keepdims=True)
        + squared.mean()
    )
    values, vectors = np.linalg.eigh(centred @ centred.T)
    # Axes as long as those of classical scaling, but for one factor.
    found: Floats = centred.T @ (vectors[:, -2:] / np.maximum(values[-2:], 1e-9) ** 0.25)
    # A part of the pivots gives a part of the squared length.
    turned: Floats = found[:, ::-1] * (len(found) / len(paths)) ** 0.25
    return turned


def _weights(paths: Floats) -> Floats:
    """1/d² for each node that a pivot stands for: those near it, in its half of the path."""
    squared = np.maximum(paths, 1.0) ** 2
    weights: Floats = np.where(paths > 0.0, 1.0 / squared, 0.0)
    if paths.shape[1] > len(paths):
        nearest = paths.argmin(axis=0)
        for pivot, own in enumerate(paths):
            region = np.sort(own[nearest == pivot])
            weights[pivot] *= np.searchsorted(region, own / 2, side="right")
    return weights


def _springs(links: _Links, nodes: int) -> _Springs:
    """Edges, and some pairs of neighbours of one node, which pivots cannot tell apart."""
    found = [(links.sources, links.targets, links.lengths)]
    edges = links.sources * nodes + links.targets  # sorted
    few = np.diff(links.starts)[links.targets] <= _FEW_LINKS
    hubs, ends, lengths = links.sources[few], links.targets[few], links.lengths[few]
    for stride in _STRIDES:
        same = hubs[:-stride] == hubs[stride:]
        one, other = ends[:-stride][same], ends[stride:][same]
        wanted = (lengths[:-stride] + lengths[stride:])[same]
        pairs = one * nodes + other
        place = np.minimum(np.searchsorted(edges, pairs), len(edges) - 1)
        new = edges[place] != pairs
        one, other, wanted = one[new], other[new], wanted[new]
        found += [(one, other, wanted), (other, one, wanted)]
    first, second, apart = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return _Springs(first, second, 1.0 / apart**2, apart)


def _relaxed(points: Floats, pulls: _Pulls, springs: _Springs, check: Callable[[], None]) -> Floats:
    """Moves each node towards where its pivots and springs want it."""
    nodes = len(points)
    total = pulls.weights.sum(axis=0) + np.bincount(springs.nodes, springs.weights, nodes)
    total = np.maximum(total, 1e-9)
    spring_wanted = springs.weights * springs.wanted
    x, y = points[:, 0].copy(), points[:, 1].copy()
    for _ in range(_ITERATIONS):
        check()
        at_x, at_y = x[pulls.anchors], y[pulls.anchors]  # [pivot, node]
        ratio = pulls.wanted / _distances(x - at_x, y - at_y)
        rest = pulls.weights - ratio
        from_x, from_y = x[springs.others], y[springs.others]
        own_x, own_y = x[springs.nodes], y[springs.nodes]
        spring = spring_wanted / _distances(own_x - from_x, own_y - from_y)
        spring_rest = springs.weights - spring
        ratios = ratio.sum(axis=0) + np.bincount(springs.nodes, spring, nodes)
        wanted_x = (rest * at_x).sum(axis=0) + x * ratios
        wanted_x += np.bincount(springs.nodes, spring_rest * from_x, nodes)
        wanted_y = (rest * at_y).sum(axis=0) + y * ratios
        wanted_y += np.bincount(springs.nodes, spring_rest * from_y, nodes)
        step_x, step_y = _STEP * (wanted_x / total - x), _STEP * (wanted_y / total - y)
        x, y = x + step_x, y + step_y
        if max(np.abs(step_x).max(), np.abs(step_y).max()) < 1e-2:
            break
    return np.stack([x, y], axis=1)


def _distances(across: Floats, down: Floats) -> Floats:
    # Not `np.hypot`, which takes several times as long.
    found: Floats = np.sqrt(across * across + down * down + 1e-12)
    return found
