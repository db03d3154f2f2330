"""A molecule as RDKit draws it, with the bonds that edits add and remove in their own look."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from xml.sax.saxutils import escape

from d4explain.contracts.requests import Pair, Smiles
from d4explain.contracts.results import Atom, Edit, GeneratedMolecule, Molecule, NodeId
from store.gnn_files.molecules import ReadMolecule, chem, of_single_bonds

_BOND = 44.0  # pixels
_LEAST_HEIGHT, _MOST_HEIGHT = 200, 440
_END_OF_HEADER = "<!-- END OF HEADER -->"


def draw_molecule(
    molecule: Molecule, edits: tuple[Edit, ...], ring: NodeId | None, width: int
) -> tuple[list[str], int]:
    """SVG elements and their height; the atoms are where the posted molecule has them."""
    read = ReadMolecule(Smiles(text=molecule.smiles, hydrogens=molecule.hydrogens))
    return _drawn(chem().RWMol(read.kekulised), molecule.atoms, edits, ring, width)


def draw_generated(
    molecule: GeneratedMolecule, bonds: Iterable[Pair], ring: NodeId | None, width: int
) -> tuple[list[str], int]:
    bonded = of_single_bonds([atom.element for atom in molecule.atoms], bonds)
    return _drawn(bonded, molecule.atoms, (), ring, width)


def _drawn(
    drawn: Any,  # rdkit.Chem.RWMol
    atoms: Sequence[Atom],
    edits: tuple[Edit, ...],
    ring: NodeId | None,
    width: int,
) -> tuple[list[str], int]:
    from rdkit.Chem import rdDepictor  # noqa: PLC0415
    from rdkit.Chem.Draw import rdMolDraw2D  # noqa: PLC0415

    rdDepictor.Compute2DCoords(drawn)
    height = _height(drawn)
    position = {atom.node: place for place, atom in enumerate(atoms)}
    looks = {}
    for edit in edits:
        ends = position[edit.source], position[edit.target]
        if edit.action == "add":
            drawn.AddBond(*ends, chem().BondType.SINGLE)
        bond = drawn.GetBondBetweenAtoms(*ends).GetIdx()
        looks[bond] = "added" if edit.action == "add" else "removed"
    # RDKit counts the hydrogens that it shows; not strictly, for edits may break valences
    drawn.UpdatePropertyCache(strict=False)
    canvas = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = canvas.drawOptions()
    options.useBWAtomPalette()
    options.clearBackground = False
    options.prepareMolsBeforeDrawing = False  # which refuses atoms with too many bonds
    options.fixedBondLength = _BOND
    canvas.DrawMolecule(drawn)
    canvas.FinishDrawing()
    lines = _styled(canvas.GetDrawingText(), looks)
    return [*lines, *_marks(canvas, atoms, ring)], height


def _height(drawn: Any) -> int:
    places = drawn.GetConformer().GetPositions()[:, 1]
    tall = float(places.max() - places.min()) * _BOND / 1.5  # RDKit's bonds are 1.5 long
    return int(min(max(tall + 60, _LEAST_HEIGHT), _MOST_HEIGHT))


def _styled(text: str, looks: dict[int, str]) -> list[str]:
    """RDKit's lines in the colour of the text, those of edited bonds as edges are drawn."""
    inside = text.split(_END_OF_HEADER)[1].rsplit("</svg>", 1)[0].replace("#000000", "currentColor")
    for bond, look in looks.items():
        inside = re.sub(
            rf"class='bond-{bond} [^']*' (d='[^']*') style='[^']*'", rf"class='{look}' \1", inside
        )
    return inside.strip().splitlines()


def _marks(canvas: Any, atoms: Sequence[Atom], ring: NodeId | None) -> Iterator[str]:
    """Names to point at, and a ring around the explained node."""
    for place, atom in enumerate(atoms):
        point = canvas.GetDrawCoords(place)
        at = f'cx="{point.x:.1f}" cy="{point.y:.1f}"'
        name = escape(f"node {atom.node} ({atom.element})")
        yield f'<circle class="spot" {at} r="10"><title>{name}</title></circle>'
        if atom.node == ring:
            yield f'<circle class="ring" {at} r="14"/>'
