"""Places a graph in a panel, one of several graphs of a drawing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from service.drawing.layout import layout

NODE_RADIUS = 5.0
_MAX_SCALE = 44.0  # pixels per unit of the layout


def placed_in_panel(
    nodes: int,
    pairs: list[tuple[int, int]],
    centre: tuple[float, float],
    size: tuple[float, float],
    check: Callable[[], None],
) -> list[list[float]]:
    """x and y of each node, in pixels."""
    points = layout(nodes, pairs, check)
    low, high = points.min(axis=0), points.max(axis=0)
    extent = np.maximum(high - low, 1e-9)
    room = np.array(size) - 4 * NODE_RADIUS
    scale = min(float((room / extent).min()), _MAX_SCALE)
    placed: list[list[float]] = ((points - (low + high) / 2) * scale + np.array(centre)).tolist()
    return placed
