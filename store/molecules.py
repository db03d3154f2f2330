"""Molecules by RDKit: atoms are nodes, bonds are edges, and edits may violate valences.

RDKit is an optional dependency and is imported for the first molecule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

from d4explain.contracts.errors import DomainError
from d4explain.contracts.features.featurisers import BondKind
from d4explain.contracts.requests import Pair, Smiles
from d4explain.contracts.results import (
    Atom,
    Bond,
    EditedMolecule,
    Molecule,
    NodeId,
    ValenceViolation,
)

_MAX_TRIED_VALENCE = 16  # above every valence limit of RDKit
_MAX_MEAN_BONDS = 3  # per atom
_KINDS: dict[float, BondKind] = {1: "single", 2: "double", 3: "triple", 1.5: "aromatic"}


class MoleculeError(DomainError):
    """A SMILES is invalid, or RDKit is missing."""


@cache
def chem() -> Any:
    """`rdkit.Chem` with its logs disabled: errors are part of the response."""
    try:
        from rdkit import Chem, rdBase  # noqa: PLC0415
    except ImportError as error:
        raise MoleculeError(
            "molecules need RDKit, which is not installed here: pip install 'd4explain[molecules]'"
        ) from error
    rdBase.DisableLog("rdApp.*")
    return Chem


class ReadMolecule:
    """A molecule whose atoms are the nodes of a graph, in the order of the SMILES.

    Bond orders come from one Kekulé form, so they are whole numbers. Stereochemistry is dropped:
    an edit would make it meaningless.
    """

    def __init__(self, smiles: Smiles) -> None:
        found = _parsed(smiles.text)
        if smiles.hydrogens:
            found = chem().AddHs(found)
        chem().RemoveStereochemistry(found)
        self.smiles = smiles
        self.elements: list[str] = [atom.GetSymbol() for atom in found.GetAtoms()]
        self.node_ids = _node_ids(found)
        self._shown_orders = {_ends(bond): bond.GetBondTypeAsDouble() for bond in found.GetBonds()}
        chem().Kekulize(found, clearAromaticFlags=True)
        self.kekulised: Any = found  # rdkit.Chem.Mol
        self.orders: dict[Pair, int] = {_ends(bond): _order(bond) for bond in found.GetBonds()}

    @property
    def edges(self) -> list[Pair]:
        return sorted(self.orders)

    def bonds(self, *, aromatic: bool) -> list[BondKind]:
        """The kind of each edge, in order; without `aromatic`, of the Kekulé form."""
        orders: Mapping[Pair, float] = self._shown_orders if aromatic else self.orders
        return [_KINDS[orders[ends]] for ends in self.edges]

    @cached_property
    def free_valences(self) -> list[int | None]:
        """Free valence of each atom if hydrogens are replaced; None if there is no limit."""
        used = [0] * len(self.elements)
        for ends, order in self.orders.items():
            for end in ends:
                used[end] += order
        return [
            None if allowed is None else allowed - spent
            for allowed, spent in zip(map(_allowed, self._atoms()), used, strict=True)
        ]

    def document(self, node_ids: Sequence[NodeId]) -> Molecule:
        return Molecule(
            smiles=self.smiles.text,
            hydrogens=self.smiles.hydrogens,
            atoms=[
                Atom(node=id_, element=element)
                for id_, element in zip(node_ids, self.elements, strict=True)
            ],
            bonds=[
                Bond(
                    source=node_ids[source],
                    target=node_ids[target],
                    order=self._shown_orders[source, target],
                )
                for source, target in self.edges
            ],
        )

    def edited(
        self, added: Iterable[Pair], removed: Iterable[Pair], node_ids: Sequence[NodeId]
    ) -> EditedMolecule:
        """The edited molecule: added bonds are single, hydrogens fill open valences."""
        after = chem().RWMol(self.kekulised)
        touched: set[int] = set()
        for ends in removed:
            after.RemoveBond(*ends)
            touched.update(ends)
        for ends in added:
            after.AddBond(*ends, chem().BondType.SINGLE)
            touched.update(ends)
        for position in touched:
            atom = after.GetAtomWithIdx(position)
            atom.SetNumExplicitHs(0)
            atom.SetNumRadicalElectrons(0)
            atom.SetNoImplicit(False)
        return checked_molecule(after, node_ids)

    def _atoms(self) -> list[Any]:
        return list(self.kekulised.GetAtoms())


def checked_molecule(molecule: Any, node_ids: Sequence[NodeId]) -> EditedMolecule:
    """Checks an edited or generated molecule with RDKit; returns its SMILES if it is valid."""
    problems = chem().DetectChemistryProblems(molecule, _checks())
    broken = [
        molecule.GetAtomWithIdx(found.GetAtomIdx())
        for found in problems
        if found.GetType() == "AtomValenceException"
    ]
    smiles = None
    if not problems:
        chem().SanitizeMol(molecule, _checks())
        smiles = chem().MolToSmiles(molecule)
    return EditedMolecule(
        smiles=smiles,
        valid=not problems,
        valence_violations=[
            ValenceViolation(
                node=node_ids[atom.GetIdx()],
                element=atom.GetSymbol(),
                valence=sum(_order(bond) for bond in atom.GetBonds()),
                allowed=_allowed(atom) or 0,
            )
            for atom in broken
        ],
    )


def of_single_bonds(elements: Sequence[str], bonds: Iterable[Pair]) -> Any:
    """An unchecked `rdkit.Chem.RWMol` of these atoms and single bonds."""
    molecule = chem().RWMol()
    for element in elements:
        molecule.AddAtom(chem().Atom(element))
    for ends in bonds:
        molecule.AddBond(*ends, chem().BondType.SINGLE)
    return molecule


def _parsed(text: str) -> Any:
    written = chem().MolFromSmiles(text, sanitize=False)
    if written is None:
        raise MoleculeError("is not a SMILES that RDKit can read")
    atoms, bonds = written.GetNumAtoms(), written.GetNumBonds()
    # No real molecule has so many bonds, and RDKit would take very long to find the rings.
    if bonds > _MAX_MEAN_BONDS * atoms:
        raise MoleculeError(
            f"has {bonds:,} bonds for {atoms:,} atoms; "
            f"at most {_MAX_MEAN_BONDS} per atom are accepted"
        )
    found = chem().MolFromSmiles(text)
    if found is None:
        problems = [found.Message() for found in chem().DetectChemistryProblems(written)]
        reason = "; ".join(problems[:3]) or "RDKit cannot interpret it"
        raise MoleculeError(f"is not a molecule: {reason}")
    if found.GetNumAtoms() == 0:
        raise MoleculeError("has no atoms")
    return found


def _node_ids(molecule: Any) -> list[int]:
    """Atom-map numbers if there are any, otherwise positions; added hydrogens come last."""
    numbers = [atom.GetAtomMapNum() for atom in molecule.GetAtoms()]
    if not any(numbers):
        return list(range(len(numbers)))
    ids: list[int] = []
    for atom, number in zip(molecule.GetAtoms(), numbers, strict=True):
        if not number and atom.GetSymbol() != "H":
            raise MoleculeError(
                f"atom {atom.GetIdx()} ({atom.GetSymbol()}) has no atom-map number, "
                "but others have one; number all atoms or none"
            )
        if number in ids:
            raise MoleculeError(f"the atom-map number {number} occurs more than once")
        ids.append(number or max([*numbers, *ids]) + 1)
    return ids


def _ends(bond: Any) -> Pair:
    one, other = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
    return min(one, other), max(one, other)


def _order(bond: Any) -> int:
    kinds = chem().BondType
    orders: dict[Any, int] = {kinds.SINGLE: 1, kinds.DOUBLE: 2, kinds.TRIPLE: 3}
    if bond.GetBondType() not in orders:
        one, other = _ends(bond)
        raise MoleculeError(
            f"the bond between atoms {one} and {other} is {bond.GetBondType().name.lower()}; "
            "single, double, triple and aromatic bonds are supported"
        )
    return orders[bond.GetBondType()]


def _allowed(atom: Any) -> int | None:
    return _allowed_valence(atom.GetAtomicNum(), atom.GetFormalCharge())


@cache
def _allowed_valence(number: int, charge: int) -> int | None:
    """Maximum valence of such an atom in RDKit; None if there is no limit."""
    for bonds in range(_MAX_TRIED_VALENCE):
        molecule = chem().RWMol()
        atom = chem().Atom(number)
        atom.SetFormalCharge(charge)
        atom.SetNoImplicit(True)
        atom.SetNumExplicitHs(bonds)
        molecule.AddAtom(atom)
        if chem().DetectChemistryProblems(molecule, chem().SANITIZE_PROPERTIES):
            return bonds - 1
    return None


def _checks() -> Any:
    """All RDKit checks, without the steps that repair a molecule."""
    flags = chem().SanitizeFlags
    repairs = flags.SANITIZE_CLEANUP | flags.SANITIZE_CLEANUP_ORGANOMETALLICS
    return flags.SANITIZE_ALL ^ repairs
