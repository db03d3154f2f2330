"""How many bonds atoms can take while a molecule is edited, against RDKit."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import inf
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.contracts.requests import CanonicalGraph, Constraints, CounterfactualRequest, Smiles
from d4explain.gnn.graphs import Graph
from d4explain.gnn.spec import GcnLayer, GnnSpec, LinearLayer, PoolLayer
from models.counterfactual.explain import CounterfactualOutcome, FoundCounterfactual, FoundEdit
from models.graphs.edits import EditRules, EditSpace
from models.graphs.valences import Valences
from store.molecules import ReadMolecule
from worker.cases.editable_molecules import EditableMolecule
from worker.cases.graph_cases import cases_of, seed_for

Chem = pytest.importorskip("rdkit.Chem", reason="molecules need the molecules extra")

# Salts, charges, rings, hypervalent atoms, radicals, brackets with hydrogens, explicit hydrogens.
MOLECULES = [
    "CCO", "C=C=O", "CC#N", "c1ccccc1", "c1cc[nH]c1", "C[N+](=O)[O-]", "CS(=O)(=O)C", "CSC",
    "OP(=O)(O)O", "[NH4+].[Cl-]", "CC(=O)[O-].[Na+]", "FC(F)Cl", "BrI", "[CH3]C", "[CH2]C=O",
    "C[C@H](N)O", "B(O)O", "C[BH3-]", "C[Si](C)C", "Cn1cccc1", "O=c1cc[nH]cc1", "[2H]CO", "C1CC1",
    "c1ccsc1", "C[NH3+]", "[O-]Cl", "C[Se]C", "[H][H]",
]  # fmt: skip


def molecule(text: str, *, hydrogens: bool = False) -> ReadMolecule:
    return ReadMolecule(Smiles(text=text, hydrogens=hydrogens))


def document(text: str) -> CanonicalGraph:
    found = molecule(text)
    return CanonicalGraph(
        node_ids=found.node_ids,
        x=[[1.0]] * len(found.elements),
        edges=found.edges,
        molecule=found.smiles,
    )


def test_seeds_do_not_depend_on_how_a_graph_was_written() -> None:
    graph = document("CCO")
    assert seed_for(0, graph) == seed_for(0, graph.model_copy(update={"molecule": None}))


def test_the_molecule_of_a_part_counts_bonds_that_leave_it() -> None:
    """Of neopentane only the centre and two others: the centre has no room all the same."""
    graph = document("CC(C)(C)C")
    part = EditableMolecule.of(graph, [1, 4, 0])
    assert part is not None
    assert part.valences == Valences(free=(0, 3, 3), orders={(0, 1): 1, (0, 2): 1})


def found_edit(source: int, target: int, *, added: bool) -> FoundCounterfactual:
    one = FoundEdit(source, target, added=added, plausibility=0.0, by_denoiser=False)
    graph = Graph(torch.ones(3, 1), torch.zeros(2, 0, dtype=torch.int64))
    return FoundCounterfactual(graph, (one,), torch.ones(2), 0.0, True, False)


def test_answers_that_rdkit_does_not_accept_are_left_out() -> None:
    molecule = EditableMolecule.of(document("CC(F)"))
    assert molecule is not None
    broken = found_edit(0, 2, added=True)  # fluorine has one bond already
    sound = found_edit(1, 2, added=False)
    outcome = CounterfactualOutcome(
        probabilities=torch.ones(2),
        found=(broken, sound),
        closest_miss=None,
        reason=None,
        gnn_evaluations=1,
        gnn_gradients=0,
        samples=0,
        depth=1,
        seconds=0.0,
    )
    kept = molecule.only_valid(outcome)
    assert kept.found == (sound,)
    assert kept.reason is None
    none = molecule.only_valid(replace(outcome, found=(broken,)))
    assert none.found == ()
    assert none.reason is not None
    assert molecule.only_valid(kept) is kept


def test_a_node_is_explained_in_its_part_of_the_molecule() -> None:
    request = CounterfactualRequest(
        graphs=[document("FCCO")], nodes=[3], constraints=Constraints(valid_molecule=True)
    )
    (case,) = cases_of(request, GnnSpec(1, 2, (GcnLayer(2),)))
    assert case.document.node_ids == [3, 2, 1]  # the oxygen first, without the fluorine
    assert case.rules.valences == Valences(free=(1, 2, 2), orders={(0, 1): 1, (1, 2): 1})
    assert case.molecule is not None
    after = case.molecule.edited(found_edit(0, 1, added=False))
    assert after.smiles == Chem.CanonSmiles("FCC.O")
    assert [atom.node for atom in case.molecule.document.atoms] == [0, 1, 2, 3]


def test_without_the_constraint_valences_do_not_count() -> None:
    request = CounterfactualRequest(graphs=[document("FCCO")])
    (case,) = cases_of(request, GnnSpec(1, 2, (PoolLayer("sum"), LinearLayer(2))))
    assert case.rules.valences is None
    assert case.molecule is not None


@st.composite
def edited_molecules(draw: st.DrawFn) -> tuple[ReadMolecule, list[tuple[int, int]]]:
    found = molecule(draw(st.sampled_from(MOLECULES)), hydrogens=draw(st.booleans()))
    pairs = list(combinations(range(len(found.elements)), 2))
    edits = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=5, unique=True))
    return found, sorted(edits)


def space_of(found: ReadMolecule) -> EditSpace:
    edges = torch.tensor(found.edges, dtype=torch.int64).reshape(-1, 2).T
    free = tuple(inf if bonds is None else bonds for bonds in found.free_valences)
    rules = EditRules(max_edits=9, max_ratio=99.0, valences=Valences(free, found.orders))
    return EditSpace.of(Graph(torch.ones(len(found.elements), 1), edges), rules)


@settings(max_examples=150, deadline=None)
@given(edited_molecules())
def test_the_valence_budget_agrees_with_rdkit(case: tuple[Any, list[tuple[int, int]]]) -> None:
    found, pairs = case
    removed = [pair for pair in pairs if pair in found.orders]
    added = [pair for pair in pairs if pair not in found.orders]
    after = found.edited(added, removed, found.node_ids)
    space = space_of(found)
    places = {
        pair: place
        for place, pair in enumerate(
            zip(space.sources.tolist(), space.targets.tolist(), strict=True)
        )
    }
    edits = tuple(sorted(places[pair] for pair in pairs))
    if len(edits) <= space.budget:
        assert space.allowed([edits]) == [after.valid]
    assert after.valid == (not after.valence_violations)
    if after.valid:
        # What was written is read again as a molecule of these very atoms and bonds.
        again = Chem.MolFromSmiles(after.smiles, _keeping_hydrogens())
        assert again.GetNumAtoms() == len(found.elements)
        assert again.GetNumBonds() == len(found.edges) - len(removed) + len(added)


def _keeping_hydrogens() -> Any:
    options = Chem.SmilesParserParams()
    options.removeHs = False
    return options


@settings(max_examples=60, deadline=None)
@given(edited_molecules())
def test_affordable_pairs_are_those_that_can_be_added(case: tuple[Any, Any]) -> None:
    found, pairs = case
    space = space_of(found)
    ends = list(zip(space.sources.tolist(), space.targets.tolist(), strict=True))
    state = tuple(place for place, pair in enumerate(ends) if pair in pairs)[: space.budget - 1]
    if not space.allowed([state])[0] or space.ledger is None or space.budget < 1:
        return
    affordable = space.ledger.affordable([state])[0].tolist()
    others = [place for place in range(space.count) if place not in state]
    children = [tuple(sorted((*state, place))) for place in others]
    assert space.allowed(children) == [affordable[place] for place in others]
