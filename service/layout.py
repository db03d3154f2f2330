"""Node positions for drawings: stress majorisation (Gansner, Koren, North 2004), deterministic.

NetworkX's spring layout tangles sparse graphs, and its better ones need SciPy, which the API
process does without.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.float64]  # [node, 2]; neighbours are about 1 apart

_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
_GAP = 1.0  # between components
_ASPECT = 1.6  # wanted width / height of several components together


def layout(nodes: int, edges: Sequence[tuple[int, int]]) -> Positions:
    """Positions of nodes 0 … nodes−1; each component by itself, then packed in rows."""
    neighbours: list[list[int]] = [[] for _ in range(nodes)]
    for source, target in edges:
        neighbours[source].append(target)
        neighbours[target].append(source)
    components = _components(neighbours)
    drawn = [_component_layout(component, neighbours) for component in components]
    return _packed(components, drawn, nodes)


def _components(neighbours: list[list[int]]) -> list[list[int]]:
    """Largest first; ties by their smallest node."""
    unseen = set(range(len(neighbours)))
    components = []
    for start in range(len(neighbours)):
        if start in unseen:
            component = sorted(_distances(start, neighbours))
            unseen.difference_update(component)
            components.append(component)
    return sorted(components, key=lambda component: (-len(component), component[0]))


def _distances(start: int, neighbours: list[list[int]]) -> dict[int, int]:
    """Hops from `start` to every node that can be reached."""
    hops = {start: 0}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for other in neighbours[node]:
            if other not in hops:
                hops[other] = hops[node] + 1
                queue.append(other)
    return hops


def _component_layout(component: list[int], neighbours: list[list[int]]) -> Positions:
    if len(component) == 1:
        return np.zeros((1, 2))
    index = {node: i for i, node in enumerate(component)}
    size = len(component)
    hops = np.zeros((size, size))
    for node in component:
        for other, distance in _distances(node, neighbours).items():
            hops[index[node], index[other]] = distance
    return _stress_majorisation(hops)


def _stress_majorisation(hops: Positions) -> Positions:
    """Minimises Σ (|x_i − x_j| − d_ij)² / d_ij², from classical scaling."""
    size = len(hops)
    positions = _classical_scaling(hops)
    # Twins (leaves of one hub) start on one point and would never part.
    angle = np.arange(size) * _GOLDEN_ANGLE
    positions = positions + 0.15 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    weights = 1.0 / np.maximum(hops, 1.0) ** 2
    np.fill_diagonal(weights, 0.0)
    # Pseudo-inverse of the weights' Laplacian, whose null space is the constant vector.
    inverse = np.linalg.inv(np.diag(weights.sum(axis=1)) - weights + 1 / size) - 1 / size
    pull = weights * hops
    for _ in range(300 if size <= 128 else 60):
        across, down = (positions[:, None, axis] - positions[None, :, axis] for axis in (0, 1))
        ratio = pull / np.maximum(np.hypot(across, down), 1e-6)  # [node, node]
        moved = inverse @ (ratio.sum(axis=1)[:, None] * positions - ratio @ positions)
        shift = float(np.abs(moved - positions).max())
        positions = moved
        if shift < 1e-3:
            break
    return _upright(positions)


def _classical_scaling(hops: Positions) -> Positions:
    squared = hops**2
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
    centred = positions - positions.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned: Positions = centred @ axes.T
    for axis in range(turned.shape[1]):
        extreme = np.argmax(np.abs(turned[:, axis]).round(6))
        if turned[extreme, axis] < 0:
            turned[:, axis] *= -1
    return turned


def _packed(components: list[list[int]], drawn: list[Positions], nodes: int) -> Positions:
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
