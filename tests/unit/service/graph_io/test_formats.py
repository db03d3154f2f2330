from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.results import (
    Atom,
    Bond,
    ClassExample,
    ClassOccurrence,
    ClassResult,
    Edit,
    Effect,
    Molecule,
    Prediction,
    ResultEdge,
    ResultGraph,
    ResultNode,
    Support,
)
from service.drawing.layout import layout
from service.drawing.svg import to_svg
from service.graph_io.chosen_graph import ChosenGraph, chosen_graph
from service.graph_io.writing.graph_writers import to_graphml

SVG = "{http://www.w3.org/2000/svg}"
FORMATS = ["svg", "graphml", "cytoscape", "pyg"]


@pytest.fixture
def answered(api):
    posted = api.explanation()
    api.finish_explanation(posted)
    return f"/v1/explanations/{posted['id']}"


def edge_set(edges):
    return {frozenset(edge) for edge in edges}


def stored(result):
    return result.model_dump_json().encode()


def expected(api):
    best = api.result().answers[0].counterfactuals[0]
    return best.graph, edge_set((edge.source, edge.target) for edge in best.graph.edges)


def test_graphml_reads_back(api, answered):
    graph, edges = expected(api)
    answer = api.client.get(f"{answered}?format=graphml")
    assert answer.headers["content-type"] == "application/graphml+xml"
    read = nx.read_graphml(io.BytesIO(answer.content))
    assert set(read.nodes) == {node.id for node in graph.nodes}
    assert edge_set(read.edges) == edges
    assert {data["edit"] for _, _, data in read.edges(data=True)} == {"kept"}
    assert read.nodes["a"]["x0"] == 1.0
    assert read.graph["predicted_class"] == 1
    assert '"remove"' in read.graph["edits"]


def test_graphml_escapes_ids(api):
    names = ["<a>&\"'", "]]>", 7, "日本"]
    chosen = chosen_graph(
        stored(class_result(api, example(names, [(0, 1), (2, 3)], features=3))), 0, 0
    )
    read = nx.read_graphml(io.BytesIO(to_graphml(chosen).encode()))
    assert list(read.nodes) == [str(name) for name in names]
    assert edge_set(read.edges) == {frozenset(names[:2]), frozenset(["7", "日本"])}
    assert read.nodes["]]>"] == {"x0": 0.0, "x1": 1.0, "x2": 0.0}
    assert isinstance(read.graph["predicted_class"], int)


def test_cytoscape_reads_back(api, answered):
    graph, edges = expected(api)
    document = api.client.get(f"{answered}?format=cytoscape").json()
    read = nx.cytoscape_graph(document)
    assert set(read.nodes) == {node.id for node in graph.nodes}
    assert edge_set(read.edges) == edges
    positions = [tuple(node["position"].values()) for node in document["elements"]["nodes"]]
    assert len(set(positions)) == len(positions)


def test_a_pyg_dict_can_be_posted_again(api, answered):
    graph, edges = expected(api)
    document = api.client.get(f"{answered}?format=pyg").json()
    names = document["node_ids"]
    sources, targets = document["edge_index"]
    assert edge_set((names[s], names[t]) for s, t in zip(sources, targets, strict=True)) == edges
    assert len(sources) == 2 * len(edges)
    assert document["x"] == [node.x for node in graph.nodes]
    again = api.client.post("/v1/datasets", json={"name": "again", "graphs": [document]})
    assert again.status_code == 201, again.text


def test_a_drawing_shows_the_edits(api, answered):
    answer = api.client.get(f"{answered}?format=svg&graph=0&alternative=0")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    drawing = ET.fromstring(answer.text)
    graph, edges = expected(api)
    kinds = [line.get("class") for line in drawing.iter(f"{SVG}line")]
    # The legend has one more line of each kind.
    assert kinds.count("kept") == len(edges) + 1
    assert kinds.count("removed") == 2
    assert kinds.count("added") == 1
    assert len(list(drawing.iter(f"{SVG}circle"))) == len(graph.nodes)
    assert "0.94 → 0.17" in answer.text
    assert answer.text == api.client.get(f"{answered}?format=svg").text

    etag = {"If-None-Match": answer.headers["etag"]}
    assert api.client.get(f"{answered}?format=svg", headers=etag).status_code == 304


def test_only_a_drawing_shows_a_miss(api, answered):
    drawing = api.client.get(f"{answered}?format=svg&graph=1")
    assert drawing.status_code == 200
    assert "No counterfactual within the budget" in drawing.text
    for form in ("graphml", "cytoscape", "pyg"):
        answer = api.client.get(f"{answered}?format={form}&graph=1")
        assert answer.status_code == 409
        assert "closest miss" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("format=svg&graph=2", "graph"),
        ("format=svg&alternative=1", "alternative"),
        ("graph=0", "graph"),
        ("alternative=0", "alternative"),
    ],
)
def test_unknown_indices_are_rejected(api, answered, query, parameter):
    answer = api.client.get(f"{answered}?{query}")
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["parameter"] == parameter


