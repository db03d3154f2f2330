"""Draws reference graphs side by side, with the occurrence of a pattern marked in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from d4explain.contracts.results import ClassOccurrence, NodeId
from service.drawing.page_size import MARGIN, WIDTH
from service.drawing.panel import NODE_RADIUS, placed_in_panel
from service.drawing.svg_elements import text_element

_GAP = 24.0  # between two panels
_HEIGHT = 210.0  # of a graph
_CAPTION_HEIGHT = 36.0


def occurrences_height(occurrences: Sequence[ClassOccurrence]) -> float:
    return _CAPTION_HEIGHT + _HEIGHT + 12 if occurrences else 0.0


def draw_occurrences(
    occurrences: Sequence[ClassOccurrence],
    node: NodeId | None,
    top: float,
    check: Callable[[], None],
) -> Iterator[str]:
    """One panel per occurrence; `node` is the classified node of the pattern."""
    unit = "graph" if node is None else "neighbourhood"
    width = (WIDTH - 2 * MARGIN - _GAP * (len(occurrences) - 1)) / max(len(occurrences), 1)
    for place, occurrence in enumerate(occurrences):
        if occurrence.shown is None:
            continue
        left = MARGIN + place * (width + _GAP)
        caption = f"In reference {unit} {occurrence.graph}"
        yield text_element(left, top + 22, caption, "ink", 13, weight=650)
        centre = (left + width / 2, top + _CAPTION_HEIGHT + _HEIGHT / 2)
        ringed = None if node is None else occurrence.nodes[int(node)]
        yield from _graph(occurrence, ringed, centre, width, check)


def _graph(
    occurrence: ClassOccurrence,
    ringed: int | None,
    centre: tuple[float, float],
    width: float,
    check: Callable[[], None],
) -> Iterator[str]:
    """Nodes of stored reference graphs are numbered, so ids are positions."""
    graph, marked = occurrence.shown, set(occurrence.nodes)
    assert graph is not None
    pairs = [(int(edge.source), int(edge.target)) for edge in graph.edges]
    placed = placed_in_panel(len(graph.nodes), pairs, centre, (width, _HEIGHT), check)
    inside = {frozenset(pair) for pair in combinations(marked, 2)}
    # Marked edges come last, so that no other edge covers them.
    for source, target in sorted(pairs, key=lambda pair: frozenset(pair) in inside):
        style = "found" if frozenset((source, target)) in inside else "kept"
        (x1, y1), (x2, y2) = placed[source], placed[target]
        yield f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
    for node, (x, y) in enumerate(placed):
        style = "node k0" if node in marked else "node faint"
        yield (
            f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="{NODE_RADIUS:.1f}">'
            f"<title>node {node}</title></circle>"
        )
        if node == ringed:
            yield f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="{NODE_RADIUS + 3:.1f}"/>'
