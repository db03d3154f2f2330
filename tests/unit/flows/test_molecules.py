"""Molecules over HTTP, from registration to a drawing; the worker runs in this process."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from d4explain.contracts.featurisers import SmilesFeaturiser
from d4explain.gnn.graphs import Graph
from store import jobs
from store.artifacts import graph_sets
from store.catalogue.datasets import get as dataset_of
from store.jobs import JobState
from worker.cases.editable_molecules import generated_molecule
from worker.execution.runner import Runner
from worker.handlers import HANDLERS
from worker.loading.library import Library

Chem = pytest.importorskip("rdkit.Chem", reason="molecules need the molecules extra")

torch.set_num_threads(1)
TITLE = "{http://www.w3.org/2000/svg}title"
FEATURISER: dict[str, Any] = {"kind": "smiles", "atoms": ["C", "N", "O", "F"], "other": True}
SPEC = {
    "features": 5,
    "classes": 2,
    "class_names": ["few", "many"],
    "layers": [
        {"type": "gin", "out": 1, "hidden": 1},
        {"type": "pool", "op": "sum"},
        {"type": "linear", "out": 2},
    ],
    "featuriser": FEATURISER,
}
REFERENCE = ["CCO", "c1ccccc1", "CC(C)N", "C1CC1", "FC(F)F"]
PENTAFLUOROETHANE = "FC(F)(F)C(F)F"  # no atom but one carbon has room for a bond


def bond_counter(threshold: float, sign: int = 1) -> bytes:
    """Class 1 if atoms + 2 · bonds are more than the threshold; with sign −1, if less."""
    linear = [[0.0], [2.0 * sign]]
    return save(
        {
            "layers.0.conv.eps": torch.zeros(1),
            "layers.0.conv.nn.0.weight": torch.ones(1, 5),
            "layers.0.conv.nn.0.bias": torch.zeros(1),
            "layers.0.conv.nn.2.weight": torch.ones(1, 1),
            "layers.0.conv.nn.2.bias": torch.zeros(1),
            "layers.2.linear.weight": torch.tensor(linear),
            "layers.2.linear.bias": torch.tensor([0.0, -2.0 * sign * threshold]),
        }
    )


@dataclass
class Road:
    api: Any
    runner: Runner
    gnn: str = ""
    dataset: str = ""

    def work(self) -> None:
        while True:
            with self.api.store.database.reading() as session:
                queued = jobs.page(session, state=JobState.QUEUED).items
            ready = [job.id for job in queued if job.waiting_for is None]
            if not ready:
                return
            self.runner.run(ready[-1])

    def register(
        self,
        weights: bytes,
        samples: list[dict[str, Any]] | None = None,
        spec: dict[str, Any] = SPEC,
    ) -> Any:
        files = {"weights": ("w", weights)}
        if samples is not None:
            files["samples"] = ("s", json.dumps({"graphs": samples}).encode())
        return self.api.client.post(
            "/v1/gnns",
            data={"name": "bonds", "spec": json.dumps(spec)},
            files=files,
            headers={"Prefer": "respond-async"},
        )

    def post(self, **body: Any) -> Any:
        known: dict[str, Any] = {
            "kind": "counterfactual",
            "gnn": self.gnn,
            "dataset": self.dataset,
        }
        if body.get("explainer") != "search":
            known["denoiser"] = {"steps": 8, "hidden": 4, "blocks": 1}
        return self.api.client.post("/v1/explanations", json={**known, **body})

    def explained(self, **body: Any) -> dict[str, Any]:
        answer = self.post(**body)
        assert answer.status_code == 202, answer.text
        self.work()
        found: dict[str, Any] = self.api.client.get(answer.headers["location"]).json()
        assert found["state"] == "succeeded", found["job"]["error"]
        return found


@pytest.fixture(scope="module")
def road(shared_api: Any) -> Road:
    library = Library(shared_api.store.artifacts, torch.device("cpu"))
    road = Road(shared_api, Runner(shared_api.store, library, HANDLERS, "test"))
    samples = [{"smiles": "CC", "label": 0}, {"smiles": "CC(C)(C)C(C)(C)C", "label": 1}]
    answer = road.register(bond_counter(17.5), samples)
    assert answer.status_code == 202, answer.text
    road.work()
    gnn = shared_api.client.get(answer.headers["location"]).json()
    assert gnn["state"] == "ready", gnn
    assert gnn["report"]["samples"]["accuracy"] == 1.0
    road.gnn = gnn["id"]
    graphs = [{"smiles": text, "label": 0} for text in REFERENCE]
    answer = shared_api.client.post(
        "/v1/datasets", json={"name": "small", "gnn": "bonds", "graphs": graphs}
    )
    assert answer.status_code == 201, answer.text
    road.dataset = answer.json()["id"]
    return road


def refused(answer: Any, pointer: str, words: str, status: int = 422) -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["errors"][0]
    assert error["pointer"] == pointer
    assert words in error["detail"]


def test_reference_sets_keep_their_molecules(road: Road) -> None:
    store = road.api.store
    with store.database.reading() as session:
        row = dataset_of(session, road.dataset)
    assert row.features == 5
    kept = graph_sets.unpack(store.artifacts.get(row.graphs_digest))
    assert [graph.molecule and graph.molecule.text for graph in kept] == REFERENCE


def test_bad_smiles_are_refused_where_they_are(road: Road) -> None:
    client = road.api.client
    body = {"name": "bad", "gnn": road.gnn, "graphs": [{"smiles": "CC"}, {"smiles": "C1C"}]}
    before = road.api.written()
    refused(client.post("/v1/datasets", json=body), "/graphs/1/smiles", "RDKit can read")
    body["gnn"] = "nobody"
    refused(client.post("/v1/datasets", json=body), "/gnn", "nobody", status=404)
    del body["gnn"]
    refused(client.post("/v1/datasets", json=body), "/graphs/0/smiles", "`gnn`")
    refused(road.post(graph={"smiles": "CC(=O"}), "/graph/smiles", "RDKit can read")
    refused(road.post(graphs=[{"smiles": "CO"}, {"smiles": "C5"}]), "/graphs/1/smiles", "RDKit")
    bad = [{"smiles": "C", "label": 0}, {"smiles": "C=N#C", "label": 1}]
    refused(road.register(bond_counter(1.0), bad), "/samples/graphs/1/smiles", "valence")
    asked = client.post(f"/v1/gnns/{road.gnn}/predictions", json={"graph": {"smiles": "x"}})
    refused(asked, "/graph/smiles", "RDKit can read")
    assert road.api.written() == before


def test_molecules_are_predicted_as_their_graphs(road: Road) -> None:
    posted = [{"smiles": "CCO"}, {"smiles": PENTAFLUOROETHANE}]
    answer = road.api.client.post(
        f"/v1/gnns/{road.gnn}/predictions",
        json={"graphs": posted},
        headers={"Prefer": "respond-async"},
    )
    road.work()
    job = road.api.client.get(answer.headers["location"]).json()
    found = [one["probabilities"][1] for one in job["result"]["predictions"]]
    logits = torch.tensor([3 + 4 - 17.5, 7 + 12 - 17.5]) * 2
    assert found == pytest.approx(logits.sigmoid().tolist(), rel=1e-4)


def violations(smiles: str, edits: list[dict[str, Any]]) -> set[int]:
    """The truth by RDKit: atoms with too many bonds once the edits are made."""
    molecule = Chem.RWMol(Chem.MolFromSmiles(smiles))
    for edit in edits:
        ends = edit["source"], edit["target"]
        if edit["action"] == "add":
            molecule.AddBond(*ends, Chem.BondType.SINGLE)
        else:
            molecule.RemoveBond(*ends)
    return {found.GetAtomIdx() for found in Chem.DetectChemistryProblems(molecule)}


def test_counterfactuals_say_which_valences_they_break(road: Road) -> None:
    """One bond more flips the GNN, and nearly every bond more is one too many."""
    found = road.explained(graph={"smiles": "FC(F)(F)CC"}, alternatives=8, preset="thorough")
    (answer,) = found["result"]["answers"]
    assert answer["molecule"]["smiles"] == "FC(F)(F)CC"
    assert [atom["element"] for atom in answer["molecule"]["atoms"]] == list("FCFFCC")
    assert {bond["order"] for bond in answer["molecule"]["bonds"]} == {1.0}
    verdicts = []
    for one in answer["counterfactuals"]:
        broken = violations("FC(F)(F)CC", one["edits"])
        molecule = one["molecule"]
        assert {violation["node"] for violation in molecule["valence_violations"]} == broken
        assert molecule["valid"] == (not broken) == (molecule["smiles"] is not None)
        verdicts.append(molecule["valid"])
    assert not all(verdicts)


@pytest.mark.parametrize("explainer", ["d4", "d4-paper", "search"])
def test_valid_molecules_can_be_asked_for(road: Road, explainer: str) -> None:
    """One bond more flips the GNN: between carbons it is valid, at fluorine it is one too many."""
    smiles = "FC(F)CCC"
    broken = {}
    for valid in (False, True):
        asked = {"valid_molecule": valid, "max_ratio": 1.0}
        found = road.explained(
            graph={"smiles": smiles}, alternatives=8, constraints=asked, explainer=explainer
        )
        (answer,) = found["result"]["answers"]
        assert answer["found"]
        broken[valid] = [violations(smiles, one["edits"]) for one in answer["counterfactuals"]]
        assert found["result"]["receipt"]["config"]["constraints"]["valid_molecule"] is valid
    assert any(broken[False])  # else the rule would have had nothing to do
    assert not any(broken[True])
    for one in answer["counterfactuals"]:
        assert one["molecule"]["valid"]
        assert Chem.MolFromSmiles(one["molecule"]["smiles"]) is not None


def test_a_valid_molecule_is_found_where_one_bond_more_is_never_valid(road: Road) -> None:
    asked = {"valid_molecule": True, "max_ratio": 1.0}
    found = road.explained(graph={"smiles": "FC(F)(F)CC"}, constraints=asked)
    (answer,) = found["result"]["answers"]
    assert answer["found"]
    assert not any(violations("FC(F)(F)CC", one["edits"]) for one in answer["counterfactuals"])


def test_what_no_valid_molecule_reaches_is_not_found(road: Road) -> None:
    """All fluorine: whatever bond comes, another has to go, and there are never more."""
    asked = {"valid_molecule": True, "max_ratio": 1.0}
    found = road.explained(graph={"smiles": "FC(F)(F)C(F)(F)F"}, constraints=asked, target_class=0)
    (answer,) = found["result"]["answers"]
    assert answer["found"]  # fewer bonds
    found = road.explained(graph={"smiles": "FC(F)(F)F"}, constraints=asked, target_class=1)
    (answer,) = found["result"]["answers"]
    assert not answer["found"]
    assert answer["closest_miss"] is not None
    assert not violations("FC(F)(F)F", answer["closest_miss"]["edits"])


def test_valid_molecule_is_for_molecules(road: Road) -> None:
    graph = {"x": [[1, 0, 0, 0, 0]] * 3, "edge_index": [[0, 1], [1, 2]]}
    body = {"constraints": {"valid_molecule": True}}
    refused(road.post(graph=graph, **body), "/constraints/valid_molecule", "the graph is not one")
    many = road.post(graphs=[{"smiles": "CC"}, graph], **body)
    refused(many, "/constraints/valid_molecule", "graph 1 is not one")
    plain = road.explained(graph=graph)["result"]["answers"][0]
    assert plain["molecule"] is None


def test_a_closest_miss_is_a_molecule_too(road: Road) -> None:
    found = road.explained(
        graph={"smiles": "FC(F)(F)C"}, preset="thorough", constraints={"max_edits": 1}
    )
    (answer,) = found["result"]["answers"]
    assert not answer["found"]
    miss = answer["closest_miss"]
    broken = violations("FC(F)(F)C", miss["edits"])
    assert {one["node"] for one in miss["molecule"]["valence_violations"]} == broken
    assert miss["molecule"]["valid"] == (not broken) == (miss["molecule"]["smiles"] is not None)
    drawn = road.api.client.get(f"/v1/explanations/{found['id']}?format=svg")
    assert b'class="molecule"' in drawn.content
    assert b"class='added'" in drawn.content or b"class='removed'" in drawn.content


def test_class_examples_are_molecules(road: Road) -> None:
    asked = {"kind": "class", "target_class": 0, "example_count": 3, "candidates": 8, "steps": 8}
    found = road.explained(**asked)
    assert found["result"]["examples"]
    for number, example in enumerate(found["result"]["examples"]):
        molecule = example["molecule"]
        columns = [node["x"].index(1.0) for node in example["graph"]["nodes"]]
        elements = [[*FEATURISER["atoms"], "*"][column] for column in columns]
        assert [atom["element"] for atom in molecule["atoms"]] == elements
        if molecule["valid"]:
            read = Chem.MolFromSmiles(molecule["smiles"])
            assert read.GetNumBonds() == len(example["graph"]["edges"])
            assert sorted(atom.GetSymbol() for atom in read.GetAtoms()) == sorted(elements)
        path = f"/v1/explanations/{found['id']}?format=svg&graph={number}"
        titles = {one.text for one in ET.fromstring(road.api.client.get(path).content).iter(TITLE)}
        assert {f"node {node} ({element})" for node, element in enumerate(elements)} <= titles


VALENCES = {"C": 4, "N": 3, "O": 2, "F": 1}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(1, 9), density=st.floats(0, 0.8))
def test_generated_graphs_are_judged_by_their_degrees(seed: int, size: int, density: float) -> None:
    """Every bond is single, so that an atom's valence is its degree; SMILES keep the graph."""
    drawn = nx.gnp_random_graph(size, density, seed=seed)
    rng = torch.Generator().manual_seed(seed)
    columns = torch.randint(4, (size,), generator=rng)
    elements = [FEATURISER["atoms"][column] for column in columns.tolist()]
    edges = torch.tensor(sorted(drawn.edges), dtype=torch.int64).reshape(-1, 2).T
    graph = Graph(torch.nn.functional.one_hot(columns, 5).float(), edges)
    found = generated_molecule(graph, SmilesFeaturiser.model_validate(FEATURISER))
    assert found is not None
    broken = {node for node in drawn if drawn.degree[node] > VALENCES[elements[node]]}
    assert {one.node for one in found.valence_violations} == broken
    for one in found.valence_violations:
        limit = VALENCES[one.element]
        assert (one.valence, one.allowed) == (drawn.degree[one.node], limit)
    assert found.valid == (not broken)
    if found.smiles is not None:
        read = Chem.MolFromSmiles(found.smiles)
        back = nx.Graph((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in read.GetBonds())
        back.add_nodes_from((atom.GetIdx(), {"is": atom.GetSymbol()}) for atom in read.GetAtoms())
        nx.set_node_attributes(drawn, dict(enumerate(elements)), "is")
        assert nx.is_isomorphic(drawn, back, node_match=lambda a, b: a["is"] == b["is"])


@pytest.mark.parametrize(
    "row", [[0.0] * 5, [0.5, 0.5, 0, 0, 0], [2.0, 0, 0, 0, 0], [1.0, 1, 0, 0, 0]]
)
def test_nodes_that_are_no_atoms_make_no_molecule(row: list[float]) -> None:
    graph = Graph(torch.tensor([[1.0, 0, 0, 0, 0], row]), torch.tensor([[0], [1]]))
    assert generated_molecule(graph, SmilesFeaturiser.model_validate(FEATURISER)) is None
    assert generated_molecule(graph, None) is None


def test_other_elements_are_stars() -> None:
    graph = Graph(torch.eye(5)[[0, 4]], torch.tensor([[0], [1]]))
    found = generated_molecule(graph, SmilesFeaturiser.model_validate(FEATURISER))
    assert found is not None
    assert found.smiles == "*C"


def test_molecules_are_drawn_as_molecules(road: Road) -> None:
    hexane = "[CH3:7][CH2:3][CH2:4][CH2:9][CH2:8][CH3:5]"
    found = road.explained(graph={"smiles": hexane}, alternatives=1, constraints={"max_ratio": 1.0})
    (answer,) = found["result"]["answers"]
    assert [atom["node"] for atom in answer["molecule"]["atoms"]] == [7, 3, 4, 9, 8, 5]
    edits = answer["counterfactuals"][0]["edits"]
    drawn = road.api.client.get(f"/v1/explanations/{found['id']}?format=svg")
    assert drawn.headers["content-type"] == "image/svg+xml"
    tree = ET.fromstring(drawn.content)
    classes = [element.get("class") for element in tree.iter("{http://www.w3.org/2000/svg}path")]
    for look, action in (("added", "add"), ("removed", "remove")):
        assert classes.count(look) == sum(edit["action"] == action for edit in edits)
    titles = {element.text for element in tree.iter("{http://www.w3.org/2000/svg}title")}
    assert "node 7 (C)" in titles


BOND_SPEC = {
    **SPEC,
    "layers": [{"type": "gine_sum"}, *SPEC["layers"][1:]],
    "edge_features": 2,
    "featuriser": {**FEATURISER, "bonds": ["double", "single"]},
}


def double_bond_counter() -> bytes:
    """Class 1 if carbons + directed edges from carbons + 10 per direction of =O and =C exceed 9."""
    project, head = torch.zeros(5, 2), torch.zeros(2, 5)
    project[0, 0], head[1, 0] = 10.0, 1.0
    return save(
        {
            "layers.0.conv.eps": torch.zeros(1),
            "layers.0.conv.lin.weight": project,
            "layers.0.conv.lin.bias": torch.zeros(5),
            "layers.2.linear.weight": head,
            "layers.2.linear.bias": torch.tensor([0.0, -9.0]),
        }
    )


def test_bonds_are_edge_attributes_and_added_ones_are_single(road: Road) -> None:
    answer = road.register(double_bond_counter(), spec=BOND_SPEC)
    assert answer.status_code == 202, answer.text
    road.work()
    gnn = road.api.client.get(answer.headers["location"]).json()
    assert gnn["state"] == "ready", gnn
    mostly_double = ["C=C", "C=CC=C", "C=CC=CC=C", "CC=O"]
    body = {"name": "d", "gnn": gnn["id"], "graphs": [{"smiles": text} for text in mostly_double]}
    dataset = road.api.client.post("/v1/datasets", json=body).json()
    assert dataset["edge_features"] == 2
    asked = {"gnn": gnn["id"], "dataset": dataset["id"], "preset": "thorough"}
    posted = [{"smiles": "CC(=O)C"}, {"smiles": "CCCO"}]
    found = road.explained(**asked, graphs=posted, constraints={"max_ratio": 0.5})
    acetone, propanol = found["result"]["answers"]
    # 3 + 4 + 11 + 10 and 3 + 4 + 1
    for one, logit in ((acetone, 28 - 9), (propanol, 8 - 9)):
        expected = torch.tensor(float(logit)).sigmoid().item()
        assert one["prediction"]["probabilities"][1] == pytest.approx(expected, rel=1e-4)
    (removed,) = acetone["counterfactuals"][0]["edits"]
    assert (removed["action"], removed["edge_attr"]) == ("remove", [1.0, 0.0])
    (added,) = propanol["counterfactuals"][0]["edits"]
    assert (added["action"], added["edge_attr"]) == ("add", [0.0, 1.0])
    edited = Chem.RWMol(Chem.MolFromSmiles("CCCO"))
    edited.AddBond(added["source"], added["target"], Chem.BondType.SINGLE)
    Chem.SanitizeMol(edited)
    as_rdkit = Chem.MolToSmiles(edited)
    assert propanol["counterfactuals"][0]["molecule"]["smiles"] == as_rdkit
    bare = {"x": [[1, 0, 0, 0, 0]] * 2, "edge_index": [[0], [1]]}
    refused(road.post(**asked, graph=bare), "/graph/edge_attr/0", "takes 2 attributes per edge")
    other = {"gnn": road.gnn, "graph": {**bare, "edge_attr": [[1, 0]]}}
    refused(road.post(**other), "/graph/edge_attr/0", "takes none")
