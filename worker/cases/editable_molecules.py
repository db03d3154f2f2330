"""Describes edited and generated graphs as molecules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from d4explain.contracts.features.featurisers import SmilesFeaturiser
from d4explain.contracts.requests import CanonicalGraph
from d4explain.contracts.results import Atom, EditedMolecule, GeneratedMolecule, Molecule, NodeId
from d4explain.gnn.graphs import Graph
from models.counterfactual.explain import CounterfactualOutcome, FoundCounterfactual
from models.graphs.valences import Valences
from store.molecules import MoleculeError, ReadMolecule, checked_molecule, of_single_bonds


def generated_molecule(
    graph: Graph, featuriser: SmilesFeaturiser | None
) -> GeneratedMolecule | None:
    """Reads a generated graph as a molecule of single bonds.

    None if a node is not one of the featuriser's atoms. None, too, if the GNN reads bond types: a
    generated edge need not have one.
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
        return None  # RDKit is not installed, and the GNN does not need it
    nodes = range(len(known))
    atoms = [Atom(node=node, element=element) for node, element in enumerate(known)]
    return GeneratedMolecule(**checked_molecule(molecule, nodes).model_dump(), atoms=atoms)


@dataclass(frozen=True)
class EditableMolecule:
    """A posted molecule and those of its atoms that are nodes of the edited graph."""

    read: ReadMolecule
    node_ids: list[NodeId]  # one per atom of the molecule
    atoms: list[int]  # positions of the edited graph's nodes in the molecule

    @staticmethod
    def of(document: CanonicalGraph, atoms: list[int] | None = None) -> EditableMolecule | None:
        """None if the graph was not posted as a molecule; `atoms` defaults to all."""
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
        node_of = {atom: node for node, atom in enumerate(self.atoms)}
        free = [self.read.free_valences[atom] for atom in self.atoms]
        orders = {
            (node_of[one], node_of[other]): order
            for (one, other), order in self.read.orders.items()
            if one in node_of and other in node_of
        }
        return Valences(
            free=tuple(inf if bonds is None else bonds for bonds in free),
            orders={(min(pair), max(pair)): order for pair, order in orders.items()},
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
        """Drops counterfactuals that RDKit rejects."""
        valid = tuple(found for found in outcome.found if self.edited(found).valid)
        minimal = tuple(found for found in outcome.minimal if self.edited(found).valid)
        if len(valid) + len(minimal) == len(outcome.found) + len(outcome.minimal):
            return outcome
        reason = outcome.reason
        if outcome.found and not valid:
            reason = "RDKit rejects all edited molecules that the search found"
        return replace(outcome, found=valid, minimal=minimal, reason=reason)
