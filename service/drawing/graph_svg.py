"""Draws the nodes and edges of a graph: kept, added and removed edges differ in style."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from service.drawing.layout import Positions, layout
from service.drawing.node_types import NodeTypes
from service.drawing.page_size import HEADER_HEIGHT, MARGIN, WIDTH
from service.drawing.svg_elements import escaped, shortened, text_element
from service.graph_io.chosen_graph import ChosenGraph

_MAX_LABELLED_NODES = 36  # more labels would cover the graph; tooltips remain
_MIN_RADIUS, _MAX_RADIUS = 3.5, 15.0
_MAX_SCALE = 96.0  # pixels per unit of the layout


@dataclass(frozen=True)
class _Canvas:
    """Positions and radius of the nodes, and the height of the graph, in pixels."""

    points: list[list[float]]
    radius: float
    height: float


_LEAST_IMPORTANCE = 1e-12  # if all edges have none


@dataclass(frozen=True)
class EdgePairs:
    """Edges by node position; `kept` edges are neither added nor removed."""

    kept: list[tuple[int, int]]
    added: list[tuple[int, int]]
    removed: list[tuple[int, int]]


def edge_pairs(chosen: ChosenGraph) -> EdgePairs:
    added, removed = chosen.edited_pairs("add"), chosen.edited_pairs("remove")
    new = {frozenset(pair) for pair in added}
    kept = [pair for pair in chosen.edge_pairs() if frozenset(pair) not in new]
    return EdgePairs(kept, added, removed)


def draw_graph(
    chosen: ChosenGraph, types: NodeTypes, check: Callable[[], None]
) -> tuple[list[str], float]:
    """SVG elements and their height."""
    pairs = edge_pairs(chosen)
    every_pair = pairs.kept + pairs.added + pairs.removed
    canvas = _canvas(layout(len(chosen.graph.nodes), every_pair, check))
    return [
        *(_important(canvas, chosen) if chosen.importances else _lines(canvas, pairs.kept, "kept")),
        *_lines(canvas, pairs.removed, "removed"),
        *_lines(canvas, pairs.added, "added"),
        *_circles(canvas, chosen, types),
        *_labels(canvas, chosen),  # last, so that no circle covers a label
    ], canvas.height


def _canvas(points: Positions) -> _Canvas:
    low, high = points.min(axis=0), points.max(axis=0)
    extent = np.maximum(high - low, 1e-9)
    available = np.array([WIDTH - 2 * MARGIN - 40, 440.0])
    scale = min(float((available / extent).min()), _MAX_SCALE)
    scaled = (points - (low + high) / 2) * scale
    height = max(float(extent[1]) * scale + 76, 200.0)
    # Distances outside these bounds do not change the radius.
    distance = _min_distance(scaled, low=_MIN_RADIUS / 0.48, high=_MAX_RADIUS / 0.48)
    return _Canvas(
        points=(scaled + np.array([WIDTH / 2, HEADER_HEIGHT + height / 2])).tolist(),
        radius=float(np.clip(min(0.24 * scale, 0.48 * distance), _MIN_RADIUS, _MAX_RADIUS)),
        height=height,
    )


def _min_distance(points: Positions, low: float, high: float) -> float:
    """Least distance between two points, at most `high`; any value up to `low` if below it."""
    by_x = points[np.argsort(points[:, 0])]
    least = high
    for step in range(1, len(by_x)):
        dx, dy = (by_x[step:] - by_x[:-step]).T
        if dx.min() >= least or least <= low:
            break
        least = min(least, float(np.hypot(dx, dy).min()))
    return least


def _lines(canvas: _Canvas, pairs: list[tuple[int, int]], style: str) -> Iterator[str]:
    for source, target in pairs:
        (x1, y1), (x2, y2) = canvas.points[source], canvas.points[target]
        yield f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _important(canvas: _Canvas, chosen: ChosenGraph) -> Iterator[str]:
    """Edges of the explanation, the wider the more important; the other edges behind them."""
    positions = chosen.positions
    highest = max(*(edge.importance for edge in chosen.importances), _LEAST_IMPORTANCE)
    for edge in sorted(chosen.importances, key=lambda edge: edge.kept):
        (x1, y1), (x2, y2) = (canvas.points[positions[end]] for end in (edge.source, edge.target))
        share = max(edge.importance, 0) / highest
        width = f' style="stroke-width:{2 + 5 * share:.1f}"' if edge.kept else ""
        name = escaped(f"{edge.source}–{edge.target}: {edge.importance:.3g}")  # noqa: RUF001
        yield (
            f'<line class="{"found" if edge.kept else "kept"}"{width} x1="{x1:.1f}" y1="{y1:.1f}" '
            f'x2="{x2:.1f}" y2="{y2:.1f}"><title>{name}</title></line>'
        )


def _circles(canvas: _Canvas, chosen: ChosenGraph, types: NodeTypes) -> Iterator[str]:
    edited = _edited_nodes(chosen)
    entries = types.of_nodes or (None,) * len(chosen.graph.nodes)
    for node, entry, (x, y) in zip(chosen.graph.nodes, entries, canvas.points, strict=True):
        style = f"node k{entry.colour if entry else 0}" + (" touched" if node.id in edited else "")
        kind = f": {entry.name}" if entry else ""
        yield (
            f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="{canvas.radius:.1f}">'
            f"<title>node {escaped(f'{node.id}{kind}')}</title></circle>"
        )
        if node.id == chosen.node:
            yield f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="{canvas.radius + 4:.1f}"/>'


def _labels(canvas: _Canvas, chosen: ChosenGraph) -> Iterator[str]:
    """Short ids inside the circles, longer ones below if there is room."""
    edited = _edited_nodes(chosen)
    has_room = len(chosen.graph.nodes) <= _MAX_LABELLED_NODES
    for node, (x, y) in zip(chosen.graph.nodes, canvas.points, strict=True):
        name = str(node.id)
        if len(name) <= 3 and canvas.radius >= 8:
            size = canvas.radius * (0.95 if len(name) < 3 else 0.75)
            yield text_element(x, y + size * 0.36, name, "inside", size, anchor="middle")
        elif has_room or node.id in edited or node.id == chosen.node:
            below = y + canvas.radius + 11
            yield text_element(x, below, shortened(name, 12), "beside", 10, anchor="middle")


def _edited_nodes(chosen: ChosenGraph) -> set[int | str]:
    return {end for edit in chosen.edits for end in (edit.source, edit.target)}
