"""Each kind of invalid input gets a 4xx with the place and the limit; nothing is written."""

from __future__ import annotations

import json

import pytest

NODES = [{"id": name, "x": [1.0]} for name in "abcd"]
EDGES = [{"source": "a", "target": "b"}, {"source": "b", "target": "c"}]
GRAPH = {"nodes": NODES, "edges": EDGES}  # a and b and c in a row, d alone
PYG = {"x": [[1.0], [1.0], [1.0]], "edge_index": [[0, 1], [1, 2]]}


@pytest.fixture
def api(shared_api):
    return shared_api


def graph(**changes):
    return {key: value for key, value in {**GRAPH, **changes}.items() if value is not None}


def pyg(**changes):
    return {key: value for key, value in {**PYG, **changes}.items() if value is not None}


def edges(*pairs):
    return [{"source": source, "target": target} for source, target in pairs]


def nodes(*ids, **attributes):
    return [{"id": node_id, "x": [1.0], **attributes} for node_id in ids]


# (graph, pointer below the graph, words of the detail)
BAD_GRAPHS = {
    "not an object": ([1], "", "should be an object, not array"),
    "nothing": ({}, "/nodes", "is required"),
    "no nodes": (graph(nodes=[]), "/nodes", "at least 1"),
    "no edges key": (graph(edges=None), "/edges", "`edges` or as `links`"),
    "edges twice": (graph(links=EDGES), "/edges", "`edges` or as `links`"),
    "unknown key": (graph(vertices=[]), "/vertices", "not a known field"),
    "dangling target": (graph(edges=edges(("a", "b"), ("a", "q"))), "/edges/1/target", '"q"'),
    "dangling source": (graph(edges=edges(("q", "a"))), "/edges/0/source", '"q"'),
    "dangling link": (graph(edges=None, links=edges(("a", 1))), "/links/0/target", "id 1"),
    "self-loop": (graph(edges=edges(("a", "b"), ("c", "c"))), "/edges/1", "self-loop"),
    "edge twice": (graph(edges=edges(("a", "b"), ("a", "b"))), "/edges/1", "already listed"),
    "edge without target": (graph(edges=[{"source": "a"}]), "/edges/0/target", "is required"),
    "edge not an object": (graph(edges=[["a", "b"]]), "/edges/0", "object"),
    "node id twice": (graph(nodes=nodes("a", "b", "c", "a")), "/nodes/3/id", "already"),
    "1 and '1'": (graph(nodes=nodes("a", "b", "c", 1, "1")), "/nodes/4/id", "already"),
    "boolean id": (graph(nodes=nodes("a", "b", "c", True)), "/nodes/3/id", "integer or a string"),
    "float id": (graph(nodes=nodes("a", "b", "c", 1.5)), "/nodes/3/id", "integer or a string"),
    "null id": (graph(nodes=nodes("a", "b", "c", None)), "/nodes/3/id", "integer or a string"),
    "empty id": (graph(nodes=nodes("a", "b", "c", "")), "/nodes/3/id", "1 to 64"),
    "long id": (graph(nodes=nodes("a", "b", "c", "x" * 65)), "/nodes/3/id", "has 65"),
    "huge integer id": (graph(nodes=nodes("a", "b", "c", 2**60)), "/nodes/3/id", "2^53"),
    "control in id": (graph(nodes=nodes("a", "b", "c", "x\ny")), "/nodes/3/id", "control"),
    "bidi in id": (graph(nodes=nodes("a", "b", "c", "x\u202ey")), "/nodes/3/id", "control"),
    "not XML": (graph(nodes=nodes("a", "b", "c", "x\ufffe")), "/nodes/3/id", "control"),
    "not NFC": (graph(nodes=nodes("a", "b", "c", "e\u0301")), "/nodes/3/id", "NFC"),
    "id missing": (graph(nodes=[*NODES, {"x": [1.0]}]), "/nodes/4/id", "is required"),
    "too many nodes": (
        graph(nodes=nodes(*range(21))),
        "/nodes",
        "21 nodes; this deployment accepts at most 20",
    ),
    "too many listed edges": (
        graph(edges=edges(("a", "b")) * 61),
        "/edges",
        "61 listed edges; this deployment accepts at most 60",
    ),
    "too many edges": (
        graph(nodes=nodes(*range(9)), edges=edges(*((i, j) for i in range(9) for j in range(i)))),
        "/edges",
        "36 edges; this deployment accepts at most 30",
    ),
    "text feature": (graph(nodes=[*NODES, {"id": "e", "x": ["1"]}]), "/nodes/4/x/0", "number"),
    "boolean feature": (graph(nodes=[*NODES, {"id": "e", "x": [True]}]), "/nodes/4/x/0", "number"),
    "beyond float32": (
        graph(nodes=[*NODES, {"id": "e", "x": [1e39]}]),
        "/nodes/4/x/0",
        "less than",
    ),
    "features missing": (graph(nodes=[*NODES, {"id": "e"}]), "/nodes/4/x", "is missing"),
    "negative label": (graph(label=-1), "/label", "greater than or equal to 0"),
    "text label": (graph(label="1"), "/label", "integer"),
    "boolean label": (graph(label=True), "/label", "integer"),
    "pyg: index outside": (pyg(edge_index=[[0, 1], [1, 3]]), "/edge_index/1/1", "0 to 2"),
    "pyg: negative index": (pyg(edge_index=[[-1, 1], [1, 2]]), "/edge_index/0/0", "0 to 2"),
    "pyg: float index": (pyg(edge_index=[[0.0, 1], [1, 2]]), "/edge_index/0/0", "integer"),
    "pyg: one row": (pyg(edge_index=[[0, 1]]), "/edge_index", "at least 2"),
    "pyg: rows differ": (pyg(edge_index=[[0, 1], [1]]), "/edge_index", "2 and 1"),
    "pyg: self-loop": (pyg(edge_index=[[0, 1], [1, 1]]), "/edge_index/0/1", "self-loop"),
    "pyg: edge twice": (pyg(edge_index=[[0, 0], [1, 1]]), "/edge_index/0/1", "already listed"),
    "pyg: no nodes": (pyg(x=None, edge_index=[[], []]), "/edge_index", "no nodes"),
    "pyg: counts differ": (pyg(num_nodes=4), "", "x: 3, num_nodes: 4"),
    "pyg: too many": (pyg(x=None, num_nodes=10**9), "/num_nodes", "at most 20"),
    "pyg: labels of too few nodes": (pyg(y=[0, 1]), "/y", "one for each of its 3 nodes"),
    "pyg: id twice": (pyg(node_ids=["a", "b", "a"]), "/node_ids/2", "already"),
}
# Invalid for the GNN below, which takes one feature.
BAD_FOR_GNN = {
    "wrong features": (graph(nodes=nodes(*"abcd", x=[1.0, 2.0])), "/nodes/0/x", "has 2 features"),
    "wrong features, pyg": (pyg(x=[[1.0, 2.0]] * 3), "/x/0", "has 2 features"),
    "no features at all": (graph(nodes=nodes(*"abcd", x=[])), "/nodes/0/x", "0 features"),
}