@pytest.mark.parametrize("form", FORMATS)
def test_an_unfinished_explanation_has_no_graph(api, form):
    posted = api.explanation()
    answer = api.client.get(f"/v1/explanations/{posted['id']}?format={form}")
    assert answer.status_code == 409
    assert "queued" in answer.json()["detail"]


def test_graphml_of_too_many_features_is_rejected(api):
    posted = api.explanation(kind="class", graph=None, target_class=1)
    graph = example(list(range(1001)), [(0, 1)], features=1000)
    api.finish_explanation(posted, class_result(api, graph))
    address = f"/v1/explanations/{posted['id']}"
    rejected = api.client.get(f"{address}?format=graphml")
    assert rejected.status_code == 422
    assert "at most 1,000,000 node features; the graph has 1,001,000" in rejected.text
    assert api.client.get(f"{address}?format=pyg").json()["num_nodes"] == 1001


def test_an_explanation_can_be_drawn_after_its_gnn_was_deleted(api):
    posted = api.explanation()
    api.finish_explanation(posted)
    api.client.delete(f"/v1/gnns/{posted['gnn']}")
    drawing = api.client.get(f"/v1/explanations/{posted['id']}?format=svg")
    assert drawing.status_code == 200
    assert "class 1" in drawing.text


def example(names, pairs, features=1):
    nodes = [
        ResultNode(id=name, x=[float(i % features == j) for j in range(features)])
        for i, name in enumerate(names)
    ]
    edges = [ResultEdge(source=names[s], target=names[t]) for s, t in pairs]
    return ResultGraph(nodes=nodes, edges=edges)


def class_result(api, graph, occurrences=()):
    prediction = Prediction(predicted_class=1, probabilities=[0.04, 0.96])
    shown = ClassExample(
        graph=graph,
        support=Support(in_class=1.0, elsewhere=0.17, class_count=80, other_count=80),
        contrast=0.83,
        effect=Effect(mean=2.4, inserted=None, broken=None),
        confidence=0.8,
        prediction=prediction,
        confidence_alone=0.96,
        found_by=["data"],
        chain=[],
        occurrences=list(occurrences),
        denoiser_likelihood=-1.2,
        density=0.4,
        connected=True,
    )
    base = api.result()
    return ClassResult(
        target_class=1,
        examples=[shown, shown],
        mmd=None,
        timings=base.timings,
        receipt=base.receipt,
        warnings=[],
    )


def test_class_examples_are_drawn(api):
    posted = api.explanation(kind="class", graph=None, target_class=1)
    ring = example(["a", "b", "c"], [(0, 1), (1, 2), (2, 0)])
    api.finish_explanation(posted, class_result(api, ring))
    address = f"/v1/explanations/{posted['id']}"
    drawing = api.client.get(f"{address}?format=svg&graph=1").text
    assert "pattern 2 of 2" in drawing
    assert "In 100% of the class, in 17% of others; effect +2.4 log-odds" in drawing
    assert api.client.get(f"{address}?format=svg&graph=2").status_code == 422
    assert api.client.get(f"{address}?format=svg&alternative=1").status_code == 422
    assert len(api.client.get(f"{address}?format=pyg").json()["edge_index"][0]) == 6
    assert api.client.get(address).json()["result"]["kind"] == "class"


def test_occurrences_are_marked_in_their_graphs(api):
    ring = example([0, 1, 2], [(0, 1), (1, 2), (2, 0)])
    whole = example(list(range(5)), [(0, 1), (1, 2), (2, 3), (1, 3), (3, 4)])
    places = [
        ClassOccurrence(graph=7, nodes=[1, 2, 3], shown=whole),
        ClassOccurrence(graph=9, nodes=[1, 2, 3]),
    ]
    chosen = chosen_graph(stored(class_result(api, ring, places)), 0, 0)
    drawing = to_svg(chosen, GnnNames(class_names=("cycle", "house")))
    assert "Pattern of class house" in drawing
    assert "In reference graph 7" in drawing
    assert "In reference graph 9" not in drawing  # its graph is not part of the result
    parsed = ET.fromstring(drawing)
    styles = [line.get("class") for line in parsed.iter(f"{SVG}line")]
    assert styles.count("found") == 3 + 1  # and one in the legend
    faint = [one for one in parsed.iter(f"{SVG}circle") if "faint" in one.get("class")]
    assert {one.find(f"{SVG}title").text for one in faint} == {"node 0", "node 4"}


