"""Molecules and valences, compared with direct calls of RDKit."""

from __future__ import annotations

import builtins
from itertools import combinations
from typing import Any

import pytest

from d4explain.contracts.features.featurisers import ELEMENTS, SmilesFeaturiser
from d4explain.contracts.requests import CanonicalGraph, Smiles
from d4explain.contracts.results import Edit
from service.drawing.molecule_svg import draw_molecule
from service.graph_io.features.expected_features import ExpectedFeatures
from service.graph_io.graph_reader import read_graph, read_graphs
from service.http.faults import InvalidRequestError
from store import molecules
from store.artifacts.graph_sets import pack, unpack
from store.molecules import MoleculeError, ReadMolecule
from store.settings import Settings

Chem = pytest.importorskip("rdkit.Chem", reason="molecules need the molecules extra")

LIMITS = Settings()
CNO = SmilesFeaturiser(kind="smiles", atoms=["C", "N", "O"])


def read(text: str, featuriser: SmilesFeaturiser = CNO) -> CanonicalGraph:
    features = ExpectedFeatures(featuriser.width, "the GNN", featuriser=featuriser)
    return read_graph({"smiles": text}, "/graph", LIMITS, features)


def refusal(document: Any, featuriser: SmilesFeaturiser | None = CNO) -> Any:
    features = ExpectedFeatures(3, "the GNN gnn_1", featuriser=featuriser)
    with pytest.raises(InvalidRequestError) as caught:
        read_graph(document, "/graph", LIMITS, features)
    (fault,) = caught.value.faults
    return fault


def test_atoms_and_bonds_become_nodes_and_edges() -> None:
    graph = read("NCC=O")
    assert graph.node_ids == [0, 1, 2, 3]
    assert graph.x == [[0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert graph.edges == [(0, 1), (1, 2), (2, 3)]
    assert graph.molecule == Smiles(text="NCC=O", hydrogens=False)


@pytest.mark.parametrize("hydrogens", [False, True])
@pytest.mark.parametrize("text", ["CC(=O)Nc1ccc(O)cc1", "CCO.Cl", "[NH4+].[OH-]", "C[C@H](N)O"])
def test_graphs_equal_the_molecules_of_rdkit(text: str, hydrogens: bool) -> None:
    atoms = ["C", "O", "H", "N"]
    kind = SmilesFeaturiser(kind="smiles", atoms=atoms, other=True, hydrogens=hydrogens)
    graph = read(text, kind)
    expected = Chem.MolFromSmiles(text)
    expected = Chem.AddHs(expected) if hydrogens else expected
    symbols = [atom.GetSymbol() for atom in expected.GetAtoms()]
    columns = [*atoms, "other"]
    seen = [columns[row.index(1.0)] for row in graph.x]
    assert seen == [symbol if symbol in atoms else "other" for symbol in symbols]
    assert all(sorted(row) == [0.0] * 4 + [1.0] for row in graph.x)
    adjacency = Chem.GetAdjacencyMatrix(expected)
    assert graph.edges == [pair for pair in combinations(range(len(symbols)), 2) if adjacency[pair]]


@pytest.mark.parametrize("aromatic", [True, False])
@pytest.mark.parametrize("text", ["CC(=O)Nc1ccc(C#N)cc1", "CCO.N", "C"])
def test_bonds_become_edge_attributes(text: str, aromatic: bool) -> None:
    names = ["triple", "single", "double"] + ["aromatic"] * aromatic
    graph = read(text, CNO.model_copy(update={"bonds": names}))
    expected = Chem.MolFromSmiles(text)
    if not aromatic:
        Chem.Kekulize(expected, clearAromaticFlags=True)
    kinds = [expected.GetBondBetweenAtoms(*ends).GetBondType().name.lower() for ends in graph.edges]
    assert graph.edge_attr == [[float(name == kind) for name in names] for kind in kinds]
    assert read(text).edge_attr is None


def test_bond_types_without_a_feature_column_are_refused() -> None:
    fault = refusal({"smiles": "CC#N"}, CNO.model_copy(update={"bonds": ["single"]}))
    assert fault.at == "/graph/smiles"
    assert "has triple bonds" in fault.detail


def test_elements_without_a_feature_column_use_the_column_for_others() -> None:
    assert read("CCl", SmilesFeaturiser(kind="smiles", atoms=["C"], other=True)).x == [
        [1, 0],
        [0, 1],
    ]
    fault = refusal({"smiles": "CCl"})
    assert fault.at == "/graph/smiles"
    assert "atom 1 is Cl" in fault.detail
    assert "C, N, O" in fault.detail


def test_atom_map_numbers_become_node_ids() -> None:
    graph = read("[CH3:7][OH:3]")
    assert graph.node_ids == [7, 3]
    with_hydrogens = SmilesFeaturiser(kind="smiles", atoms=["C", "O", "H"], hydrogens=True)
    assert read("[CH3:7][OH:3]", with_hydrogens).node_ids == [7, 3, 8, 9, 10, 11]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("C1CC", "not a SMILES that RDKit can read"),
        ("hello", "not a SMILES that RDKit can read"),
        ("C(C)(C)(C)(C)C", "Explicit valence for atom # 0 C, 5"),
        ("c1cccc1", "kekulize"),
        ("C->O", "the bond between atoms 0 and 1 is dative"),
        ("[CH3:1]C", "atom 1 (C) has no atom-map number"),
        ("[CH3:1][CH3:1]", "atom-map number 1 occurs more than once"),
        ("C" * 600, "600 atoms; this deployment accepts at most 512"),
        ("C" * 20_000, "20,000 characters"),
        ("C C", "pattern"),
        ("", "at least 1 character"),
        (7, "string"),
    ],
)
def test_bad_smiles_are_refused_with_a_pointer(text: Any, message: str) -> None:
    fault = refusal({"smiles": text})
    assert fault.at == "/graph/smiles"
    assert message in fault.detail


