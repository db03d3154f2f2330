"""Draws the footer: class probabilities before and after the edits, and the legend."""

from __future__ import annotations

from collections.abc import Iterator

from d4explain.contracts.features.gnn_names import GnnNames
from service.drawing.graph_svg import edge_pairs
from service.drawing.node_types import NodeTypes
from service.drawing.page_size import MARGIN
from service.drawing.svg_elements import bar_element, shortened, text_element
from service.graph_io.chosen_graph import ChosenGraph

_MAX_CLASSES = 8
_ROW_HEIGHT = 26  # of the probabilities
_LEGEND_ROW_HEIGHT = 24
_LEGEND_LEFT = 540.0
_BAR_LEFT = MARGIN + 112
_BAR_LENGTH = 210.0
_MIN_SHOWN_CHANGE = 0.005  # the numbers have two decimals


def footer_height(chosen: ChosenGraph, types: NodeTypes) -> int:
    legend_rows = (4 if chosen.before is not None else 3) + (chosen.node is not None)
    legend_rows += len(types.entries) + bool(types.entries)
    probabilities = 46 + _ROW_HEIGHT * len(_shown_classes(chosen))
    return max(probabilities, 30 + _LEGEND_ROW_HEIGHT * legend_rows) + 24


def class_name(index: int, names: GnnNames) -> str:
    return names.class_name(index) or f"class {index}"


def draw_probabilities(chosen: ChosenGraph, names: GnnNames, top: float) -> Iterator[str]:
    caption = "Probability before and after" if chosen.before else "The pattern alone"
    if chosen.coverage is not None:
        caption = "Probability"
    if chosen.importances:
        caption = "Probability with all edges and with these alone"
    yield text_element(MARGIN, top, caption, "ink", 13, weight=650)
    for row, index in enumerate(_shown_classes(chosen)):
        y = top + 14 + _ROW_HEIGHT * row
        after = chosen.after.probabilities[index]
        name = shortened(class_name(index, names), 15)
        weight = 650 if index == chosen.after.predicted_class else 400
        yield text_element(MARGIN, y + 12, name, "ink", 12.5, weight=weight)
        yield bar_element(_BAR_LEFT, y + 2, _BAR_LENGTH, "track", 13)
        if chosen.before is None:
            yield bar_element(_BAR_LEFT, y + 2, _BAR_LENGTH * after, "after", 13)
            numbers = f"{after:.2f}"
        else:
            before = chosen.before.probabilities[index]
            yield bar_element(_BAR_LEFT, y + 2, _BAR_LENGTH * before, "before", 5)
            style = _change_style(before, after)
            yield bar_element(_BAR_LEFT, y + 8, _BAR_LENGTH * after, style, 7)
            numbers = f"{before:.2f} → {after:.2f}"
        yield text_element(_BAR_LEFT + _BAR_LENGTH + 10, y + 12, numbers, "muted", 12)


def draw_legend(
    chosen: ChosenGraph, types: NodeTypes, top: float, left: float = _LEGEND_LEFT
) -> Iterator[str]:
    yield text_element(left, top, "Edges", "ink", 13, weight=650)
    pairs = edge_pairs(chosen)
    owner = "pattern" if chosen.coverage is None else "graph"
    entries = [("kept", f"of the {owner}", len(pairs.kept))]
    if chosen.pattern is not None and chosen.pattern.occurrences:
        entries.append(("found", "where it occurs", len(pairs.kept)))
    if chosen.before is not None:
        entries = [
            ("kept", "kept", len(pairs.kept)),
            ("added", "added", len(pairs.added)),
            ("removed", "removed", len(pairs.removed)),
        ]
    if chosen.importances:
        kept = sum(edge.kept for edge in chosen.importances)
        entries = [
            ("found", "in the explanation", kept),
            ("kept", "other", len(chosen.importances) - kept),
        ]
    y = top + 22
    for style, name, count in entries:
        yield f'<line class="{style}" x1="{left}" y1="{y - 4}" x2="{left + 36}" y2="{y - 4}"/>'
        yield text_element(left + 46, y, f"{name} ({count})", "ink", 12.5)
        y += _LEGEND_ROW_HEIGHT
    if chosen.node is not None:
        yield f'<circle class="ring" cx="{left + 18}" cy="{y - 4}" r="7"/>'
        role = "explained" if chosen.pattern is None else "classified"
        name = f"{role}: {shortened(str(chosen.node), 12)}"
        yield text_element(left + 46, y, name, "ink", 12.5)
        y += _LEGEND_ROW_HEIGHT
    if types.entries:
        yield text_element(left, y + 2, "Nodes", "ink", 13, weight=650)
    for entry in types.entries:
        y += _LEGEND_ROW_HEIGHT
        yield f'<circle class="node k{entry.colour}" cx="{left + 18}" cy="{y - 4}" r="7"/>'
        yield text_element(
            left + 46, y, f"{shortened(entry.name, 18)} ({entry.count})", "ink", 12.5
        )


def _shown_classes(chosen: ChosenGraph) -> list[int]:
    """All classes, or the most probable ones if there are many."""
    after = chosen.after.probabilities
    before = chosen.before.probabilities if chosen.before else after
    highest = [max(p, q) for p, q in zip(before, after, strict=True)]
    order = sorted(range(len(highest)), key=lambda index: (-highest[index], index))
    return sorted(order[:_MAX_CLASSES])


def _change_style(before: float, after: float) -> str:
    if abs(after - before) < _MIN_SHOWN_CHANGE:
        return "after"
    return "gain" if after > before else "loss"