def check_rejected(api, before, answer, status=422):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    problem = answer.json()
    assert {"type", "title", "status", "detail", "errors"} <= problem.keys()
    assert problem["status"] == status
    assert problem["type"].startswith("urn:d4explain:problem:")
    assert len(problem["errors"]) <= 20
    assert len(answer.content) < 8000
    assert api.written() == before
    return problem


def check_error_at(problem, pointer, words):
    found = [error for error in problem["errors"] if error.get("pointer") == pointer]
    assert found, problem["errors"]
    assert any(words in error["detail"] for error in found), found


@pytest.mark.parametrize(("bad", "pointer", "words"), BAD_GRAPHS.values(), ids=BAD_GRAPHS)
def test_bad_graphs_of_a_reference_set(api, bad, pointer, words):
    before = api.written()
    answer = api.client.post("/v1/datasets", json={"name": "n", "graphs": [GRAPH, bad]})
    check_error_at(check_rejected(api, before, answer), f"/graphs/1{pointer}", words)


BAD_FOR_EXPLANATION = BAD_GRAPHS | BAD_FOR_GNN


@pytest.mark.parametrize(
    ("bad", "pointer", "words"), BAD_FOR_EXPLANATION.values(), ids=BAD_FOR_EXPLANATION
)
def test_bad_graphs_of_predictions(api, bad, pointer, words):
    gnn = api.gnn()
    before = api.written()
    answer = api.client.post(f"/v1/gnns/{gnn}/predictions", json={"graph": bad})
    check_error_at(check_rejected(api, before, answer), f"/graph{pointer}", words)


