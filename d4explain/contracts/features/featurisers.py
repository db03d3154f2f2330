"""Featurisers compute node features from another input format; SMILES is the only one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from d4explain.contracts.errors import Fault
from d4explain.contracts.vocabulary.spec_model import SpecModel

ELEMENTS = frozenset(
    """
    H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br
    Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho
    Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es
    Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og
    """.split()  # noqa: SIM905
)


OTHER = "*"  # the SMILES symbol of an unspecified element
BondKind = Literal["single", "double", "triple", "aromatic"]


class SmilesFeaturiser(SpecModel):
    """Makes each atom of a SMILES a node; its features are its element, one-hot."""

    kind: Literal["smiles"]
    atoms: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=2)]],
        Field(min_length=1, max_length=len(ELEMENTS)),
    ] = Field(description="Element symbols, in the order of the feature columns.")
    other: bool = Field(False, description="Whether a last column stands for all other elements.")
    hydrogens: bool = Field(False, description="Whether hydrogens are nodes.")
    bonds: list[BondKind] = Field(
        [],
        max_length=len(get_args(BondKind)),
        description="Kinds of bonds, in the order of the edge attributes, which are one-hot. "
        "Without `aromatic`, aromatic rings are read in a Kekulé form.",
        exclude_if=lambda bonds: not bonds,
    )

    @property
    def width(self) -> int:
        return len(self.atoms) + self.other

    def row(self, element: str) -> list[float] | None:
        """The features of an atom; None if there is no column for its element."""
        if element not in self.atoms and not self.other:
            return None
        column = self.atoms.index(element) if element in self.atoms else len(self.atoms)
        return [float(i == column) for i in range(self.width)]

    def bond_row(self, bond: BondKind) -> list[float]:
        """The attributes of a bond of a known kind."""
        return [float(kind == bond) for kind in self.bonds]

    def element(self, row: Sequence[float]) -> str | None:
        """The element of these features, `*` for the column of other elements, or None."""
        columns = [column for column, value in enumerate(row) if value != 0]
        if len(columns) != 1 or row[columns[0]] != 1 or len(row) != self.width:
            return None
        return self.atoms[columns[0]] if columns[0] < len(self.atoms) else OTHER


def bond_faults(featuriser: SmilesFeaturiser, edge_features: int, place: str) -> list[Fault]:
    bonds = featuriser.bonds
    faults = [
        Fault(f"{place}/bonds/{i}", f"{bond!r} is already at position {bonds.index(bond)}")
        for i, bond in enumerate(bonds)
        if bonds.index(bond) < i
    ]
    if len(bonds) != edge_features:
        detail = f"has {len(bonds)} kinds of bonds; the GNN takes {edge_features} edge features"
        faults.append(Fault(f"{place}/bonds", detail))
    if bonds and "single" not in bonds:
        faults.append(Fault(f"{place}/bonds", "lacks 'single', the kind of added bonds"))
    return faults


def featuriser_of(spec: Mapping[str, Any]) -> SmilesFeaturiser | None:
    """The featuriser of a stored spec."""
    declared = spec.get("featuriser")
    return None if declared is None else SmilesFeaturiser.model_validate(declared)


def featuriser_faults(featuriser: SmilesFeaturiser, features: int, place: str) -> list[Fault]:
    atoms = featuriser.atoms
    faults = [
        Fault(f"{place}/atoms/{i}", f"{atom!r} is not the symbol of an element")
        for i, atom in enumerate(atoms)
        if atom not in ELEMENTS
    ]
    faults += [
        Fault(f"{place}/atoms/{i}", f"{atom!r} is already at position {atoms.index(atom)}")
        for i, atom in enumerate(atoms)
        if atoms.index(atom) < i
    ]
    if featuriser.width != features:
        other = " and one for others" if featuriser.other else ""
        columns = f"{len(atoms)} elements{other} are {featuriser.width} features"
        faults.append(Fault(f"{place}/atoms", f"{columns}; the GNN takes {features}"))
    return faults