def test_molecules_with_too_many_bonds_are_refused() -> None:
    """Eleven atoms with bonds between all of them."""
    size, label = 11, {}
    text = []
    for one in range(size):
        for other in range(size):
            label.setdefault(frozenset((one, other)), f"%{10 + len(label)}")
        text.append("[U]" + "".join(label[frozenset((one, o))] for o in range(size) if o != one))
    assert "55 bonds for 11 atoms" in refusal({"smiles": ".".join(text)}).detail


def test_smiles_need_a_featuriser() -> None:
    fault = refusal({"smiles": "CCO"}, featuriser=None)
    assert fault.at == "/graph/smiles"
    assert "the GNN gnn_1 has no featuriser" in fault.detail
    with pytest.raises(InvalidRequestError, match="name a GNN in `gnn`"):
        read_graph({"smiles": "CCO"}, "/graph", LIMITS, None)


def test_unknown_fields_beside_smiles_are_refused() -> None:
    fault = refusal({"smiles": "CCO", "lable": 1})
    assert (fault.at, fault.detail) == ("/graph/lable", "is not a known field")


def test_the_size_limit_applies_to_the_graphs_of_the_smiles() -> None:
    features = ExpectedFeatures(3, "the GNN", featuriser=CNO)
    few = Settings(max_body_bytes=5000)
    posted = [{"smiles": "C" * 40}] * 3  # 40 nodes of 46 bytes each
    assert len(read_graphs(posted[:2], "/graphs", few, features)) == 2
    with pytest.raises(InvalidRequestError, match=r"/graphs/2: .*5,000 bytes"):
        read_graphs(posted, "/graphs", few, features)


def test_the_error_without_rdkit_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name.startswith("rdkit"):
            raise ImportError(name)
        return real(name, *rest)

    molecules.chem.cache_clear()
    monkeypatch.setattr(builtins, "__import__", absent)
    try:
        assert "pip install 'd4explain[molecules]'" in refusal({"smiles": "CCO"}).detail
    finally:
        molecules.chem.cache_clear()


def test_the_known_elements_equal_those_of_rdkit() -> None:
    table = Chem.GetPeriodicTable()
    assert {table.GetElementSymbol(number) for number in range(1, 119)} == ELEMENTS


def test_packed_graph_sets_contain_their_molecules() -> None:
    graphs = [read("CCO"), read("N").model_copy(update={"molecule": None, "label": 1})]
    assert unpack(pack(graphs)) == graphs
    plain = [graph.model_copy(update={"molecule": None}) for graph in graphs]
    assert unpack(pack(plain)) == plain


