"""Computes node positions by stress majorisation (Gansner, Koren, North 2004); deterministic.

NetworkX's spring layout tangles sparse graphs. Its better layouts need SciPy, which the API process
does not load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from service.drawing.sparse_stress import sparse_stress

Positions = NDArray[np.float64]  # [node, 2]; neighbours are 1 apart or more
Integers = NDArray[np.int64]

_MAX_EXACT_NODES = 256  # for all pairs, time grows with the cube of the nodes
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
_GAP = 1.0  # between components
_ASPECT_RATIO = 1.6  # width / height of all components together


def layout(
    nodes: int, edges: Sequence[tuple[int, int]], check: Callable[[], None] = lambda: None
) -> Positions:
    """Positions of nodes 0 … nodes−1; components are laid out separately and packed in rows.

    `check` is called often and may raise to end the computation.
    """
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    degrees = np.bincount(ends.ravel(), minlength=nodes)
    # Hubs get longer edges, to make room for their neighbours.
    lengths = np.clip(np.sqrt(degrees[ends].sum(axis=1) / 4), 1.0, 3.0)
    components = _components(nodes, ends)
    if nodes <= _MAX_EXACT_NODES:
        distances = _path_lengths(nodes, ends, lengths)
        placed = [_stress_majorisation(distances[np.ix_(part, part)], check) for part in components]
    else:
        points = sparse_stress(components, ends, lengths, check)
        placed = [_rotated(points[part]) for part in components]
    return _packed(components, placed, nodes)


def _path_lengths(nodes: int, ends: Integers, lengths: Positions) -> Positions:
    """Shortest paths between all nodes (Floyd–Warshall); infinite between components."""
    paths = np.full((nodes, nodes), np.inf)
    np.fill_diagonal(paths, 0.0)
    paths[ends[:, 0], ends[:, 1]] = paths[ends[:, 1], ends[:, 0]] = lengths
    for via in range(nodes):
        np.minimum(paths, paths[:, via, None] + paths[None, via, :], out=paths)
    return paths


def _components(nodes: int, ends: Integers) -> list[Integers]:
    """Connected components, largest first; ties by their smallest node."""
    first = np.arange(nodes)  # smallest known node of each node's component
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


def _stress_majorisation(distances: Positions, check: Callable[[], None]) -> Positions:
    """Minimises Σ (|x_i − x_j| − d_ij)² / d_ij², starting from classical scaling."""
    size = len(distances)
    if size == 1:
        return np.zeros((1, 2))
    positions = _classical_scaling(distances)
    # Leaves of one hub start at the same point and would stay together.
    angle = np.arange(size) * _GOLDEN_ANGLE
    positions = positions + 0.01 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    weights = 1.0 / np.maximum(distances, 1.0) ** 2
    np.fill_diagonal(weights, 0.0)
    # Pseudo-inverse of the weights' Laplacian, whose null space is the constant vector.
    inverse = np.linalg.inv(np.diag(weights.sum(axis=1)) - weights + 1 / size) - 1 / size
    weighted_distances = weights * distances
    for _ in range(300 if size <= 128 else 60):
        check()
        dx, dy = (positions[:, None, axis] - positions[None, :, axis] for axis in (0, 1))
        ratio = weighted_distances / np.maximum(np.hypot(dx, dy), 1e-6)  # [node, node]
        moved = inverse @ (ratio.sum(axis=1)[:, None] * positions - ratio @ positions)
        shift = float(np.abs(moved - positions).max())
        positions = moved
        if shift < 1e-3:
            break
    return _rotated(positions)


def _classical_scaling(distances: Positions) -> Positions:
    squared = distances**2
    centred = -0.5 * (
        squared
        - squared.mean(axis=0, keepdims=True)
        - squared.mean(axis=1, keepdims=True)
        + squared.mean()
    )
    values, vectors = np.linalg.eigh(centred)
    positions: Positions = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    if positions.shape[1] < 2:
        positions = np.pad(positions, ((0, 0), (0, 2 - positions.shape[1])))
    return positions[:, ::-1]


def _rotated(positions: Positions) -> Positions:
    """Makes the longest axis horizontal and fixes the signs, so that all machines draw the same."""
    if len(positions) == 1:
        return np.zeros((1, 2))
    centred = positions - positions.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    rotated: Positions = centred @ axes.T
    for axis in range(rotated.shape[1]):
        extreme = np.argmax(np.abs(rotated[:, axis]).round(6))
        if rotated[extreme, axis] < 0:
            rotated[:, axis] *= -1
    return rotated


def _packed(components: list[Integers], placed: list[Positions], nodes: int) -> Positions:
    """Places the components in rows, from left to right."""
    boxes = [points.max(axis=0) - points.min(axis=0) for points in placed]
    area = sum(float((box[0] + _GAP) * (box[1] + _GAP)) for box in boxes)
    widest = max(float(box[0]) for box in boxes)
    width = max(float(np.sqrt(area * _ASPECT_RATIO)), widest)
    positions = np.zeros((nodes, 2))
    x = y = row_height = 0.0
    for component, points, box in zip(components, placed, boxes, strict=True):
        if x > 0 and x + box[0] > width:
            x, y, row_height = 0.0, y + row_height + _GAP, 0.0
        positions[component] = points - points.min(axis=0) + (x, y)
        x += float(box[0]) + _GAP
        row_height = max(row_height, float(box[1]))
    return positions
