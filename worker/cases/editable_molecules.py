"""What the edits of a posted molecule mean to chemistry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from d4explain.contracts.featurisers import SmilesFeaturiser
from d4explain.contracts.requests import CanonicalGraph
from d4explain.contracts.results import Atom, EditedMolecule, GeneratedMolecule, Molecule, NodeId
from d4explain.gnn.graphs import Graph
from models.counterfactual.explain import CounterfactualOutcome, FoundCounterfactual
from models.graphs.valences import Valences
from store.gnn_files.molecules import MoleculeError, ReadMolecule, judged, of_single_bonds


def generated_molecule(
    graph: Graph, featuriser: SmilesFeaturiser | None
) -> GeneratedMolecule | None:
    """What a graph of single bonds is; None if its nodes are not the featuriser's atoms.

    Neither is it said for a GNN that tells bonds apart: a generated edge may be none of them.
    """
    if featuriser is None or featuriser.bonds:
        return None
    elements = [featuriser.element(row) for row in graph.features.tolist()]
    known = [element for element in elements if element is not None]
    if len(known) < len(elements):
        return None
    try:
        molecule = of_single_bonds(known, graph.edges.T.tolist())
    except MoleculeError:
        return None  # no RDKit here, and the GNN has been fine without it
    nodes = range(len(known))
    atoms = [Atom(node=node, element=element) for node, element in enumerate(known)]
    return GeneratedMolecule(**judged(molecule, nodes).model_dump(), atoms=atoms)


@dataclass(frozen=True)
class EditableMolecule:
    """A molecule some or all of whose atoms are the nodes of the graph that is edited."""

    read: ReadMolecule
    node_ids: list[NodeId]  # of all atoms
    atoms: list[int]  # that are nodes of the edited graph, in its order

    @staticmethod
    def of(document: CanonicalGraph, atoms: list[int] | None = None) -> EditableMolecule | None:
        """None if the graph was not posted as a molecule; without `atoms` all are edited."""
        if document.molecule is None:
            return None
        ids = document.node_ids
        return EditableMolecule(
            ReadMolecule(document.molecule), ids, list(range(len(ids))) if atoms is None else atoms
        )

    @property
    def document(self) -> Molecule:
        return self.read.document(self.node_ids)

    @property
    def valences(self) -> Valences:
        place = {atom: node for node, atom in enumerate(self.atoms)}
        free = [self.read.free_valences[atom] for atom in self.atoms]
        ends = {
            (place[one], place[other]): order
            for (one, other), order in self.read.orders.items()
            if one in place and other in place
        }
        return Valences(
            free=tuple(inf if bonds is None else bonds for bonds in free),
            orders={(min(pair), max(pair)): order for pair, order in ends.items()},
        )

    def edited(self, found: FoundCounterfactual) -> EditedMolecule:
        def pairs(*, added: bool) -> list[tuple[int, int]]:
            return [
                (self.atoms[edit.source], self.atoms[edit.target])
                for edit in found.edits
                if edit.added == added
            ]

        return self.read.edited(pairs(added=True), pairs(added=False), self.node_ids)

    def only_valid(self, outcome: CounterfactualOutcome) -> CounterfactualOutcome:
        """Without the answers that RDKit does not accept."""
        valid = tuple(found for found in outcome.found if self.edited(found).valid)
        if len(valid) == len(outcome.found):
            return outcome
        reason = None if valid else "RDKit accepts none of the edited molecules that were found"
        return replace(outcome, found=valid, reason=reason)
