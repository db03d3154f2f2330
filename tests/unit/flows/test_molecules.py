"""A GNN for molecules is registered and explained over HTTP, and its answers are drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from d4explain.contracts.features.featurisers import SmilesFeaturiser
from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.gnn.graphs import Graph
from store.artifacts import graph_sets
from store.catalogue.datasets import get as dataset_of
from tests.unit.flows.api_flow import QUICK_TRAINING, ApiFlow, assert_refused
from tests.unit.flows.reading_gnns import MOLECULE_SPEC as SPEC
from tests.unit.flows.reading_gnns import MOLECULES, bond_counter
from worker.cases.editable_molecules import generated_molecule

Chem = pytest.importorskip("rdkit.Chem", reason="molecules need the molecules extra")

torch.set_num_threads(1)
TITLE = "{http://www.w3.org/2000/svg}title"
FEATURISER: dict[str, Any] = SPEC["featuriser"]
REFERENCE = [molecule["smiles"] for molecule in MOLECULES]
PENTAFLUOROETHANE = "FC(F)(F)C(F)F"  # only one carbon has a free valence


@pytest.fixture(scope="module")
def flow(shared_api: Any) -> ApiFlow:
    flow = ApiFlow(shared_api)
    samples = [{"smiles": "CC", "label": 0}, {"smiles": "CC(C)(C)C(C)(C)C", "label": 1}]
    gnn = flow.register("bonds", SPEC, bond_counter(17.5), {"graphs": samples})
    assert gnn["state"] == "ready", gnn
    assert gnn["report"]["samples"]["accuracy"] == 1.0
    flow.gnn = gnn["id"]
    flow.dataset = flow.create_dataset(MOLECULES, gnn="bonds")["id"]
    return flow


def test_reference_sets_contain_their_molecules(flow: ApiFlow) -> None:
    store = flow.api.store
    with store.database.reading() as session:
        row = dataset_of(session, flow.dataset, tenant=DEFAULT_TENANT)
    assert row.features == 5
    graphs = graph_sets.unpack(store.artifacts.of("default").get(row.graphs_digest))
    assert [graph.molecule and graph.molecule.text for graph in graphs] == REFERENCE


def test_invalid_smiles_are_refused_with_a_pointer(flow: ApiFlow) -> None:
    client = flow.client
    body = {"name": "bad", "gnn": flow.gnn, "graphs": [{"smiles": "CC"}, {"smiles": "C1C"}]}
    before = flow.api.written()
    assert_refused(client.post("/v1/datasets", json=body), "/graphs/1/smiles", "RDKit can read")
    body["gnn"] = "nobody"
    assert_refused(client.post("/v1/datasets", json=body), "/gnn", "nobody", status=404)
    body = {"name": "bad", "graphs": [{"smiles": "CC"}]}
    assert_refused(client.post("/v1/datasets", json=body), "/graphs/0/smiles", "`gnn`")
    assert_refused(
        flow.post_explanation(graph={"smiles": "CC(=O"}), "/graph/smiles", "RDKit can read"
    )
    assert_refused(
        flow.post_explanation(graphs=[{"smiles": "CO"}, {"smiles": "C5"}]),
        "/graphs/1/smiles",
        "RDKit",
    )
    bad = [{"smiles": "C", "label": 0}, {"smiles": "C=N#C", "label": 1}]
    assert_refused(
        flow.post_gnn("bonds", SPEC, bond_counter(1.0), {"graphs": bad}),
        "/samples/graphs/1/smiles",
        "valence",
    )
    prediction = client.post(f"/v1/gnns/{flow.gnn}/predictions", json={"graph": {"smiles": "x"}})
    assert_refused(prediction, "/graph/smiles", "RDKit can read")
    assert flow.api.written() == before


def test_predictions_of_molecules_equal_those_of_their_graphs(flow: ApiFlow) -> None:
    predictions = flow.predict(graphs=[{"smiles": "CCO"}, {"smiles": PENTAFLUOROETHANE}])
    found = [one["probabilities"][1] for one in predictions]
    logits = torch.tensor([3 + 4 - 17.5, 7 + 12 - 17.5]) * 2
    assert found == pytest.approx(logits.sigmoid().tolist(), rel=1e-4)


def violations(smiles: str, edits: list[dict[str, Any]]) -> set[int]:
    """The atoms with too many bonds after the edits, according to RDKit."""
    molecule = Chem.RWMol(Chem.MolFromSmiles(smiles))
    for edit in edits:
        ends = edit["source"], edit["target"]
        if edit["action"] == "add":
            molecule.AddBond(*ends, Chem.BondType.SINGLE)
        else:
            molecule.RemoveBond(*ends)
    return {found.GetAtomIdx() for found in Chem.DetectChemistryProblems(molecule)}


def test_counterfactuals_list_violated_valences(flow: ApiFlow) -> None:
    """One added bond flips the GNN, and almost every added bond violates a valence."""
    found = flow.explain(graph={"smiles": "FC(F)(F)CC"}, alternatives=8, preset="thorough")
    flow.assert_what_if_agrees(found)
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
def test_valid_molecule_restricts_answers_to_valid_molecules(flow: ApiFlow, explainer: str) -> None:
    """One added bond flips the GNN: it is valid between carbons and invalid at fluorine."""
    smiles = "FC(F)CCC"
    choice: dict[str, Any] = {"explainer": explainer}
    if explainer == "d4-paper":  # a few steps of the default recipe are enough for many samples
        choice["denoiser"] = {"recipe": "default", **QUICK_TRAINING}
    broken = {}
    for valid in (False, True):
        constraints = {"valid_molecule": valid, "max_ratio": 1.0}
        found = flow.explain(
            graph={"smiles": smiles}, alternatives=8, constraints=constraints, **choice
        )
        (answer,) = found["result"]["answers"]
        assert answer["found"]
        broken[valid] = [violations(smiles, one["edits"]) for one in answer["counterfactuals"]]
        assert found["result"]["receipt"]["config"]["constraints"]["valid_molecule"] is valid
    assert any(broken[False])  # otherwise the constraint would have no effect
    assert not any(broken[True])
    for one in answer["counterfactuals"]:
        assert one["molecule"]["valid"]
        assert Chem.MolFromSmiles(one["molecule"]["smiles"]) is not None


def test_believable_molecules_keep_their_valences_unless_the_request_accepts_unseen_ones(
    flow: ApiFlow,
) -> None:
    broken = {}
    for only_seen in (True, False):
        constraints = {"only_seen": only_seen, "max_ratio": 1.0}
        found = flow.explain(
            graph={"smiles": "FC(F)CCC"},
            alternatives=8,
            aim="believable",
            constraints=constraints,
            explainer="search",
        )
        (answer,) = found["result"]["answers"]
        assert answer["found"]
        broken[only_seen] = [
            violations("FC(F)CCC", one["edits"]) for one in answer["counterfactuals"]
        ]
    assert any(broken[False])
    assert not any(broken[True])


def test_a_valid_molecule_is_found_although_no_single_added_bond_is_valid(flow: ApiFlow) -> None:
    constraints = {"valid_molecule": True, "max_ratio": 1.0}
    found = flow.explain(graph={"smiles": "FC(F)(F)CC"}, constraints=constraints)
    (answer,) = found["result"]["answers"]
    assert answer["found"]
    assert not any(violations("FC(F)(F)CC", one["edits"]) for one in answer["counterfactuals"])


def test_a_class_that_no_valid_molecule_reaches_is_not_found(flow: ApiFlow) -> None:
    """All valences are used: adding a bond requires removing one, so the count cannot grow."""
    constraints = {"valid_molecule": True, "max_ratio": 1.0}
    found = flow.explain(
        graph={"smiles": "FC(F)(F)C(F)(F)F"}, constraints=constraints, target_class=0
    )
    (answer,) = found["result"]["answers"]
    assert answer["found"]  # fewer bonds
    found = flow.explain(graph={"smiles": "FC(F)(F)F"}, constraints=constraints, target_class=1)
    (answer,) = found["result"]["answers"]
    assert not answer["found"]
    assert answer["closest_miss"] is not None
    assert not violations("FC(F)(F)F", answer["closest_miss"]["edits"])


def test_valid_molecule_is_refused_for_other_graphs(flow: ApiFlow) -> None:
    graph = {"x": [[1, 0, 0, 0, 0]] * 3, "edge_index": [[0, 1], [1, 2]]}
    body = {"constraints": {"valid_molecule": True}}
    assert_refused(
        flow.post_explanation(graph=graph, **body),
        "/constraints/valid_molecule",
        "the graph is not one",
    )
    many = flow.post_explanation(graphs=[{"smiles": "CC"}, graph], **body)
    assert_refused(many, "/constraints/valid_molecule", "graph 1 is not one")
    plain = flow.explain(graph=graph)["result"]["answers"][0]
    assert plain["molecule"] is None


def test_a_closest_miss_is_described_and_drawn_as_a_molecule(flow: ApiFlow) -> None:
    found = flow.explain(
        graph={"smiles": "FC(F)(F)C"}, preset="thorough", constraints={"max_edits": 1}
    )
    (answer,) = found["result"]["answers"]
    assert not answer["found"]
    miss = answer["closest_miss"]
    broken = violations("FC(F)(F)C", miss["edits"])
    assert {one["node"] for one in miss["molecule"]["valence_violations"]} == broken
    assert miss["molecule"]["valid"] == (not broken) == (miss["molecule"]["smiles"] is not None)
    drawn = flow.client.get(f"/v1/explanations/{found['id']}?format=svg")
    assert b'class="molecule"' in drawn.content
    assert b"class='added'" in drawn.content or b"class='removed'" in drawn.content


def test_class_examples_are_described_and_drawn_as_molecules(flow: ApiFlow) -> None:
    request = {"kind": "class", "target_class": 0, "example_count": 3, "candidates": 8, "steps": 8}
    # Few molecules convince no evidence; the paper's sampler returns all its graphs.
    request |= {"explainer": "d4-paper", "denoiser": {"recipe": "default", **QUICK_TRAINING}}
    found = flow.explain(**request)
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
        titles = {one.text for one in ET.fromstring(flow.client.get(path).content).iter(TITLE)}
        assert {f"node {node} ({element})" for node, element in enumerate(elements)} <= titles


VALENCES = {"C": 4, "N": 3, "O": 2, "F": 1}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(1, 9), density=st.floats(0, 0.8))
def test_a_generated_molecule_is_valid_if_no_degree_exceeds_the_valence(
    seed: int, size: int, density: float
) -> None:
    """All bonds are single, so the valence of an atom is its degree."""
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
        back.add_nodes_from(
            (atom.GetIdx(), {"element": atom.GetSymbol()}) for atom in read.GetAtoms()
        )
        nx.set_node_attributes(drawn, dict(enumerate(elements)), "element")
        assert nx.is_isomorphic(drawn, back, node_match=lambda a, b: a["element"] == b["element"])


@pytest.mark.parametrize(
    "row", [[0.0] * 5, [0.5, 0.5, 0, 0, 0], [2.0, 0, 0, 0, 0], [1.0, 1, 0, 0, 0]]
)
def test_graphs_with_nodes_that_are_not_atoms_are_not_molecules(row: list[float]) -> None:
    graph = Graph(torch.tensor([[1.0, 0, 0, 0, 0], row]), torch.tensor([[0], [1]]))
    assert generated_molecule(graph, SmilesFeaturiser.model_validate(FEATURISER)) is None
    assert generated_molecule(graph, None) is None


def test_other_elements_are_written_as_stars() -> None:
    graph = Graph(torch.eye(5)[[0, 4]], torch.tensor([[0], [1]]))
    found = generated_molecule(graph, SmilesFeaturiser.model_validate(FEATURISER))
    assert found is not None
    assert found.smiles == "*C"


def test_answers_are_drawn_as_molecules(flow: ApiFlow) -> None:
    hexane = "[CH3:7][CH2:3][CH2:4][CH2:9][CH2:8][CH3:5]"
    found = flow.explain(graph={"smiles": hexane}, alternatives=1, constraints={"max_ratio": 1.0})
    (answer,) = found["result"]["answers"]
    assert [atom["node"] for atom in answer["molecule"]["atoms"]] == [7, 3, 4, 9, 8, 5]
    edits = answer["counterfactuals"][0]["edits"]
    drawn = flow.client.get(f"/v1/explanations/{found['id']}?format=svg")
    assert drawn.headers["content-type"] == "image/svg+xml"
    tree = ET.fromstring(drawn.content)
    classes = [element.get("class") for element in tree.iter("{http://www.w3.org/2000/svg}path")]
    for css_class, action in (("added", "add"), ("removed", "remove")):
        assert classes.count(css_class) == sum(edit["action"] == action for edit in edits)
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


def test_bond_types_are_edge_attributes_and_added_bonds_are_single(flow: ApiFlow) -> None:
    gnn = flow.register("double bonds", BOND_SPEC, double_bond_counter())
    assert gnn["state"] == "ready", gnn
    mostly_double = ["C=C", "C=CC=C", "C=CC=CC=C", "CC=O"]
    dataset = flow.create_dataset([{"smiles": text} for text in mostly_double], gnn=gnn["id"])
    assert dataset["edge_features"] == 2
    options = {"gnn": gnn["id"], "dataset": dataset["id"], "preset": "thorough"}
    posted = [{"smiles": "CC(=O)C"}, {"smiles": "CCCO"}]
    found = flow.explain(**options, graphs=posted, constraints={"max_ratio": 0.5})
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
    assert_refused(
        flow.post_explanation(**options, graph=bare),
        "/graph/edge_attr/0",
        "takes 2 attributes per edge",
    )
    other = {"gnn": flow.gnn, "graph": {**bare, "edge_attr": [[1, 0]]}}
    warnings = flow.explain(**other)["result"]["warnings"]
    assert any("edge_attr" in text and "left out" in text for text in warnings)


def test_global_counterfactuals_of_molecules_are_molecules(flow: ApiFlow) -> None:
    chains = ["CCCCCO", "OCCCCO", "CCCCCF", "CCCCCCO", "CCCCCCC"]
    dataset = flow.create_dataset([{"smiles": text} for text in chains], gnn="bonds", name="chains")
    body = {"kind": "global", "gnn": flow.gnn, "dataset": dataset["id"], "source_class": 0}
    answer = flow.client.post("/v1/explanations", json={**body, "count": 2, "theta": 0.2})
    assert answer.status_code == 202, answer.text
    flow.work()
    at = answer.headers["location"]
    result = flow.client.get(at).json()["result"]
    assert result["counterfactuals"], result["reason"]
    assert {row["name"] for row in result["node_types"]} <= {*FEATURISER["atoms"], "other"}
    for one in result["counterfactuals"]:
        elements = [atom["element"] for atom in one["molecule"]["atoms"]]
        names = {row["type"]: row["name"] for row in result["node_types"]}
        assert elements == [names[kind] for kind in one["node_types"]]
    drawn = flow.client.get(f"{at}?format=svg").text
    assert drawn.count('<g class="molecule"') == len(result["counterfactuals"])