def test_the_classified_node_is_ringed_in_occurrences(api):
    ring = example([0, 1, 2], [(0, 1), (1, 2), (2, 0)])
    whole = example(list(range(4)), [(0, 1), (1, 2), (2, 3), (1, 3)])
    result = class_result(api, ring, [ClassOccurrence(graph=7, nodes=[3, 2, 1], shown=whole)])
    document = json.loads(stored(result))
    document["examples"][0]["node"] = 2
    drawing = to_svg(chosen_graph(json.dumps(document).encode(), 0, 0))
    assert "In reference neighbourhood 7" in drawing
    circles = list(ET.fromstring(drawing).iter(f"{SVG}circle"))
    ringed = [
        before.find(f"{SVG}title").text
        for before, circle in pairwise(circles)
        if circle.get("class") == "ring" and before.find(f"{SVG}title") is not None
    ]
    assert ringed[:2] == ["node 2", "node 1"]  # in the pattern, and where it occurs


def test_class_results_of_earlier_versions_are_drawn(api):
    document = json.loads(stored(class_result(api, example([0, 1], [(0, 1)]))))
    for shown in document["examples"]:
        for name in ("support", "contrast", "effect", "occurrences", "chain", "found_by"):
            del shown[name]
    drawing = to_svg(chosen_graph(json.dumps(document).encode(), 0, 0))
    assert "The GNN predicts class 1 (0.96)" in drawing


def test_hostile_ids_are_escaped(api):
    names = ["<script>alert(1)</script>", '"><svg onload=x>', "]]>&amp;", "b\ufffe"]
    graph = example(names, [(0, 1), (1, 2), (2, 3)])
    result = class_result(api, graph)
    drawing = to_svg(chosen_graph(stored(result), 0, 0), GnnNames(class_names=("<b>", "&&\x00")))
    parsed = ET.fromstring(drawing)
    assert {element.tag.removeprefix(SVG) for element in parsed.iter()} <= {
        "svg", "title", "desc", "style", "rect", "text", "line", "circle",
    }  # fmt: skip
    assert not any(name.startswith("on") for e in parsed.iter() for name in e.attrib)
    titles = {element.text for element in parsed.iter(f"{SVG}title")}
    assert "node <script>alert(1)</script>" in titles


@pytest.mark.parametrize(
    "graph",
    [
        nx.complete_graph(8),
        nx.star_graph(29),
        nx.star_graph(200),
        nx.cycle_graph(24),
        nx.barabasi_albert_graph(60, 1, seed=1),
        nx.barabasi_albert_graph(60, 4, seed=1),
        nx.convert_node_labels_to_integers(nx.grid_2d_graph(10, 30)),
    ],
)
def test_the_closest_two_nodes_limit_the_radius(api, graph):
    shown = example(list(graph.nodes), list(graph.edges))
    drawing = to_svg(chosen_graph(stored(class_result(api, shown)), 0, 0))
    circles = list(ET.fromstring(drawing).iter(f"{SVG}circle"))
    places = np.array([[float(c.get("cx")), float(c.get("cy"))] for c in circles])
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    nearest = apart[~np.eye(len(graph), dtype=bool)].min()
    scale = np.ptp(places[:, 0]) / np.ptp(layout(len(graph), list(graph.edges))[:, 0])
    (radius,) = {float(circle.get("r")) for circle in circles}
    assert radius == pytest.approx(np.clip(min(0.24 * scale, 0.48 * nearest), 3.5, 15), abs=0.15)


@pytest.mark.parametrize(("atoms", "is_molecule"), [(150, True), (151, False)])
def test_a_large_molecule_is_drawn_as_a_graph(atoms, is_molecule):
    pytest.importorskip("rdkit.Chem.Draw.rdMolDraw2D", exc_type=ImportError)
    chain = [(i, i + 1) for i in range(atoms - 1)]
    prediction = Prediction(predicted_class=1, probabilities=[0.04, 0.96])
    chosen = ChosenGraph(
        title="a chain",
        subtitle="",
        graph=example(list(range(atoms)), chain),
        edits=(),
        before=None,
        after=prediction,
        is_answer=True,
        molecule=Molecule(
            smiles="C" * atoms,
            hydrogens=False,
            atoms=[Atom(node=i, element="C") for i in range(atoms)],
            bonds=[Bond(source=s, target=t, order=1.0) for s, t in chain],
        ),
    )
    assert ('<g class="molecule"' in to_svg(chosen)) is is_molecule


def test_added_edges_are_counted_once(api):
    base = api.result()
    answer = base.answers[0]
    added = Edit(action="add", source="c", target="tail", plausibility=0.1, proposed_by="search")
    best = answer.counterfactuals[0]
    edges = [*best.graph.edges, ResultEdge(source="tail", target="c")]
    changed = best.model_copy(
        update={
            "graph": ResultGraph(nodes=best.graph.nodes, edges=edges),
            "edits": [*best.edits, added],
        }
    )
    result = base.model_copy(
        update={"answers": [answer.model_copy(update={"counterfactuals": [changed]})]}
    )
    drawing = ET.fromstring(to_svg(chosen_graph(stored(result), 0, 0)))
    kinds = [line.get("class") for line in drawing.iter(f"{SVG}line")]
    assert kinds.count("added") == 2
    assert kinds.count("kept") == len(best.graph.edges) + 1