def test_a_graph_without_features_for_a_gnn_with_features(api):
    gnn = api.gnn(features=3)
    before = api.written()
    bare = graph(nodes=[{"id": name} for name in "abc"])
    answer = api.client.post(f"/v1/gnns/{gnn}/predictions", json={"graphs": [bare]})
    problem = check_rejected(api, before, answer)
    check_error_at(problem, "/graphs/0/nodes/0/x", f"the GNN {gnn} takes 3 per node")


def test_graphs_of_one_reference_set_have_equal_features(api):
    before = api.written()
    wide = graph(nodes=nodes(*"abcd", x=[1.0, 2.0]))
    answer = api.client.post("/v1/datasets", json={"name": "n", "graphs": [GRAPH, wide]})
    check_error_at(
        check_rejected(api, before, answer),
        "/graphs/1/nodes/0/x",
        "has 2 features; the graph at /graphs/0 takes 1",
    )


def test_too_many_graphs(api):
    gnn = api.gnn()
    before = api.written()
    answer = api.client.post("/v1/datasets", json={"name": "n", "graphs": [GRAPH] * 6})
    check_error_at(
        check_rejected(api, before, answer),
        "/graphs",
        "6 graphs; this deployment accepts at most 5",
    )
    answer = api.client.post(f"/v1/gnns/{gnn}/predictions", json={"graphs": [GRAPH] * 5})
    check_error_at(
        check_rejected(api, before, answer),
        "/graphs",
        "5 graphs; this deployment accepts at most 4",
    )


def test_errors_are_capped_and_never_echo_the_input(api):
    before = api.written()
    huge = "<script>" * 1000
    bad = {"name": "n", "graphs": [graph(edges=edges(*((huge[:60], huge[:60]),) * 50))]}
    problem = check_rejected(api, before, api.client.post("/v1/datasets", json=bad))
    assert len(problem["errors"]) == 20
    answer = api.client.post("/v1/datasets", json={"name": "n", "graphs": [GRAPH], huge: huge})
    (error,) = check_rejected(api, before, answer)["errors"]
    assert len(error["pointer"]) < 100


