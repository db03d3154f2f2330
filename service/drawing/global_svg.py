"""Draws all global counterfactuals of a result in one picture, each with its shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.results import GeneratedMolecule
from service.drawing.footer_svg import class_name
from service.drawing.molecule_svg import draw_generated
from service.drawing.node_types import NodeTypes, node_types
from service.drawing.page_size import HEADER_HEIGHT, MARGIN, WIDTH
from service.drawing.panel import NODE_RADIUS, placed_in_panel
from service.drawing.svg import MAX_ATOMS, STYLE
from service.drawing.svg_elements import bar_element, escaped, shortened, text_element
from service.graph_io.chosen_graph import (
    ChosenCoverage,
    ChosenGraph,
    chosen_graph,
    global_counterfactual_count,
)
from store.molecules import MoleculeError

_COLUMNS = 2
_GAP = 24.0  # between two panels
_PANEL_WIDTH = (WIDTH - 2 * MARGIN - _GAP * (_COLUMNS - 1)) / _COLUMNS
_GRAPH_HEIGHT = 190.0
_CAPTION_HEIGHT = 62.0
_LEGEND_ROW_HEIGHT = 24
_LEGEND_COLUMNS = 4


@dataclass(frozen=True)
class _Panel:
    number: int
    chosen: ChosenGraph
    coverage: ChosenCoverage
    types: NodeTypes
    molecule: list[str] | None  # SVG elements; None if it is drawn as a graph
    height: float  # of the picture


def global_svg(result: bytes, names: GnnNames, check: Callable[[], None]) -> str:
    panels = list(_panels(result, names, check))
    coverage = panels[0].coverage
    total = sum(panel.coverage.added_share for panel in panels)
    source = class_name(coverage.source_class, names)
    title = f"Graphs of another class near to those of {shortened(source, 30)}"
    words = (
        f"{total:.1%} of the {coverage.source_count:,} graphs that the GNN calls "
        f"{shortened(source, 30)} are within θ = {coverage.theta:g} of one of them"
    )
    elements: list[str] = []
    top = float(HEADER_HEIGHT)
    for first in range(0, len(panels), _COLUMNS):
        row = panels[first : first + _COLUMNS]
        height = max(panel.height for panel in row)
        for column, panel in enumerate(row):
            left = MARGIN + column * (_PANEL_WIDTH + _GAP)
            elements += _caption(panel, names, left, top)
            elements += _picture(panel, left, top + _CAPTION_HEIGHT, height, check)
        top += _CAPTION_HEIGHT + height + _GAP
    note = (
        f"near: share of the graphs of {shortened(source, 30)} within θ; "
        "adds (blue): those of them that are near to no graph before it"
    )
    elements.append(text_element(MARGIN, top + 4, note, "muted", 12))
    top += _LEGEND_ROW_HEIGHT
    legend = _legend(panels, top)
    top += _LEGEND_ROW_HEIGHT * -(-len(legend) // (2 * _LEGEND_COLUMNS)) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top:.0f}" '
        f'viewBox="0 0 {WIDTH} {top:.0f}" role="img">',
        f"<title>{escaped(f'{title}: {words}')}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="bg" width="{WIDTH}" height="{top:.0f}" rx="8"/>',
        text_element(MARGIN, 40, title, "ink", 20, weight=650),
        text_element(MARGIN, 63, words, "ink", 14),
        *elements,
        *legend,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _panels(result: bytes, names: GnnNames, check: Callable[[], None]) -> Iterator[_Panel]:
    chosen = [
        chosen_graph(result, number, 0)
        for number in range(global_counterfactual_count(result) or 0)
    ]
    # Types of all graphs together, so that a colour means the same in each.
    types = node_types([node for one in chosen for node in one.graph.nodes], names)
    first = 0
    for number, one in enumerate(chosen):
        check()
        assert one.coverage is not None
        nodes = len(one.graph.nodes)
        own = NodeTypes(types.entries, types.of_nodes[first : first + nodes])
        first += nodes
        molecule = _molecule(one)
        if molecule is None:
            yield _Panel(number, one, one.coverage, own, None, _GRAPH_HEIGHT)
        else:
            yield _Panel(number, one, one.coverage, own, molecule[0], molecule[1])


def _molecule(chosen: ChosenGraph) -> tuple[list[str], float] | None:
    molecule = chosen.molecule
    if not isinstance(molecule, GeneratedMolecule) or len(molecule.atoms) > MAX_ATOMS:
        return None
    try:
        return draw_generated(molecule, chosen.edge_pairs(), None, int(_PANEL_WIDTH))
    except (MoleculeError, ImportError):  # RDKit's drawing module needs additional libraries
        return None


def _caption(panel: _Panel, names: GnnNames, left: float, top: float) -> Iterator[str]:
    prediction, coverage = panel.chosen.after, panel.coverage
    predicted = prediction.predicted_class
    name = shortened(class_name(predicted, names), 22)
    title = f"{panel.number + 1}. {name} ({prediction.probabilities[predicted]:.2f})"
    shares = f"near {coverage.covered_share:.1%}; adds {coverage.added_share:.1%}"
    yield text_element(left, top + 16, title, "ink", 13, weight=650)
    yield text_element(left + _PANEL_WIDTH, top + 16, shares, "muted", 12, anchor="end")
    yield bar_element(left, top + 26, _PANEL_WIDTH, "track", 9)
    yield bar_element(left, top + 26, _PANEL_WIDTH * coverage.covered_share, "before", 9)
    yield bar_element(left, top + 26, _PANEL_WIDTH * coverage.added_share, "after", 9)


def _picture(
    panel: _Panel, left: float, top: float, height: float, check: Callable[[], None]
) -> Iterator[str]:
    if panel.molecule is not None:
        down = top + (height - panel.height) / 2
        yield f'<g class="molecule" transform="translate({left:.1f} {down:.1f})">'
        yield from panel.molecule
        yield "</g>"
        return
    nodes, pairs = panel.chosen.graph.nodes, panel.chosen.edge_pairs()
    centre = (left + _PANEL_WIDTH / 2, top + height / 2)
    placed = placed_in_panel(len(nodes), pairs, centre, (_PANEL_WIDTH, height), check)
    for source, target in pairs:
        (x1, y1), (x2, y2) = placed[source], placed[target]
        yield f'<line class="kept" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
    entries = panel.types.of_nodes or (None,) * len(nodes)
    for node, entry, (x, y) in zip(nodes, entries, placed, strict=True):
        kind = f": {entry.name}" if entry else ""
        yield (
            f'<circle class="node k{entry.colour if entry else 0}" cx="{x:.1f}" cy="{y:.1f}" '
            f'r="{NODE_RADIUS:.1f}"><title>{escaped(f"node {node.id}{kind}")}</title></circle>'
        )


def _legend(panels: Sequence[_Panel], top: float) -> list[str]:
    """Node types of the graphs that are not drawn as molecules, whose atoms have names."""
    if all(panel.molecule is not None for panel in panels):
        return []
    elements = []
    for place, entry in enumerate(panels[0].types.entries):
        left = MARGIN + (place % _LEGEND_COLUMNS) * (WIDTH - 2 * MARGIN) / _LEGEND_COLUMNS
        y = top + _LEGEND_ROW_HEIGHT * (place // _LEGEND_COLUMNS)
        name = f"{shortened(entry.name, 18)} ({entry.count})"
        elements.append(f'<circle class="node k{entry.colour}" cx="{left + 7}" cy="{y}" r="7"/>')
        elements.append(text_element(left + 22, y + 4, name, "ink", 12.5))
    return elements
