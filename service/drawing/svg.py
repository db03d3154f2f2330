"""Draws one graph of an explanation as SVG: edges, edits and their effect on the prediction."""

from __future__ import annotations

from collections.abc import Callable

from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.results import Edit, Effect, Molecule, Prediction, Support
from service.drawing.footer_svg import class_name, draw_legend, draw_probabilities, footer_height
from service.drawing.graph_svg import draw_graph
from service.drawing.molecule_svg import draw_generated, draw_molecule
from service.drawing.node_types import NodeTypes, node_types
from service.drawing.occurrence_svg import draw_occurrences, occurrences_height
from service.drawing.page_size import HEADER_HEIGHT, MARGIN, WIDTH
from service.drawing.svg_elements import escaped, text_element
from service.graph_io.chosen_graph import ChosenCoverage, ChosenGraph
from store.molecules import MoleculeError

# RDKit blocks other threads while it computes coordinates: for 400 atoms, seconds.
MAX_ATOMS = 150
_UNNAMED = GnnNames()
_PICTURE_WIDTH = WIDTH + 190  # with the legend at the right

_LIGHT_STYLE = """
text{font-family:ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif}
.bg{fill:#ffffff}.ink{fill:#1f2328}.muted{fill:#59636e}.line{stroke:#d1d9e0}
.kept{stroke:#a3adb8;stroke-width:1.6}.added{stroke:#1a7f37;stroke-width:3.2}
.removed{stroke:#cf222e;stroke-width:2.6;stroke-dasharray:6 5}
.node{stroke:#ffffff;stroke-width:1.5}.touched{stroke:#1f2328;stroke-width:2.2}
.found{stroke:#0969da;stroke-width:3.2}.faint{fill:#c8d1da}
.ring{fill:none;stroke:#8250df;stroke-width:3}.spot{fill:transparent}.molecule{color:#1f2328}
.k0{fill:#6ea8dc}.k1{fill:#e8b04b}.k2{fill:#a58bd8}.k3{fill:#5fb7ae}.k4{fill:#d98ab3}.k5{fill:#a8a090}
.inside{fill:#10222f;font-weight:600}.beside{fill:#1f2328;stroke:#ffffff;stroke-width:3;paint-order:stroke}
.track{fill:#eff2f5}.before{fill:#a3adb8}.after{fill:#0969da}.gain{fill:#1a7f37}.loss{fill:#cf222e}
"""
_DARK_STYLE = """@media (prefers-color-scheme:dark){
.bg{fill:#0d1117}.ink{fill:#e6edf3}.muted{fill:#9198a1}.line{stroke:#30363d}
.kept{stroke:#656c76}.added{stroke:#3fb950}.removed{stroke:#f85149}
.node{stroke:#0d1117}.touched{stroke:#f0f6fc}.ring{stroke:#ab7df8}
.found{stroke:#4493f8}.faint{fill:#3d444d}
.beside{fill:#e6edf3;stroke:#0d1117}.molecule{color:#e6edf3}
.track{fill:#21262d}.before{fill:#656c76}.after{fill:#4493f8}.gain{fill:#3fb950}.loss{fill:#f85149}
}
"""
STYLE = _LIGHT_STYLE + _DARK_STYLE