# (raw body, status, pointer or None, words)
BAD_JSON = {
    "empty": (b"", 400, None, "line 1, column 1"),
    "cut off": (b'{"name": "n",\n "graphs": [', 400, None, "line 2, column 13"),
    "trailing comma": (b'{"name": "n",}', 400, None, "line 1, column"),
    "two documents": (b"{} {}", 400, None, "line 1, column 4"),
    "not UTF-8": (b'{"name": "\xff"}', 400, None, "line 1, column 11: not valid UTF-8"),
    "UTF-16": ('{"name": "n"}'.encode("utf-16"), 400, None, "UTF-8"),
    "byte order mark": (b"\xef\xbb\xbf{}", 400, None, "BOM"),
    "deep": (b"[" * 100_000, 400, None, "nested too deeply"),
    "deep and closed": (b"[" * 50_000 + b"]" * 50_000, 400, None, "nested too deeply"),
    "5000 digits": (b'{"name": ' + b"9" * 5000 + b"}", 400, None, "thousands of digits"),
    "4000 digits": (b'{"name": ' + b"9" * 4000 + b"}", 422, "/name", "64 bits"),
    "NaN": (
        b'{"name": "n", "graphs": [{"nodes": [{"id": 0, "x": [NaN]}]}]}',
        422,
        "/graphs/0/nodes/0/x/0",
        "finite",
    ),
    "-Infinity": (b'{"name": -Infinity}', 422, "/name", "finite"),
    "1e999": (
        b'{"name": "n", "graphs": [{"nodes": [{"id": 0, "x": [0, 1e999]}]}]}',
        422,
        "/graphs/0/nodes/0/x/1",
        "finite",
    ),
    "NaN where it is ignored": (
        b'{"name": "n", "graphs": [{"nodes": [{"id": 0, "weight": NaN}], "edges": []}]}',
        422,
        "/graphs/0/nodes/0/weight",
        "finite",
    ),
    "lone surrogate": (b'{"name": "\\ud800"}', 422, "/name", "surrogate"),
    "1E+400": (b'{"name": 1E+400}', 422, "/name", "finite"),
    "-2.5e308": (b'{"name": -2.5e308}', 422, "/name", "finite"),
    "2**63": (b'{"name": 9223372036854775808}', 422, "/name", "64 bits"),
    "lone surrogate in capitals": (b'{"name": "\\uDC00"}', 422, "/name", "surrogate"),
    "lone surrogate in a key": (b'{"\\udfff": 1}', 422, "", "surrogate"),
    "duplicate key": (b'{"name": "n", "name": "m"}', 422, "", '"name" appears more than once'),
    "duplicate key inside": (
        b'{"graphs": [{}, {"nodes": [], "nodes": []}]}',
        422,
        "/graphs/1",
        '"nodes" appears',
    ),
    "array": (b"[]", 422, "", "should be an object"),
    "number": (b"1", 422, "", "should be an object"),
    "null": (b"null", 422, "", "should be an object"),
    "unknown field": (
        b'{"name": "n", "graphs": [], "grahps": []}',
        422,
        "/grahps",
        "not a known field",
    ),
    "missing field": (b'{"name": "n"}', 422, "/graphs", "is required"),
    "no graphs": (b'{"name": "n", "graphs": []}', 422, "/graphs", "at least 1"),
    "object of graphs": (b'{"name": "n", "graphs": {}}', 422, "/graphs", "array"),
    "number as name": (b'{"name": 3, "graphs": []}', 422, "/name", "string"),
    "empty name": (b'{"name": "", "graphs": []}', 422, "/name", "at least 1"),
    "control in name": (b'{"name": "a\\u0000b", "graphs": []}', 422, "/name", "control"),
}


@pytest.mark.parametrize(("body", "status", "pointer", "words"), BAD_JSON.values(), ids=BAD_JSON)
def test_bad_json(api, body, status, pointer, words):
    before = api.written()
    headers = {"Content-Type": "application/json"}
    answer = api.client.post("/v1/datasets", content=body, headers=headers)
    problem = check_rejected(api, before, answer, status)
    if pointer is None:
        assert words.lower() in problem["detail"].lower(), problem
    else:
        check_error_at(problem, pointer, words)


@pytest.mark.parametrize(
    ("headers", "header"),
    [
        ({}, "Content-Type"),
        ({"Content-Type": "text/plain"}, "Content-Type"),
        ({"Content-Type": "application/xml"}, "Content-Type"),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, "Content-Encoding"),
    ],
)
def test_other_content_types(api, headers, header):
    before = api.written()
    body = json.dumps({"name": "n", "graphs": [GRAPH]}).encode()
    answer = api.client.post("/v1/datasets", content=body, headers=headers)
    (error,) = check_rejected(api, before, answer, 415)["errors"]
    assert error["header"] == header


def explanation(api, **changes):
    body = {
        "kind": "counterfactual",
        "gnn": api.gnn(),
        "dataset": api.dataset(),
        "graph": GRAPH,
        **changes,
    }
    return {key: value for key, value in body.items() if value is not None}


