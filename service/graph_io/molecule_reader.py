"""Converts posted SMILES to canonical graphs."""

from __future__ import annotations

from d4explain.contracts.features.featurisers import SmilesFeaturiser
from d4explain.contracts.requests import CanonicalGraph, Smiles
from service.graph_io.schemas import SmilesGraph
from service.http.faults import Faults, shown
from store.molecules import MoleculeError, ReadMolecule
from store.settings import Settings

_MAX_CHARACTERS_PER_ATOM = 20  # generous: a usual SMILES needs far fewer
_MAX_ATOMS = 512  # RDKit takes seconds for larger ring systems
# least size in JSON of a node with its edges, and of a feature
_NODE_BYTES, _FEATURE_BYTES = 40, 2


def read_molecule(
    posted: SmilesGraph, at: str, limits: Settings, featuriser: SmilesFeaturiser, faults: Faults
) -> CanonicalGraph | None:
    """One molecule, or None with the reasons in `faults`."""
    at = f"{at}/smiles"
    max_atoms = min(limits.max_nodes, _MAX_ATOMS)
    max_length = _MAX_CHARACTERS_PER_ATOM * max_atoms
    if len(posted.smiles) > max_length:
        faults.add(
            at,
            f"has {len(posted.smiles):,} characters; this deployment accepts at most "
            f"{max_length:,}",
        )
        return None
    smiles = Smiles(text=posted.smiles, hydrogens=featuriser.hydrogens)
    try:
        molecule = ReadMolecule(smiles)
    except MoleculeError as error:
        faults.add(at, f"{error} (sent: {shown(posted.smiles)})")
        return None
    sizes = (
        ("atoms", len(molecule.elements), max_atoms),
        ("bonds", len(molecule.orders), limits.max_edges),
    )
    for what, sent, allowed in sizes:
        if sent > allowed:
            faults.add(
                at,
                f"the molecule has {sent:,} {what}; this deployment accepts at most {allowed:,}",
            )
            return None
    rows = [featuriser.row(element) for element in molecule.elements]
    if None in rows:
        position = rows.index(None)
        faults.add(
            at,
            f"atom {position} is {molecule.elements[position]}; the featuriser of the GNN only "
            f"has columns for {', '.join(featuriser.atoms)}",
        )
        return None
    bonds = molecule.bonds(aromatic="aromatic" in featuriser.bonds)
    if featuriser.bonds:
        unknown = [bond for bond in bonds if bond not in featuriser.bonds]
        if unknown:
            faults.add(
                at,
                f"has {unknown[0]} bonds; the featuriser of the GNN only has columns for "
                f"{', '.join(featuriser.bonds)}",
            )
            return None
    return CanonicalGraph(
        node_ids=molecule.node_ids,
        x=[row for row in rows if row is not None],
        edges=molecule.edges,
        label=posted.label,
        molecule=smiles,
        edge_attr=[featuriser.bond_row(bond) for bond in bonds] if featuriser.bonds else None,
    )


def expanded_size(graph: CanonicalGraph) -> int:
    """Least bytes of a posted SMILES as nodes and edges in JSON; 0 for other graphs.

    A short SMILES may expand to a large graph, so the limit on bodies also applies to this size.
    """
    if graph.molecule is None:
        return 0
    return len(graph.x) * (_NODE_BYTES + _FEATURE_BYTES * len(graph.x[0]))


def expands_too_much(limits: Settings) -> str:
    return (
        "with this molecule, the nodes and features would take more than the "
        f"{limits.max_body_bytes:,} bytes that this deployment accepts; send fewer molecules"
    )
