"""Requests with a mistake, as people make them; `test_mistakes` sends them to an API."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import safetensors.numpy

from d4explain.contracts.gnn_files.gnn_tensors import expected_tensors
from d4explain.contracts.gnn_spec import parse_spec

ATOM_TYPES = ["C", "N", "O"]
SPECS: dict[str, dict[str, Any]] = {
    "motifs": {
        "features": 3,
        "classes": 2,
        "class_names": ["stable", "mutagen"],
        "layers": [
            {"type": "gcn", "out": 4},
            {"type": "pool", "op": "mean"},
            {"type": "linear", "out": 2},
        ],
        "featuriser": {"kind": "smiles", "atoms": ATOM_TYPES},
    },
    "topics": {
        "task": "node",
        "features": 3,
        "classes": 2,
        "layers": [{"type": "gcn", "out": 4}, {"type": "linear", "out": 2}],
    },
    "weighted": {
        "features": 3,
        "edge_features": 1,
        "classes": 2,
        "layers": [
            {"type": "gcn", "out": 4, "inputs": ["x", "edge_attr"]},
            {"type": "pool", "op": "mean"},
            {"type": "linear", "out": 2},
        ],
    },
    "constant": {
        "features": 1,
        "classes": 2,
        "layers": [
            {"type": "gcn", "out": 4},
            {"type": "pool", "op": "mean"},
            {"type": "linear", "out": 2},
        ],
    },
}
CARBON = [1.0, 0.0, 0.0]
RING = {
    "nodes": [{"id": i, "x": CARBON} for i in range(4)],
    "edges": [{"source": i, "target": (i + 1) % 4} for i in range(4)],
}
PYG = {"x": [CARBON] * 4, "edge_index": [[0, 1, 2, 3], [1, 2, 3, 0]]}


@dataclass(frozen=True)
class Mistake:
    """What somebody sends, and what the answer must say."""

    sent: str  # in words, for the page
    path: str
    status: int
    problem: str  # the last part of the problem's type; "" if the request is accepted
    says: tuple[str, ...]  # what was sent, and what is allowed
    json: Any = None
    options: dict[str, Any] = field(default_factory=dict)  # further arguments of httpx
    method: str = "POST"
    before: Callable[[Any], None] | None = None  # earlier requests


def ring(**changes: Any) -> dict[str, Any]:
    return {**RING, **changes}


def pyg(**changes: Any) -> dict[str, Any]:
    kept = {**PYG, **changes}
    return {name: value for name, value in kept.items() if value is not None}


def nodes(*ids: Any, **attributes: Any) -> list[dict[str, Any]]:
    return [{"id": one, "x": CARBON, **attributes} for one in ids]


def edges(*pairs: tuple[Any, Any], **attributes: Any) -> list[dict[str, Any]]:
    return [{"source": source, "target": target, **attributes} for source, target in pairs]


def question(**changes: Any) -> dict[str, Any]:
    body = {"kind": "counterfactual", "gnn": "motifs", "dataset": "rings", "graph": RING, **changes}
    return {name: value for name, value in body.items() if value is not None}


INVALID = "invalid-input"
ASK, PREDICT, STORE = "/v1/explanations", "/v1/gnns/motifs/predictions", "/v1/datasets"


def asks(sent: str, *says: str, **changes: Any) -> Mistake:
    return Mistake(sent, ASK, 422, INVALID, says, question(**changes))


def predicts(sent: str, graph: object, *says: str, gnn: str = "motifs") -> Mistake:
    return Mistake(sent, f"/v1/gnns/{gnn}/predictions", 422, INVALID, says, {"graph": graph})


def stores(sent: str, *says: str, **body: Any) -> Mistake:
    return Mistake(sent, STORE, 422, INVALID, says, {"name": "rings", "graphs": [RING], **body})


def _post_once(client: Any) -> None:
    headers = {"Idempotency-Key": "monday"}
    assert client.post(ASK, json=question(), headers=headers).status_code == 202


def registers(sent: str, *says: str, **parts: Any) -> Mistake:
    form = {"name": (None, "mine"), **parts}
    options = {"files": form, "headers": {"Prefer": "respond-async"}}
    return Mistake(sent, "/v1/gnns", 422, INVALID, says, options=options)


def weights_of(name: str, *, classes: int = 2) -> bytes:
    layers = [*SPECS[name]["layers"][:-1], {"type": "linear", "out": classes}]
    names = {"class_names": None, "classes": classes, "layers": layers}
    spec = parse_spec({**SPECS[name], **names})
    tensors = expected_tensors(spec)
    filled = {key: np.full(one.shape, 0.5, one.dtype) for key, one in tensors.items()}
    return bytes(safetensors.numpy.save(filled))


def spec_part(name: str = "motifs", **changes: Any) -> tuple[None, str, str]:
    return (None, json.dumps({**SPECS[name], **changes}), "application/json")


GRAPHS = [
    predicts(
        "a self-loop", ring(edges=edges((0, 1), (2, 2))), "self-loop of node 2", "leave it out"
    ),
    predicts("an edge twice", ring(edges=edges((0, 1), (0, 1))), "from 0 to 1", "already listed"),
    predicts("`directed: true`", ring(directed=True), "is true", "undirected graphs"),
    predicts(
        "a PyG graph with some edges in one direction only",
        pyg(edge_index=[[0, 1, 1], [1, 0, 2]]),
        "1 of its 3 entries in one direction",
        "every edge once, or every edge in both directions",
    ),
    predicts(
        "edges that count nodes from 1",
        pyg(edge_index=[[1, 2, 3, 4], [2, 3, 4, 1]]),
        "is 4",
        "the nodes are 0 to 3",
    ),
    predicts(
        "a transposed `edge_index`",
        pyg(edge_index=[[0, 1], [1, 2], [2, 3], [3, 0]]),
        "has 4 rows of 2 entries",
        "2 rows, the sources and the targets",
    ),
    predicts(
        "node ids as text in the edges",
        ring(edges=edges(("0", "1"))),
        'no node with the id "0"',
        "one with the id 0",
    ),
    predicts("an empty graph", ring(nodes=[], edges=[]), "at least 1", "has 0"),
    predicts(
        "a graph that is too large",
        ring(nodes=nodes(*range(21))),
        "has 21 nodes",
        "at most 20",
    ),
    predicts("a list instead of a graph", [[0, 1], [1, 2]], "an object, not array"),
]
FEATURES = [
    predicts(
        "too few features per node",
        ring(nodes=nodes(*range(4), x=[1.0])),
        "has 1 features",
        "takes 3",
    ),
    predicts("no features", ring(nodes=[{"id": i} for i in range(4)]), "no features", "takes 3"),
    predicts(
        "features called `features`",
        ring(nodes=[{"id": i, "features": CARBON} for i in range(4)]),
        "/nodes/0/features",
        "called `x`",
    ),
    predicts(
        "features as text", ring(nodes=nodes(*range(4), x=["C", "N", "O"])), "is string", "number"
    ),
    Mistake(
        "NaN in the features",
        PREDICT,
        422,
        INVALID,
        ("/graph/x/0/0", "finite"),
        options={
            "content": b'{"graph": {"x": [[NaN, 0, 0]], "edge_index": [[], []]}}',
            "headers": {"Content-Type": "application/json"},
        },
    ),
    predicts(
        "edge weights for a GNN that reads none",
        pyg(edge_weight=[0.5, 1, 1, 1]),
        "weight 0.5",
        "reads no edge weights: remove them",
    ),
    predicts(
        "weights of a NetworkX graph for a GNN that reads weights",
        ring(edges=edges((0, 1), (1, 2), weight=0.5)),
        "weight 0.5",
        "called `edge_attr`",
        gnn="weighted",
    ),
    predicts(
        "negative edge weights",
        ring(edges=edges((0, 1), edge_attr=[-0.5])),
        "it has -0.5",
        "must not be negative",
        gnn="weighted",
    ),
    predicts(
        "no edge attributes for a GNN that reads some",
        RING,
        "is missing",
        "takes 1",
        gnn="weighted",
    ),
    predicts("SMILES that does not parse", {"smiles": "C1CC"}, "C1CC", "SMILES"),
    predicts("an atom that the GNN does not know", {"smiles": "CBr"}, "Br", "C, N, O"),
    predicts(
        "SMILES for a GNN without featuriser", {"smiles": "CCO"}, "no featuriser", gnn="topics"
    ),
]
QUESTIONS = [
    asks("a class that does not exist", "is 2", "0 to 1", "stable", target_class=2),
    asks("a misspelled class", '"mutagene"', '"stable", "mutagen"', target_class="mutagene"),
    asks("a misspelled explainer", "'d4', 'd4-paper', 'search', 'greedy'", '"d5"', explainer="d5"),
    asks("a misspelled field", "/targt_class", "target_class", targt_class=1),
    asks("`graph` and `graphs`", "either `graph` or `graphs`; got both", graphs=[RING]),
    asks(
        "a graph with one node and no edge",
        "no edges",
        graph={"nodes": nodes("a"), "edges": []},
    ),
    asks(
        "frozen nodes that do not exist",
        "no node with the id 7",
        "the ids are 0, 1, 2, 3",
        constraints={"frozen_nodes": [7]},
    ),
    asks("no node for a node classifier", "/node: is required, or `nodes`", gnn="topics"),
    asks("a node for a graph classifier", "classifies graphs", node=0),
    asks(
        "a graph in a question about a class",
        "/graph",
        "not a known field of the kind 'class'",
        kind="class",
        target_class=1,
    ),
    asks(
        "a reference set with negative weights for a GNN that reads weights",
        "it has -1 at edge 0 of graph 0",
        "must not be negative",
        gnn="weighted",
        dataset="negative",
        graph=ring(edges=edges((0, 1), edge_attr=[1.0])),
    ),
    asks("a reference set with another number of features", "have 1", "takes 3", dataset="ones"),
    Mistake(
        "an unknown GNN", ASK, 404, "not-found", ("gnn called 'moitfs'",), question(gnn="moitfs")
    ),
    Mistake(
        "an unknown reference set",
        ASK,
        404,
        "not-found",
        ("dataset called 'ring'",),
        question(dataset="ring"),
    ),
]
HTTP = [
    Mistake(
        "form data instead of JSON",
        ASK,
        415,
        "unsupported-media-type",
        ("application/x-www-form-urlencoded", "application/json"),
        options={"data": {"kind": "counterfactual"}},
    ),
    Mistake(
        "JSON inside a JSON string",
        ASK,
        422,
        INVALID,
        ("should be an object, is string",),
        json.dumps(question()),
    ),
    Mistake(
        "a trailing comma",
        ASK,
        400,
        "malformed-json",
        ("Line 1, column 18",),
        options={"content": b'{"kind": "class",}', "headers": {"Content-Type": "application/json"}},
    ),
    Mistake(
        "a wait that is no number",
        ASK,
        422,
        INVALID,
        ('"wait=soon"', "wait=10"),
        question(),
        options={"headers": {"Prefer": "wait=soon"}},
    ),
    Mistake(
        "an idempotency key again, with another body",
        ASK,
        422,
        "idempotency-mismatch",
        ("'monday'", "use a new key"),
        question(seed=1),
        options={"headers": {"Idempotency-Key": "monday"}},
        before=_post_once,
    ),
    Mistake(
        "a misspelled address",
        "/v1/gnn",
        404,
        "not-found",
        ('"/v1/gnn"', "/openapi.json"),
        method="GET",
    ),
]
SETS_AND_GNNS = [
    stores(
        "a reference set whose graphs have different features",
        "has 1 features",
        "takes 3",
        graphs=[RING, ring(nodes=nodes(*range(4), x=[1.0]))],
    ),
    stores("a reference set without graphs", "at least 1", "has 0", graphs=[]),
    stores(
        "a label that is not a class name",
        '"maybe"',
        '"stable", "mutagen"',
        graphs=[ring(label="maybe")],
        gnn="motifs",
    ),
    stores("a name with a version", "/name", "'@' or '/'", name="rings@2"),
    registers(
        "a spec with a misspelled layer",
        "'gnc'",
        "gatv2, gcn, gin,",
        spec=spec_part(layers=[{"type": "gnc", "out": 4}, *SPECS["motifs"]["layers"][1:]]),
        weights=("w", b""),
    ),
    registers(
        "weights of another spec",
        "layers.2.linear.weight",
        "float32[3, 4], not float32[2, 4]",
        spec=spec_part(),
        weights=("w", weights_of("motifs", classes=3)),
    ),
    registers(
        "a pickled model instead of safetensors",
        "safetensors",
        spec=spec_part(),
        weights=("model.pt", b"PK\x03\x04 a pickle"),
    ),
    registers("a GNN without weights", "weights", spec=spec_part()),
    registers(
        "a regression",
        "1",
        "regression is not supported",
        spec=spec_part(classes=1),
        weights=("w", b""),
    ),
    registers(
        "samples with a label that is no class",
        "is 2",
        "0 to 1",
        spec=spec_part(),
        weights=("w", weights_of("motifs")),
        samples=("samples.json", json.dumps({"graphs": [ring(label=2)]}), "application/json"),
    ),
]
MISTAKES = {
    "Graphs": GRAPHS,
    "Features, weights and molecules": FEATURES,
    "Questions": QUESTIONS,
    "HTTP": HTTP,
    "Reference sets and GNNs": SETS_AND_GNNS,
}