BAD_EXPLANATIONS = {
    "unknown kind": ({"kind": "why"}, "/kind", "counterfactual"),
    "no kind": ({"kind": None}, "/kind", "is required"),
    "no graph": ({"graph": None}, "/graph", "either `graph` or `graphs`"),
    "graph and graphs": ({"graphs": [GRAPH]}, "/graph", "either `graph` or `graphs`"),
    "bad graph of many": (
        {"graph": None, "graphs": [GRAPH, {"nodes": []}]},
        "/graphs/1/nodes",
        "at least 1",
    ),
    "graph without edges": ({"graph": graph(edges=[])}, "/graph", "no edges"),
    "target class": ({"target_class": 2}, "/target_class", "the classes of"),
    "negative class": ({"target_class": -1}, "/target_class", "greater than or equal to 0"),
    "boolean class": ({"target_class": True}, "/target_class", "integer"),
    "text class": ({"target_class": "1"}, "/target_class", "are 0 to 1, unnamed"),
    "empty class": ({"target_class": ""}, "/target_class", "at least 1 character"),
    "float class": ({"target_class": 1.0}, "/target_class", "integer"),
    "no alternatives": ({"alternatives": 0}, "/alternatives", "greater than or equal to 1"),
    "many alternatives": ({"alternatives": 17}, "/alternatives", "less than or equal to 16"),
    "explainer": ({"explainer": "magic"}, "/explainer", "'d4', 'd4-paper', 'search', 'greedy'"),
    "old sampler": ({"sampler": "guided"}, "/sampler", "is now called `explainer`"),
    "old class nodes": (
        {"kind": "class", "graph": None, "target_class": 0, "nodes": 5},
        "/nodes",
        "is now called `node_count`",
    ),
    "preset": ({"preset": "slow"}, "/preset", "'fast', 'balanced' or 'thorough'"),
    "preset where nothing is searched": (
        {"explainer": "d4-paper", "preset": "thorough"},
        "/preset",
        "the explainer 'd4-paper' does not search",
    ),
    "seed": ({"seed": -1}, "/seed", "greater than or equal to 0"),
    "large seed": ({"seed": 2**53}, "/seed", "less than or equal to"),
    "time budget": ({"time_budget": 0}, "/time_budget", "greater than 0"),
    "ratio": (
        {"constraints": {"max_ratio": 1.5}},
        "/constraints/max_ratio",
        "less than or equal to 1",
    ),
    "edits": (
        {"constraints": {"max_edits": 0}},
        "/constraints/max_edits",
        "greater than or equal to 1",
    ),
    "actions": (
        {"constraints": {"actions": "swap"}},
        "/constraints/actions",
        "'both', 'add' or 'remove'",
    ),
    "typo": ({"constraints": {"max_edit": 3}}, "/constraints/max_edit", "not a known field"),
    "frozen node": (
        {"constraints": {"frozen_nodes": ["a", "q"]}},
        "/constraints/frozen_nodes/1",
        '"q"',
    ),
    "frozen nodes not a list": (
        {"constraints": {"frozen_nodes": "a"}},
        "/constraints/frozen_nodes",
        "array",
    ),
    "frozen node of odd type": (
        {"constraints": {"frozen_nodes": [[]]}},
        "/constraints/frozen_nodes/0",
        "integer or a string",
    ),
    "frozen edge": (
        {"constraints": {"frozen_edges": [["a", "q"]]}},
        "/constraints/frozen_edges/0/1",
        '"q"',
    ),
    "frozen edge of three": (
        {"constraints": {"frozen_edges": [["a", "b", "c"]]}},
        "/constraints/frozen_edges/0",
        "two node ids",
    ),
    "frozen loop": (
        {"constraints": {"frozen_edges": [["a", "a"]]}},
        "/constraints/frozen_edges/0",
        "different",
    ),
    "frozen lists for one graph": (
        {"graph": None, "graphs": [GRAPH, GRAPH], "constraints": {"frozen_nodes": [["a"]]}},
        "/constraints/frozen_nodes",
        "one array per graph, 2, has 1",
    ),
    "denoiser steps": ({"denoiser": {"steps": 0}}, "/denoiser/steps", "greater than or equal to 1"),
    "denoiser typo": ({"denoiser": {"stepz": 1}}, "/denoiser/stepz", "not a known field"),
    "denoiser number": ({"denoiser": 3}, "/denoiser", "object"),
    "class without target": ({"kind": "class", "graph": None}, "/target_class", "is required"),
    "class with graph": ({"kind": "class", "target_class": 0}, "/graph", "not a known field"),
    "class outside": (
        {"kind": "class", "graph": None, "target_class": 7},
        "/target_class",
        "0 to 1",
    ),
    "class nodes": (
        {"kind": "class", "graph": None, "target_class": 0, "node_count": 1},
        "/node_count",
        "greater than",
    ),
    "class preset": (
        {"kind": "class", "graph": None, "target_class": 0, "preset": "slow"},
        "/preset",
        "'fast', 'balanced' or 'thorough'",
    ),
    "class candidates": (
        {"kind": "class", "graph": None, "target_class": 0, "candidates": 0},
        "/candidates",
        "greater than or equal to 1",
    ),
    "class regulariser": (
        {"kind": "class", "graph": None, "target_class": 0, "regularisers": {"beauty": 1}},
        "/regularisers/beauty",
        "'likelihood'",
    ),
}


