"""Posted SMILES to canonical graphs."""

from __future__ import annotations

from d4explain.contracts.featurisers import SmilesFeaturiser
from d4explain.contracts.requests import CanonicalGraph, Smiles
from service.graph_io.schemas import SmilesGraph
from service.http.faults import Faults, shown
from store.gnn_files.molecules import MoleculeError, ReadMolecule
from store.settings import Settings

_CHARACTERS_PER_NODE = 20  # more than any sensible SMILES takes
_MOST_ATOMS = 512  # RDKit takes seconds for tangles of more
_NODE_BYTES, _FEATURE_BYTES = 40, 2  # of a node with its edges, and of a feature, in JSON


def read_molecule(
    posted: SmilesGraph, at: str, limits: Settings, featuriser: SmilesFeaturiser, faults: Faults
) -> CanonicalGraph | None:
    """One molecule, or None with the reasons in `faults`."""
    at = f"{at}/smiles"
    most_atoms = min(limits.max_nodes, _MOST_ATOMS)
    longest = _CHARACTERS_PER_NODE * most_atoms
    if len(posted.smiles) > longest:
        said = f"has {len(posted.smiles):,} characters"
        faults.add(at, f"{said}; this deployment accepts at most {longest:,}")
        return None
    smiles = Smiles(text=posted.smiles, hydrogens=featuriser.hydrogens)
    try:
        molecule = ReadMolecule(smiles)
    except MoleculeError as error:
        faults.add(at, f"{error} (sent: {shown(posted.smiles)})")
        return None
    sizes = (
        ("atoms", len(molecule.elements), most_atoms),
        ("bonds", len(molecule.orders), limits.max_edges),
    )
    for what, sent, allowed in sizes:
        if sent > allowed:
            said = f"the molecule has {sent:,} {what}"
            faults.add(at, f"{said}; this deployment accepts at most {allowed:,}")
            return None
    rows = [featuriser.row(element) for element in molecule.elements]
    if None in rows:
        position = rows.index(None)
        known = ", ".join(featuriser.atoms)
        faults.add(
            at,
            f"atom {position} is {molecule.elements[position]}; the featuriser of the GNN has "
            f"columns for {known} and none for others",
        )
        return None
    bonds = molecule.bonds(aromatic="aromatic" in featuriser.bonds)
    if featuriser.bonds:
        unknown = [bond for bond in bonds if bond not in featuriser.bonds]
        if unknown:
            known = ", ".join(featuriser.bonds)
            said = f"has {unknown[0]} bonds; the featuriser of the GNN has columns for {known}"
            faults.add(at, f"{said} and none for others")
            return None
    return CanonicalGraph(
        node_ids=molecule.node_ids,
        x=[row for row in rows if row is not None],
        edges=molecule.edges,
        label=posted.label,
        molecule=smiles,
        edge_attr=[featuriser.bond_row(bond) for bond in bonds] if featuriser.bonds else None,
    )


def written_size(graph: CanonicalGraph) -> int:
    """Bytes of a molecule that was posted as nodes and edges, at the least: SMILES are short."""
    if graph.molecule is None:
        return 0
    return len(graph.x) * (_NODE_BYTES + _FEATURE_BYTES * len(graph.x[0]))


def too_much_written(limits: Settings) -> str:
    return (
        "with this molecule, nodes and features written out would be more than the "
        f"{limits.max_body_bytes:,} bytes that this deployment accepts; send fewer at once"
    )
