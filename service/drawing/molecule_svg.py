"""Draws molecules with RDKit; added and removed bonds have the style of edited edges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from xml.sax.saxutils import escape

from d4explain.contracts.requests import Pair, Smiles
from d4explain.contracts.results import Atom, Edit, GeneratedMolecule, Molecule, NodeId
from store.molecules import ReadMolecule, chem, of_single_bonds

_BOND_PIXELS = 44.0
_RDKIT_BOND_LENGTH = 1.5
_MIN_HEIGHT, _MAX_HEIGHT = 200, 440
_END_OF_HEADER = "<!-- END OF HEADER -->"


def draw_molecule(
    molecule: Molecule, edits: tuple[Edit, ...], explained: NodeId | None, width: int
) -> tuple[list[str], int]:
    """SVG elements and their height; the layout is that of the posted molecule."""
    read = ReadMolecule(Smiles(text=molecule.smiles, hydrogens=molecule.hydrogens))
    return _draw(chem().RWMol(read.kekulised), molecule.atoms, edits, explained, width)


def draw_generated(
    molecule: GeneratedMolecule, bonds: Iterable[Pair], explained: NodeId | None, width: int
) -> tuple[list[str], int]:
    """The same for a generated molecule, whose bonds are all single."""
    rdkit_molecule = of_single_bonds([atom.element for atom in molecule.atoms], bonds)
    return _draw(rdkit_molecule, molecule.atoms, (), explained, width)


def molecule_positions(molecule: ReadMolecule) -> list[list[float]]:
    """x and y of each atom in a structural formula; bonds have length 1 and y grows downwards."""
    from rdkit.Chem import rdDepictor  # noqa: PLC0415

    drawn = chem().RWMol(molecule.kekulised)
    rdDepictor.Compute2DCoords(drawn)
    points = drawn.GetConformer().GetPositions()[:, :2] / _RDKIT_BOND_LENGTH
    return [[round(float(x), 3), round(float(-y), 3)] for x, y in points]


def _draw(
    molecule: Any,  # rdkit.Chem.RWMol
    atoms: Sequence[Atom],
    edits: tuple[Edit, ...],
    explained: NodeId | None,
    width: int,
) -> tuple[list[str], int]:
    from rdkit.Chem import rdDepictor  # noqa: PLC0415
    from rdkit.Chem.Draw import rdMolDraw2D  # noqa: PLC0415

    rdDepictor.Compute2DCoords(molecule)
    height = _height(molecule)
    positions = {atom.node: position for position, atom in enumerate(atoms)}
    styles = {}
    for edit in edits:
        ends = positions[edit.source], positions[edit.target]
        if edit.action == "add":
            molecule.AddBond(*ends, chem().BondType.SINGLE)
        bond = molecule.GetBondBetweenAtoms(*ends).GetIdx()
        styles[bond] = "added" if edit.action == "add" else "removed"
    # RDKit needs this to count the hydrogens it shows; edits may exceed valences, so not strict.
    molecule.UpdatePropertyCache(strict=False)
    canvas = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = canvas.drawOptions()
    options.useBWAtomPalette()
    options.clearBackground = False
    options.prepareMolsBeforeDrawing = False  # it rejects atoms with too many bonds
    options.fixedBondLength = _BOND_PIXELS
    canvas.DrawMolecule(molecule)
    canvas.FinishDrawing()
    elements = _restyled(canvas.GetDrawingText(), styles)
    return [*elements, *_atom_marks(canvas, atoms, explained)], height


def _height(molecule: Any) -> int:
    y = molecule.GetConformer().GetPositions()[:, 1]
    height = float(y.max() - y.min()) * _BOND_PIXELS / _RDKIT_BOND_LENGTH
    return int(min(max(height + 60, _MIN_HEIGHT), _MAX_HEIGHT))


def _restyled(svg: str, styles: dict[int, str]) -> list[str]:
    """RDKit's SVG elements with our text colour and with the styles of edited bonds."""
    body = svg.split(_END_OF_HEADER)[1].rsplit("</svg>", 1)[0].replace("#000000", "currentColor")
    for bond, style in styles.items():
        body = re.sub(
            rf"class='bond-{bond} [^']*' (d='[^']*') style='[^']*'", rf"class='{style}' \1", body
        )
    return body.strip().splitlines()


def _atom_marks(canvas: Any, atoms: Sequence[Atom], explained: NodeId | None) -> Iterator[str]:
    """Tooltips of the atoms, and a ring around the explained node."""
    for position, atom in enumerate(atoms):
        point = canvas.GetDrawCoords(position)
        at = f'cx="{point.x:.1f}" cy="{point.y:.1f}"'
        name = escape(f"node {atom.node} ({atom.element})")
        yield f'<circle class="spot" {at} r="10"><title>{name}</title></circle>'
        if atom.node == explained:
            yield f'<circle class="ring" {at} r="14"/>'