@pytest.mark.parametrize(
    ("changes", "pointer", "words"), BAD_EXPLANATIONS.values(), ids=BAD_EXPLANATIONS
)
def test_bad_explanations(api, changes, pointer, words):
    body = explanation(api, **changes)
    before = api.written()
    answer = api.client.post("/v1/explanations", json=body)
    check_error_at(check_rejected(api, before, answer), pointer, words)


@pytest.mark.parametrize("noun", ["gnn", "dataset", "denoiser"])
@pytest.mark.parametrize("unknown", ["gnn_0000", "../../etc/passwd", "x" * 60, "\x00"])
def test_unknown_ids_in_bodies_are_named(api, noun, unknown):
    body = explanation(api, **{noun: unknown})
    before = api.written()
    answer = api.client.post("/v1/explanations", json=body)
    problem = check_rejected(api, before, answer, 404)
    assert [error["pointer"] for error in problem["errors"]] == [f"/{noun}"]
    assert noun in problem["detail"]


@pytest.mark.parametrize("state", ["probing", "rejected"])
@pytest.mark.parametrize("route", ["explanations", "denoisers", "predictions"])
def test_a_gnn_that_is_not_ready_cannot_be_used(api, state, route):
    gnn = api.gnn(state=state)
    address, body = {
        "explanations": ("/v1/explanations", explanation(api, gnn=gnn)),
        "denoisers": (
            "/v1/denoisers",
            {"gnn": gnn, "dataset": api.dataset(), "objective": "class"},
        ),
        "predictions": (f"/v1/gnns/{gnn}/predictions", {"graph": GRAPH}),
    }[route]
    before = api.written()
    problem = check_rejected(api, before, api.client.post(address, json=body), 409)
    assert problem["type"].endswith("gnn-not-ready")
    assert state in problem["detail"]


@pytest.mark.parametrize("route", ["explanations", "denoisers"])
def test_a_reference_set_with_other_features_is_rejected(api, route):
    body = explanation(api, dataset=api.dataset(features=3))
    if route == "denoisers":
        body = {"gnn": body["gnn"], "dataset": body["dataset"], "objective": "class"}
    before = api.written()
    problem = check_rejected(api, before, api.client.post(f"/v1/{route}", json=body))
    check_error_at(problem, "/dataset", "have 3 features per node; the GNN")


def test_an_unknown_target_class_gets_the_known_classes(api):
    body = explanation(api, target_class=5)
    problem = check_rejected(api, api.written(), api.client.post("/v1/explanations", json=body))
    check_error_at(problem, "/target_class", f"is 5; the classes of {body['gnn']} are 0 to 1")


