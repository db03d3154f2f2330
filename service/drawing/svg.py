"""A chosen graph as an SVG drawing: what stayed, was added, was removed, and the effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np

from d4explain.contracts.results import Molecule, Prediction, ResultNode
from service.drawing.layout import Positions, layout
from service.drawing.molecule_svg import draw_generated, draw_molecule
from service.graph_io.chosen_graph import ChosenGraph
from store.gnn_files.molecules import MoleculeError

_WIDTH = 760
_MARGIN = 32
_HEADER = 84
_MOST_LABELS = 36  # beside nodes; beyond it they would cover the graph, tooltips remain
_MOST_CLASSES = 8
_RADII = (3.5, 15.0)  # smallest and largest of a node
# RDKit holds the interpreter while it looks for coordinates, of 400 atoms for seconds.
_MOST_ATOMS = 150
_MOST_KINDS = 6  # node colours that can still be told apart

_STYLE = """
text{font-family:ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif}
.bg{fill:#ffffff}.ink{fill:#1f2328}.muted{fill:#59636e}.line{stroke:#d1d9e0}
.kept{stroke:#a3adb8;stroke-width:1.6}.added{stroke:#1a7f37;stroke-width:3.2}
.removed{stroke:#cf222e;stroke-width:2.6;stroke-dasharray:6 5}
.node{stroke:#ffffff;stroke-width:1.5}.touched{stroke:#1f2328;stroke-width:2.2}
.ring{fill:none;stroke:#8250df;stroke-width:3}.spot{fill:transparent}.molecule{color:#1f2328}
.k0{fill:#6ea8dc}.k1{fill:#e8b04b}.k2{fill:#a58bd8}.k3{fill:#5fb7ae}.k4{fill:#d98ab3}.k5{fill:#a8a090}
.inside{fill:#10222f;font-weight:600}.beside{fill:#1f2328;stroke:#ffffff;stroke-width:3;paint-order:stroke}
.track{fill:#eff2f5}.before{fill:#a3adb8}.after{fill:#0969da}.gain{fill:#1a7f37}.loss{fill:#cf222e}
@media (prefers-color-scheme:dark){
.bg{fill:#0d1117}.ink{fill:#e6edf3}.muted{fill:#9198a1}.line{stroke:#30363d}
.kept{stroke:#656c76}.added{stroke:#3fb950}.removed{stroke:#f85149}
.node{stroke:#0d1117}.touched{stroke:#f0f6fc}.ring{stroke:#ab7df8}
.beside{fill:#e6edf3;stroke:#0d1117}.molecule{color:#e6edf3}
.track{fill:#21262d}.before{fill:#656c76}.after{fill:#4493f8}.gain{fill:#3fb950}.loss{fill:#f85149}
}
"""


@dataclass(frozen=True)
class _Canvas:
    """Where nodes are, in pixels."""

    points: list[list[float]]
    radius: float
    height: float  # of the graph's part


def to_svg(
    chosen: ChosenGraph,
    class_names: Sequence[str] | None = None,
    check: Callable[[], None] = lambda: None,
) -> str:
    """The whole drawing; every text that came from a caller is escaped."""
    picture, tall = _molecule(chosen) or _graph(chosen, check)
    footer = _HEADER + tall
    rows = _class_rows(chosen)
    height = footer + max(46 + 26 * len(rows), 30 + 24 * _legend_rows(chosen)) + 24
    heading = f"{chosen.title}: {_effect(chosen, class_names)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {_WIDTH} {height:.0f}" role="img">',
        f"<title>{_text(heading)}</title>",
        f"<desc>{_text(_description(chosen))}</desc>",
        f"<style>{_STYLE}</style>",
        f'<rect class="bg" width="{_WIDTH}" height="{height:.0f}" rx="8"/>',
        _words(_MARGIN, 40, chosen.title, "ink", 20, weight=650),
        _words(_MARGIN, 63, _effect(chosen, class_names), "ink", 14),
        _words(_WIDTH - _MARGIN, 40, chosen.subtitle, "muted", 12.5, anchor="end"),
        _words(_WIDTH - _MARGIN, 63, _size(chosen), "muted", 12.5, anchor="end"),
        *picture,
        f'<line class="line" x1="{_MARGIN}" y1="{footer:.0f}" '
        f'x2="{_WIDTH - _MARGIN}" y2="{footer:.0f}"/>',
        *_probabilities(chosen, rows, class_names, footer + 30),
        *_legend(chosen, footer + 30),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _molecule(chosen: ChosenGraph) -> tuple[list[str], float] | None:
    """As chemists draw it; None for other graphs, large ones, and where RDKit cannot draw."""
    molecule = chosen.molecule
    if molecule is None or len(molecule.atoms) > _MOST_ATOMS:
        return None
    width = _WIDTH - 2 * _MARGIN
    try:
        lines, tall = (
            draw_molecule(molecule, chosen.edits, chosen.node, width)
            if isinstance(molecule, Molecule)
            else draw_generated(molecule, chosen.pairs(), chosen.node, width)
        )
    except (MoleculeError, ImportError):  # RDKit's drawing needs more libraries than the rest
        return None
    place = f'<g class="molecule" transform="translate({_MARGIN} {_HEADER})">'
    return [place, *lines, "</g>"], tall


def _graph(chosen: ChosenGraph, check: Callable[[], None]) -> tuple[list[str], float]:
    kept, added, removed = _edges(chosen)
    canvas = _canvas(layout(len(chosen.graph.nodes), kept + added + removed, check))
    return [
        *_lines(canvas, kept, "kept"),
        *_lines(canvas, removed, "removed"),
        *_lines(canvas, added, "added"),
        *_nodes(canvas, chosen),
    ], canvas.height


def _edges(
    chosen: ChosenGraph,
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]:
    added, removed = chosen.edited("add"), chosen.edited("remove")
    new = {frozenset(pair) for pair in added}
    kept = [pair for pair in chosen.pairs() if frozenset(pair) not in new]
    return kept, added, removed


def _canvas(points: Positions) -> _Canvas:
    low, high = points.min(axis=0), points.max(axis=0)
    spread = np.maximum(high - low, 1e-9)
    room = np.array([_WIDTH - 2 * _MARGIN - 40, 440.0])
    # A large scale for small graphs would only make them look lost.
    scale = min(float((room / spread).min()), 96.0)
    drawn = (points - (low + high) / 2) * scale
    height = max(float(spread[1]) * scale + 76, 200.0)
    least, most = _RADII
    # Beyond these distances the radius does not change any more.
    apart = _least_distance(drawn, enough=least / 0.48, most=most / 0.48)
    return _Canvas(
        points=(drawn + np.array([_WIDTH / 2, _HEADER + height / 2])).tolist(),
        radius=float(np.clip(min(0.24 * scale, 0.48 * apart), least, most)),
        height=height,
    )


def _least_distance(points: Positions, enough: float, most: float) -> float:
    """Between two points, if it is below `most`; at or below `enough` any distance will do."""
    ordered = points[np.argsort(points[:, 0])]
    found = most
    for step in range(1, len(ordered)):
        across, down = (ordered[step:] - ordered[:-step]).T
        if across.min() >= found or found <= enough:
            break
        found = min(found, float(np.hypot(across, down).min()))
    return found


def _lines(canvas: _Canvas, pairs: list[tuple[int, int]], kind: str) -> Iterator[str]:
    for source, target in pairs:
        (x1, y1), (x2, y2) = canvas.points[source], canvas.points[target]
        yield f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _nodes(canvas: _Canvas, chosen: ChosenGraph) -> Iterator[str]:
    kinds = _kinds(chosen.graph.nodes)
    touched = {end for edit in chosen.edits for end in (edit.source, edit.target)}
    for node, kind, (x, y) in zip(chosen.graph.nodes, kinds, canvas.points, strict=True):
        look = f"node k{kind}" + (" touched" if node.id in touched else "")
        yield (
            f'<circle class="{look}" cx="{x:.1f}" cy="{y:.1f}" r="{canvas.radius:.1f}">'
            f"<title>node {_text(str(node.id))}</title></circle>"
        )
        if node.id == chosen.node:
            yield f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="{canvas.radius + 4:.1f}"/>'
    # After all circles, so that none covers a name.
    roomy = len(chosen.graph.nodes) <= _MOST_LABELS
    for node, (x, y) in zip(chosen.graph.nodes, canvas.points, strict=True):
        name = str(node.id)
        if len(name) <= 3 and canvas.radius >= 8:
            size = canvas.radius * (0.95 if len(name) < 3 else 0.75)
            yield _words(x, y + size * 0.36, name, "inside", size, anchor="middle")
        elif roomy or node.id in touched or node.id == chosen.node:
            below = y + canvas.radius + 11
            yield _words(x, below, _short(name, 12), "beside", 10, anchor="middle")


def _kinds(nodes: Sequence[ResultNode]) -> list[int]:
    """A colour per node: that of its type where features are one-hot, else one for all."""
    types = [_one_hot(node.x) for node in nodes]
    present = sorted({kind for kind in types if kind is not None})
    if None in types or not 1 < len(present) <= _MOST_KINDS:
        return [0] * len(nodes)
    return [present.index(kind) for kind in types if kind is not None]


def _one_hot(x: Sequence[float]) -> int | None:
    if len(x) > 1 and sorted(x)[-2:] == [0.0, 1.0] and min(x) == 0.0:
        return list(x).index(1.0)
    return None


def _class_rows(chosen: ChosenGraph) -> list[int]:
    """The classes whose probabilities are drawn: all, or those with most weight."""
    before = chosen.before.probabilities if chosen.before else chosen.after.probabilities
    after = chosen.after.probabilities
    weight = {i: max(p, q) for i, (p, q) in enumerate(zip(before, after, strict=True))}
    heaviest = sorted(weight, key=lambda i: (-weight[i], i))[:_MOST_CLASSES]
    return sorted(heaviest)


def _probabilities(
    chosen: ChosenGraph, rows: list[int], names: Sequence[str] | None, top: float
) -> Iterator[str]:
    caption = "Probability before and after" if chosen.before else "Probability"
    yield _words(_MARGIN, top, caption, "ink", 13, weight=650)
    left, length = _MARGIN + 112, 210.0
    for row, index in enumerate(rows):
        y = top + 14 + 26 * row
        after = chosen.after.probabilities[index]
        before = chosen.before.probabilities[index] if chosen.before else None
        chosen_class = index == chosen.after.predicted_class
        yield _words(
            _MARGIN,
            y + 12,
            _short(_class(index, names), 15),
            "ink",
            12.5,
            weight=650 if chosen_class else 400,
        )
        yield _bar(left, y + 2, length, "track", 13)
        look = "after"
        if before is not None and chosen.before is not None:
            yield _bar(left, y + 2, length * before, "before", 5)
            if abs(after - before) >= 0.005:  # what the figures beside the bar show
                look = "gain" if after > before else "loss"
            yield _bar(left, y + 8, length * after, look, 7)
            figures = f"{before:.2f} → {after:.2f}"
        else:
            yield _bar(left, y + 2, length * after, look, 13)
            figures = f"{after:.2f}"
        yield _words(left + length + 10, y + 12, figures, "muted", 12)


def _legend(chosen: ChosenGraph, top: float) -> Iterator[str]:
    left = 540.0
    yield _words(left, top, "Edges", "ink", 13, weight=650)
    counts = {
        "kept": len(_edges(chosen)[0]),
        "added": len(chosen.edited("add")),
        "removed": len(chosen.edited("remove")),
    }
    entries = counts if chosen.before is not None else {"kept": counts["kept"]}
    for row, (kind, count) in enumerate(entries.items()):
        y = top + 22 + 24 * row
        name = kind if chosen.before is not None else "of the pattern"
        yield f'<line class="{kind}" x1="{left}" y1="{y - 4}" x2="{left + 36}" y2="{y - 4}"/>'
        yield _words(left + 46, y, f"{name} ({count})", "ink", 12.5)
    if chosen.node is not None:
        y = top + 22 + 24 * len(entries)
        yield f'<circle class="ring" cx="{left + 18}" cy="{y - 4}" r="7"/>'
        yield _words(left + 46, y, f"explained: {_short(str(chosen.node), 12)}", "ink", 12.5)


def _legend_rows(chosen: ChosenGraph) -> int:
    return (4 if chosen.before is not None else 2) + (chosen.node is not None)


def _effect(chosen: ChosenGraph, names: Sequence[str] | None) -> str:
    after = _said(chosen.after, names)
    if chosen.before is None:
        return f"The GNN says {after}"
    before = _said(chosen.before, names)
    if not chosen.is_answer:
        return f"{before} stays {after}"
    return f"{before} becomes {after}"


def _said(prediction: Prediction, names: Sequence[str] | None) -> str:
    winner = prediction.predicted_class
    return f"{_class(winner, names)} ({prediction.probabilities[winner]:.2f})"


def _class(index: int, names: Sequence[str] | None) -> str:
    return names[index] if names and index < len(names) else f"class {index}"


def _size(chosen: ChosenGraph) -> str:
    size = f"{len(chosen.graph.nodes)} nodes, {len(chosen.graph.edges)} edges"
    if chosen.before is None:
        return size
    edits = len(chosen.edits)
    return f"{edits} edit{'' if edits == 1 else 's'} · {size}"


def _description(chosen: ChosenGraph) -> str:
    about = "" if chosen.node is None else f"Explained is node {chosen.node}. "
    said = [f"{edit.action} {edit.source}–{edit.target}" for edit in chosen.edits]  # noqa: RUF001
    return f"{_size(chosen)}. {about}" + (f"Edits: {', '.join(said)}." if said else "No edits.")


def _bar(x: float, y: float, width: float, look: str, height: float) -> str:
    return (
        f'<rect class="{look}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.0):.1f}" '
        f'height="{height}" rx="2"/>'
    )


def _words(
    x: float,
    y: float,
    words: str,
    look: str,
    size: float,
    *,
    anchor: str = "start",
    weight: int | None = None,
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text class="{look}" x="{x:.1f}" y="{y:.1f}" font-size="{size:.1f}" '
        f'text-anchor="{anchor}"{bold}>{_text(words)}</text>'
    )


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _text(words: str) -> str:
    """Escaped, and without the characters that XML cannot hold at all."""
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)
    return escape(printable, {'"': "&quot;"})
