"""Node positions for drawings: stress majorisation (Gansner, Koren, North 2004), deterministic.

NetworkX's spring layout tangles sparse graphs, and its better ones need SciPy, which the API
process does without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from service.drawing.sparse_stress import sparse_stress

Positions = NDArray[np.float64]  # [node, 2]; neighbours are 1 apart or more
Integers = NDArray[np.int64]

# All pairs of larger graphs would take too long: the time grows with the cube of the nodes.
_MOST_EXACT_NODES = 256
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
_GAP = 1.0  # between components
_ASPECT = 1.6  # wanted width / height of several components together


def layout(
    nodes: int, edges: Sequence[tuple[int, int]], check: Callable[[], None] = lambda: None
) -> Positions:
    """Positions of nodes 0 … nodes−1; each component by itself, then packed in rows.

    `check` is called again and again; what it raises ends the computation.
    """
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    degrees = np.bincount(ends.ravel(), minlength=nodes)
    # Hubs get longer edges, so that their neighbours find room around them.
    lengths = np.clip(np.sqrt(degrees[ends].sum(axis=1) / 4), 1.0, 3.0)
    components = _components(nodes, ends)
    if nodes <= _MOST_EXACT_NODES:
        wanted = _path_lengths(nodes, ends, lengths)
        drawn = [_stress_majorisation(wanted[np.ix_(part, part)], check) for part in components]
    else:
        points = sparse_stress(components, ends, lengths, check)
        drawn = [_upright(points[part]) for part in components]
    return _packed(components, drawn, nodes)


def _path_lengths(nodes: int, ends: Integers, lengths: Positions) -> Positions:
    """Shortest paths between all nodes (Floyd–Warshall); infinite between components."""
    paths = np.full((nodes, nodes), np.inf)
    np.fill_diagonal(paths, 0.0)
    paths[ends[:, 0], ends[:, 1]] = paths[ends[:, 1], ends[:, 0]] = lengths
    for via in range(nodes):
        np.minimum(paths, paths[:, via, None] + paths[None, via, :], out=paths)
    return paths


def _components(nodes: int, ends: Integers) -> list[Integers]:
    """Largest first; ties by their smallest node."""
    first = np.arange(nodes)  # the smallest node of each node's component, as far as known
    one, other = ends.T
    while True:
        lowest = np.minimum(first[one], first[other])
        joined = first.copy()
        np.minimum.at(joined, first[one], lowest)
        np.minimum.at(joined, first[other], lowest)
        while (joined[joined] != joined).any():
            joined = joined[joined]
        if (joined == first).all():
            break
        first = joined
    order = np.argsort(first, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(first[order])) + 1)
    return sorted(parts, key=lambda part: (-len(part), int(part[0])))


def _stress_majorisation(wanted: Positions, check: Callable[[], None]) -> Positions:
    """Minimises Σ (|x_i − x_j| − d_ij)² / d_ij², from classical scaling."""
    size = len(wanted)
    if size == 1:
        return np.zeros((1, 2))
    positions = _classical_scaling(wanted)
    # Twins (leaves of one hub) start on one point and would never part.
    angle = np.arange(size) * _GOLDEN_ANGLE
    positions = positions + 0.01 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    weights = 1.0 / np.maximum(wanted, 1.0) ** 2
    np.fill_diagonal(weights, 0.0)
    # Pseudo-inverse of the weights' Laplacian, whose null space is the constant vector.
    inverse = np.linalg.inv(np.diag(weights.sum(axis=1)) - weights + 1 / size) - 1 / size
    pull = weights * wanted
    for _ in range(300 if size <= 128 else 60):
        check()
        across, down = (positions[:, None, axis] - positions[None, :, axis] for axis in (0, 1))
        ratio = pull / np.maximum(np.hypot(across, down), 1e-6)  # [node, node]
        moved = inverse @ (ratio.sum(axis=1)[:, None] * positions - ratio @ positions)
        shift = float(np.abs(moved - positions).max())
        positions = moved
        if shift < 1e-3:
            break
    return _upright(positions)


def _classical_scaling(wanted: Positions) -> Positions:
    squared = wanted**2
    centred = -0.5 * (
        squared
        - squared.mean(axis=0, keepdims=True)
        - squared.mean(axis=1, keepdims=True)
        + squared.mean()
    )
    values, vectors = np.linalg.eigh(centred)
    found: Positions = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    if found.shape[1] < 2:
        found = np.pad(found, ((0, 0), (0, 2 - found.shape[1])))
    return found[:, ::-1]


def _upright(positions: Positions) -> Positions:
    """Longest axis horizontal; signs fixed, so that a drawing does not mirror between machines."""
    if len(positions) == 1:
        return np.zeros((1, 2))
    centred = positions - positions.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned: Positions = centred @ axes.T
    for axis in range(turned.shape[1]):
        extreme = np.argmax(np.abs(turned[:, axis]).round(6))
        if turned[extreme, axis] < 0:
            turned[:, axis] *= -1
    return turned


def _packed(components: list[Integers], drawn: list[Positions], nodes: int) -> Positions:
    """Components in rows, as text is set in lines."""
    boxes = [found.max(axis=0) - found.min(axis=0) for found in drawn]
    area = sum(float((box[0] + _GAP) * (box[1] + _GAP)) for box in boxes)
    widest = max(float(box[0]) for box in boxes)
    width = max(float(np.sqrt(area * _ASPECT)), widest)
    positions = np.zeros((nodes, 2))
    x = y = row = 0.0
    for component, found, box in zip(components, drawn, boxes, strict=True):
        if x > 0 and x + box[0] > width:
            x, y, row = 0.0, y + row + _GAP, 0.0
        positions[component] = found - found.min(axis=0) + (x, y)
        x += float(box[0]) + _GAP
        row = max(row, float(box[1]))
    return positions