def molecule(text: str, *, hydrogens: bool = False) -> ReadMolecule:
    return ReadMolecule(Smiles(text=text, hydrogens=hydrogens))


@pytest.mark.parametrize(
    ("text", "added", "removed", "smiles"),
    [
        ("CCO", [], [(1, 2)], "CC.O"),
        ("CCO", [(0, 2)], [], "C1CO1"),
        ("C=CC#N", [], [(0, 1)], "C.CC#N"),
        ("C=CC#N", [], [(2, 3)], "C=CC.N"),
        ("c1ccccc1", [], [(0, 1)], "C=CC=CC=C"),
        ("c1ccccc1C", [], [(5, 6)], "C.c1ccccc1"),
        ("[NH3+]C", [], [(0, 1)], "C.[NH4+]"),
        ("C[C@H](N)O", [(2, 3)], [(1, 3)], "CCNO"),
        ("[CH3].C", [(0, 1)], [], "CC"),
        ("c1cc[nH]c1.C", [(3, 5)], [], "Cn1cccc1"),
    ],
)
def test_hydrogens_fill_open_valences_of_edited_molecules(
    text: str, added: list[Any], removed: list[Any], smiles: str
) -> None:
    found = molecule(text)
    after = found.edited(added, removed, found.node_ids)
    assert after.valid
    assert after.valence_violations == []
    assert after.smiles == Chem.CanonSmiles(smiles)


def test_violated_valences_are_listed() -> None:
    found = molecule("FC(F)(F)C")
    after = found.edited([(0, 1 + 3)], [], ["a", "b", "c", "d", "e"])
    assert not after.valid
    assert after.smiles is None
    assert [violation.model_dump() for violation in after.valence_violations] == [
        {"node": "a", "element": "F", "valence": 2, "allowed": 1}
    ]


def test_the_document_contains_elements_and_bond_orders() -> None:
    found = molecule("c1ccccc1C#N").document(list("abcdefgh"))
    assert [atom.element for atom in found.atoms] == ["C"] * 7 + ["N"]
    orders = {(bond.source, bond.target): bond.order for bond in found.bonds}
    assert orders["a", "b"] == 1.5
    assert orders["f", "g"] == 1
    assert orders["g", "h"] == 3


def edit(action: Any, source: int, target: int) -> Edit:
    return Edit(action=action, source=source, target=target, plausibility=0.0, proposed_by="search")


def test_drawings_mark_edited_bonds_without_moving_atoms() -> None:
    document = molecule("c1ccccc1O").document(list(range(7)))
    plain, _ = draw_molecule(document, (), None, 600)
    edits = (edit("add", 0, 3), edit("add", 5, 1), edit("remove", 6, 5))
    drawn, _ = draw_molecule(document, edits, 6, 600)

    def spots(lines: list[str]) -> list[str]:
        return [line for line in lines if 'class="spot"' in line]

    assert spots(plain) == spots(drawn)
    assert len(spots(plain)) == 7
    assert sum("class='added'" in line for line in drawn) == 2
    assert sum("class='removed'" in line for line in drawn) == 1
    assert not any("class='bond-5 " in line for line in drawn)  # the bond between atoms 5 and 6
    assert sum('class="ring"' in line for line in drawn) == 1
    assert not any("#000000" in line for line in drawn)


@pytest.mark.parametrize("smiles", ["FC(F)(F)C", "C[N+](=O)[O-]", "c1cc[nH]c1", "O=S(C)C"])
def test_every_single_edit_can_be_drawn(smiles: str) -> None:
    """Answers may violate valences, so such edits are drawn, too."""
    read = molecule(smiles)
    document = read.document(list(range(len(read.elements))))
    for pair in combinations(range(len(read.elements)), 2):
        action = "remove" if pair in read.orders else "add"
        lines, _ = draw_molecule(document, (edit(action, *pair),), None, 600)
        assert any(f"class='{action}" in line for line in lines)


def test_a_smiles_without_atoms_is_refused() -> None:
    with pytest.raises(MoleculeError, match="has no atoms"):
        molecule("")