def to_svg(
    chosen: ChosenGraph,
    names: GnnNames = _UNNAMED,
    check: Callable[[], None] = lambda: None,
) -> str:
    molecule = _draw_molecule(chosen)
    # A structural formula shows the elements; circles need colours and a legend.
    types = node_types(chosen.graph.nodes, names) if molecule is None else NodeTypes()
    picture, picture_height = molecule or draw_graph(chosen, types, check)
    pattern = chosen.pattern
    places = () if pattern is None else pattern.occurrences
    footer_top = HEADER_HEIGHT + picture_height + occurrences_height(places)
    title = chosen.title
    if pattern is not None and names.class_name(pattern.target_class) is not None:
        title = f"Pattern of class {names.class_name(pattern.target_class)}"
    height = f"{footer_top + footer_height(chosen, types):.0f}"
    effect, right = _effect(chosen, names), WIDTH - MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escaped(f'{title}: {effect}')}</title>",
        f"<desc>{escaped(_description(chosen))}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="bg" width="{WIDTH}" height="{height}" rx="8"/>',
        text_element(MARGIN, 40, title, "ink", 20, weight=650),
        text_element(MARGIN, 63, effect, "ink", 14),
        text_element(right, 40, chosen.subtitle, "muted", 12.5, anchor="end"),
        text_element(right, 63, _size(chosen), "muted", 12.5, anchor="end"),
        *picture,
        *draw_occurrences(places, chosen.node, HEADER_HEIGHT + picture_height, check),
        f'<line class="line" x1="{MARGIN}" y1="{footer_top:.0f}" '
        f'x2="{right}" y2="{footer_top:.0f}"/>',
        *draw_probabilities(chosen, names, footer_top + 30),
        *draw_legend(chosen, types, footer_top + 30),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def edits_picture(chosen: ChosenGraph, names: GnnNames = _UNNAMED) -> str:
    """The graph with its edits and a legend, without titles; light, for printed pages."""
    molecule = _draw_molecule(chosen)
    types = node_types(chosen.graph.nodes, names) if molecule is None else NodeTypes()
    picture, picture_height = molecule or draw_graph(chosen, types, lambda: None)
    legend = 22 * (5 + len(types.entries)) + 12
    top, height = HEADER_HEIGHT, max(picture_height, legend)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_PICTURE_WIDTH}" '
        f'height="{height:.0f}" viewBox="0 {top} {_PICTURE_WIDTH} {height:.0f}" role="img">',
        f"<title>{escaped(_description(chosen))}</title>",
        f"<style>{_LIGHT_STYLE}</style>",
        *picture,
        *draw_legend(chosen, types, top + 30, WIDTH + 16),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _draw_molecule(chosen: ChosenGraph) -> tuple[list[str], float] | None:
    """A structural formula and its height; None if it is not a molecule or RDKit cannot draw it."""
    molecule = chosen.molecule
    if molecule is None or len(molecule.atoms) > MAX_ATOMS:
        return None
    width = WIDTH - 2 * MARGIN
    try:
        elements, height = (
            draw_molecule(molecule, chosen.edits, chosen.node, width)
            if isinstance(molecule, Molecule)
            else draw_generated(molecule, chosen.edge_pairs(), chosen.node, width)
        )
    except (MoleculeError, ImportError):  # RDKit's drawing module needs additional libraries
        return None
    group = f'<g class="molecule" transform="translate({MARGIN} {HEADER_HEIGHT})">'
    return [group, *elements, "</g>"], height


def _effect(chosen: ChosenGraph, names: GnnNames) -> str:
    after = _shown_prediction(chosen.after, names)
    if chosen.pattern is not None and chosen.pattern.support is not None:
        return _evidence(chosen.pattern.support, chosen.pattern.effect)
    if chosen.coverage is not None:
        return f"{after}; {covered_words(chosen.coverage, names)}"
    if chosen.before is None:
        return f"The GNN predicts {after}"
    before = _shown_prediction(chosen.before, names)
    if chosen.importances:
        return f"{before}; with these edges alone {after}"
    return f"{before} {'becomes' if chosen.is_answer else 'stays'} {after}"


def covered_words(coverage: ChosenCoverage, names: GnnNames) -> str:
    source = class_name(coverage.source_class, names)
    return f"within θ = {coverage.theta:g} of {coverage.covered_share:.1%} of {source}"


def _evidence(support: Support, effect: Effect | None) -> str:
    elsewhere = "" if support.elsewhere is None else f", in {support.elsewhere:.0%} of others"
    moved = "" if effect is None else f"; effect {effect.mean:+.1f} log-odds"
    return f"In {support.in_class:.0%} of the class{elsewhere}{moved}"


def _shown_prediction(prediction: Prediction, names: GnnNames) -> str:
    predicted = prediction.predicted_class
    return f"{class_name(predicted, names)} ({prediction.probabilities[predicted]:.2f})"


def _size(chosen: ChosenGraph) -> str:
    size = f"{len(chosen.graph.nodes)} nodes, {len(chosen.graph.edges)} edges"
    if chosen.before is None:
        return size
    if chosen.importances:
        return size
    edits = len(chosen.edits)
    return f"{edits} edit{'' if edits == 1 else 's'} · {size}"


def _shown_edit(edit: Edit) -> str:
    types = [edit.source_type, edit.target_type]
    named = f" ({types[0] or '?'}–{types[1] or '?'})" if any(types) else ""  # noqa: RUF001
    return f"{edit.action} {edit.source}–{edit.target}{named}"  # noqa: RUF001


def _description(chosen: ChosenGraph) -> str:
    node = "" if chosen.node is None else f"Explained node: {chosen.node}. "
    if chosen.importances:
        kept = [f"{edge.source}–{edge.target}" for edge in chosen.importances if edge.kept]  # noqa: RUF001
        return f"{_size(chosen)}. {node}The prediction rests on {', '.join(kept)}."
    edits = [_shown_edit(edit) for edit in chosen.edits]
    return f"{_size(chosen)}. {node}" + (f"Edits: {', '.join(edits)}." if edits else "No edits.")