def test_a_denoiser_must_fit_the_request(api):
    posted = api.explanation()
    other_gnn = api.gnn(classes=3)
    other_set = api.dataset(features=1)
    for changes, words in (
        ({"kind": "class", "graph": None, "target_class": 0}, "objective counterfactual"),
        ({"gnn": other_gnn}, f"not for {other_gnn}"),
    ):
        body = explanation(
            api, **{"gnn": posted["gnn"], "dataset": posted["dataset"], **changes},
            denoiser=posted["denoiser"],
        )  # fmt: skip
        before = api.written()
        problem = check_rejected(api, before, api.client.post("/v1/explanations", json=body))
        check_error_at(problem, "/denoiser", words)
    # A set with the same content counts as the same set.
    body = explanation(api, gnn=posted["gnn"], dataset=other_set, denoiser=posted["denoiser"])
    assert api.client.post("/v1/explanations", json=body).status_code == 202


@pytest.mark.parametrize(
    ("method", "address"),
    [
        ("GET", "/v1/gnns/{}"),
        ("DELETE", "/v1/gnns/{}"),
        ("POST", "/v1/gnns/{}/predictions"),
        ("GET", "/v1/datasets/{}"),
        ("DELETE", "/v1/datasets/{}"),
        ("GET", "/v1/denoisers/{}"),
        ("GET", "/v1/explanations/{}"),
        ("GET", "/v1/explanations/{}?format=svg"),
        ("GET", "/v1/jobs/{}"),
        ("GET", "/v1/jobs/{}/events"),
        ("POST", "/v1/jobs/{}/cancel"),
        ("POST", "/v1/jobs/{}/retry"),
    ],
)
@pytest.mark.parametrize("unknown", ["job_00000000000000000000", "%00", "x" * 300, "%F0%9F%A6%81"])
def test_unknown_ids_in_addresses(api, method, address, unknown):
    before = api.written()
    body = {"json": {"graph": GRAPH}} if method == "POST" else {}
    answer = api.client.request(method, address.format(unknown), **body)
    check_rejected(api, before, answer, 404)


@pytest.mark.parametrize(
    ("address", "parameter"),
    [
        ("/v1/jobs?limit=0", "limit"),
        ("/v1/jobs?limit=201", "limit"),
        ("/v1/jobs?limit=many", "limit"),
        ("/v1/jobs?cursor=nonsense", "cursor"),
        ("/v1/jobs?cursor=%00", "cursor"),
        ("/v1/jobs?state=lost", "state"),
        ("/v1/jobs?kind=lost", "kind"),
        ("/v1/jobs?gnn=%00", "gnn"),
        ("/v1/jobs?sort=asc", "sort"),
        ("/v1/explanations?kind=why", "kind"),
        ("/v1/explanations/exp_1?format=png", "format"),
        ("/v1/explanations/exp_1?graph=-1", "graph"),
        ("/v1/gnns?page=2", "page"),
    ],
)
def test_bad_parameters(api, address, parameter):
    (error,) = check_rejected(api, api.written(), api.client.get(address))["errors"]
    assert error["parameter"] == parameter


@pytest.mark.parametrize("key", ["", "x" * 256, "with space", "ünicode".encode()])
def test_bad_idempotency_keys(api, key):
    before = api.written()
    body = {"name": "n", "graphs": [GRAPH]}
    answer = api.client.post("/v1/datasets", json=body, headers={"Idempotency-Key": key})
    (error,) = check_rejected(api, before, answer)["errors"]
    assert error["header"] == "Idempotency-Key"


@pytest.mark.parametrize(
    ("method", "address", "status"),
    [
        ("GET", "/v2/gnns", 404),
        ("GET", "/v1/gnns/", 404),
        ("PUT", "/v1/gnns", 405),
        ("DELETE", "/v1/jobs", 405),
        ("PATCH", "/", 405),
        ("BREW", "/v1/jobs", 405),
    ],
)
def test_unknown_addresses_and_methods(api, method, address, status):
    check_rejected(api, api.written(), api.client.request(method, address), status)


@pytest.mark.parametrize(
    ("address", "methods"),
    [("/v1/gnns", "GET, POST"), ("/v1/gnns/gnn_1", "DELETE, GET, PATCH"), ("/v1/jobs", "GET")],
)
def test_a_405_lists_all_allowed_methods(api, address, methods):
    assert api.client.put(address).headers["allow"] == methods
