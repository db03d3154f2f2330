"""Examples of the OpenAPI document: one small story, from registration to explanation."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

Example = dict[str, Any]

GNN_ID = "gnn_01kaajwd2kq5w0v8yh4m"
SET_ID = "set_01kaajwg7m3f9c2r6tzx"
DENOISER_ID = "den_01kaajwjb8t1n5d0kpqe"
EXPLANATION_ID = "exp_01kaajwnx4h7s9g2bvma"
TRAIN_JOB_ID = "job_01kaajwjb9e6z3y8r0cw"
JOB_ID = "job_01kaajwnx5a2m7f4d8tk"
PROBE_JOB_ID = "job_01kaajwd2n0x9s6q3bjh"
PREDICT_JOB_ID = "job_01kaajwkz1v4c8p5g2me"
_SHA = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
_CREATED, _STARTED, _DONE = (
    "2026-11-16T09:30:00.000Z",
    "2026-11-16T09:30:00.120Z",
    "2026-11-16T09:30:01.480Z",
)

SPEC: Example = {
    "task": "graph",
    "features": 1,
    "classes": 2,
    "class_names": ["house", "cycle"],
    "layers": [
        {"type": "gcn", "out": 32},
        {"type": "activation", "kind": "relu"},
        {"type": "gcn", "out": 32},
        {"type": "activation", "kind": "relu"},
        {"type": "pool", "op": "mean"},
        {"type": "linear", "out": 2},
    ],
}
# A house (square with a roof) whose roof hangs at one more node.
NODE_LINK_GRAPH: Example = {
    "nodes": [{"id": name, "x": [1.0]} for name in ("a", "b", "c", "d", "roof", "tail")],
    "edges": [
        {"source": "a", "target": "b"},
        {"source": "b", "target": "c"},
        {"source": "c", "target": "d"},
        {"source": "d", "target": "a"},
        {"source": "a", "target": "roof"},
        {"source": "b", "target": "roof"},
        {"source": "roof", "target": "tail"},
    ],
}
PYG_GRAPH: Example = {
    "x": [[1.0], [1.0], [1.0], [1.0]],
    "edge_index": [[0, 1, 2, 3], [1, 2, 3, 0]],
}
_EDITED: Example = {
    "nodes": NODE_LINK_GRAPH["nodes"],
    "edges": [edge for edge in NODE_LINK_GRAPH["edges"] if edge != NODE_LINK_GRAPH["edges"][5]],
}
_BEFORE: Example = {"predicted_class": 0, "probabilities": [0.94, 0.06]}
_AFTER: Example = {"predicted_class": 1, "probabilities": [0.17, 0.83]}

DATASET_IN: Example = {
    "name": "motifs",
    "graphs": [{**NODE_LINK_GRAPH, "label": 0}, {**PYG_GRAPH, "label": 1}],
}
EDGE_ATTRIBUTES_IN: Example = {
    "name": "bonds",
    "graphs": [
        {
            "nodes": [{"id": name, "x": [1.0]} for name in ("a", "b", "c")],
            "edges": [
                {"source": "a", "target": "b", "edge_attr": [1.0, 0.0]},
                {"source": "b", "target": "c", "edge_attr": [0.0, 1.0]},
            ],
            "label": 0,
        },
        {**PYG_GRAPH, "edge_attr": [[1.0, 0.0]] * 4, "label": 1},
    ],
}
DATASET: Example = {
    "id": SET_ID,
    "name": "motifs",
    "sha256": _SHA,
    "graph_count": 2,
    "features": 1,
    "edge_features": 0,
    "label_counts": {"0": 1, "1": 1},
    "max_nodes": 6,
    "mean_nodes": 5.0,
    "mean_edges": 5.5,
    "large": False,
    "created_at": _CREATED,
}
LARGE_LINES = """{"x": [[1.0], [1.0], [1.0]]}
{"x": [[1.0]], "edge_index": [[0, 1, 2], [1, 2, 3]]}
"""
LARGE_DATASET: Example = {
    **DATASET,
    "name": "web graph",
    "graph_count": 1,
    "label_counts": {},
    "max_nodes": 4,
    "mean_nodes": 4.0,
    "mean_edges": 3.0,
    "large": True,
}


def _job(id_: str, kind: str, queue: str, answer: str, state: str, **changes: Any) -> Example:
    at = f"/v1/jobs/{id_}"
    ended = state not in ("queued", "running")
    example = {
        "id": id_,
        "kind": kind,
        "queue": queue,
        "state": state,
        "attempt": 0 if state == "queued" else 1,
        "max_attempts": 3,
        "progress": None,
        "waiting_for": None,
        "cancel_requested": False,
        "error": None,
        "result": None,
        "retry_of": None,
        "subject": {"gnn": GNN_ID, "dataset": None, "denoiser": None, "explanation": None},
        "created_at": _CREATED,
        "started_at": None if state == "queued" else _STARTED,
        "finished_at": _DONE if ended else None,
        "links": {
            "self": at,
            "events": f"{at}/events",
            "cancel": None if ended else f"{at}/cancel",
            "retry": f"{at}/retry" if ended and state != "succeeded" else None,
            "result": answer,
        },
    }
    return {**example, **changes}


def _training(state: str, progress: Example | None) -> Example:
    subject = {"gnn": GNN_ID, "dataset": SET_ID, "denoiser": DENOISER_ID, "explanation": None}
    address = f"/v1/denoisers/{DENOISER_ID}"
    return _job(TRAIN_JOB_ID, "train", "train", address, state, subject=subject, progress=progress)


def _explaining(state: str, **changes: Any) -> Example:
    subject = {
        "gnn": GNN_ID,
        "dataset": SET_ID,
        "denoiser": DENOISER_ID,
        "explanation": EXPLANATION_ID,
    }
    address = f"/v1/explanations/{EXPLANATION_ID}"
    return _job(JOB_ID, "counterfactual", "sample", address, state, subject=subject, **changes)


_PROGRESS: Example = {
    "phase": "training",
    "step": 420,
    "total": 2000,
    "metrics": {"loss": 0.231, "flip_rate": 0.64},
}
TRAIN_JOB = _training("running", _PROGRESS)
CANCELED_JOB = {**_explaining("canceled"), "cancel_requested": True}
RETRY_JOB = {
    **_explaining("queued", retry_of=JOB_ID),
    "id": "job_01kaajx2c8w6r5n1t9zq",
    "links": {
        "self": "/v1/jobs/job_01kaajx2c8w6r5n1t9zq",
        "events": "/v1/jobs/job_01kaajx2c8w6r5n1t9zq/events",
        "cancel": "/v1/jobs/job_01kaajx2c8w6r5n1t9zq/cancel",
        "retry": None,
        "result": f"/v1/explanations/{EXPLANATION_ID}",
    },
}
EVENTS = (
    "id: 41\r\nevent: state\r\n"
    'data: {"state":"running","attempt":1,"waiting_for":null,"cancel_requested":false,'
    '"error":null,"at":"2026-11-16T09:30:00.120Z"}\r\n\r\n'
    "id: 42\r\nevent: progress\r\n"
    'data: {"phase":"training","step":420,"total":2000,"metrics":{"loss":0.231},'
    '"at":"2026-11-16T09:30:00.900Z"}\r\n\r\n'
)

GNN: Example = {
    "id": GNN_ID,
    "name": "motif classifier",
    "version": 3,
    "aliases": ["production"],
    "description": "Trained on 800 graphs, seed 1.",
    "tags": {"dataset": "BA-3Motif"},
    "state": "ready",
    "sha256": _SHA,
    "spec": SPEC,
    "report": {
        "passed": True,
        "checks": [
            {"name": "deterministic", "passed": True, "detail": "two runs gave the same numbers"},
            {"name": "dense_equals_sparse", "passed": True, "detail": "largest difference 3e-7"},
            {
                "name": "samples_accuracy",
                "passed": True,
                "detail": "2 of 2 samples come out as labelled, an accuracy of 1; 0.5 is needed",
            },
        ],
        "samples": {
            "graph_count": 2,
            "accuracy": 1.0,
            "min_accuracy": 0.5,
            "classes": [
                {"labelled": 1, "predicted": 1, "correct": 1},
                {"labelled": 1, "predicted": 1, "correct": 1},
            ],
        },
    },
    "created_at": _CREATED,
    "job_id": PROBE_JOB_ID,
    "links": {
        "self": f"/v1/gnns/{GNN_ID}",
        "job": f"/v1/jobs/{PROBE_JOB_ID}",
        "predictions": f"/v1/gnns/{GNN_ID}/predictions",
    },
}
PROBING_GNN: Example = {**GNN, "state": "probing", "report": None}
GNN_IN: Example = {"name": "motif classifier", "spec": SPEC, "weights": "(a safetensors file)"}
BLACK_BOX_IN: Example = {
    "name": "remote",
    "spec": {"features": 7, "classes": 2, "class_names": ["inactive", "active"]},
    "predict_url": "https://gnn.example.org/predict",
}
ARCHIVE_IN: Example = {
    "name": "motif classifier",
    "description": "Trained on 800 graphs, seed 1.",
    "tags": {"dataset": "BA-3Motif"},
    "archive": "(a zip file with spec.json, weights.safetensors and perhaps samples.json)",
}
GNN_PATCH: Example = {"description": "The first one.", "tags": {"stage": "beta", "seed": None}}
ALIAS_IN: Example = {"version": 3}

DENOISER_IN: Example = {
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "objective": "counterfactual",
    "config": {"recipe": "default", "steps": 2000, "seed": 7},
}
TRAINING_DENOISER: Example = {
    "id": DENOISER_ID,
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "objective": "counterfactual",
    "config": {
        "recipe": "default",
        "steps": 2000,
        "hidden": None,
        "blocks": None,
        "alpha": None,
        "seed": 7,
    },
    "state": "training",
    "key": _SHA,
    "weights_sha256": None,
    "metrics": None,
    "job": TRAIN_JOB,
    "created_at": _CREATED,
}
DENOISER: Example = {
    **TRAINING_DENOISER,
    "state": "ready",
    "weights_sha256": _SHA,
    "metrics": {"loss": 0.118, "flip_rate": 0.91, "detection_auc": 0.97},
    "job": _training("succeeded", {**_PROGRESS, "step": 2000}),
}

PREDICTIONS_IN: Example = {"graphs": [NODE_LINK_GRAPH]}
_PREDICT_JOB = _job(PREDICT_JOB_ID, "predict", "light", f"/v1/jobs/{PREDICT_JOB_ID}", "succeeded")
PREDICTIONS: Example = {
    "gnn": GNN_ID,
    "job": {**_PREDICT_JOB, "result": {"kind": "prediction", "predictions": [_BEFORE]}},
    "predictions": [_BEFORE],
}
PREDICTIONS_LATER: Example = {
    "gnn": GNN_ID,
    "job": _job(PREDICT_JOB_ID, "predict", "light", f"/v1/jobs/{PREDICT_JOB_ID}", "queued"),
    "predictions": None,
}

NODE_PREDICTIONS_IN: Example = {"graph": NODE_LINK_GRAPH, "nodes": ["roof", "tail"]}
_OF_NODES: list[Example] = [{"nodes": [{"node": "roof", **_BEFORE}, {"node": "tail", **_AFTER}]}]
NODE_PREDICTIONS: Example = {
    "gnn": GNN_ID,
    "job": {**_PREDICT_JOB, "result": {"kind": "prediction", "predictions": _OF_NODES}},
    "predictions": _OF_NODES,
}

COUNTERFACTUAL_IN: Example = {
    "kind": "counterfactual",
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "graph": NODE_LINK_GRAPH,
    "alternatives": 2,
    "constraints": {"max_ratio": 0.3, "frozen_nodes": ["tail"], "frozen_edges": [["a", "b"]]},
    "seed": 7,
}
MANY_IN: Example = {
    "kind": "counterfactual",
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "graphs": [NODE_LINK_GRAPH, PYG_GRAPH],
    "target_class": 1,
    "preset": "fast",
    "denoiser": {"recipe": "default", "steps": 2000, "seed": 7},
}
NODES_IN: Example = {
    "kind": "counterfactual",
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "graph": NODE_LINK_GRAPH,
    "nodes": ["roof", "tail"],
    "constraints": {"actions": "remove", "frozen_nodes": ["c"]},
}
LARGE_NODE_IN: Example = {
    "kind": "counterfactual",
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "node": 123456,
}
ESTIMATE: Example = {
    "dry_run": True,
    "cases": [
        {
            "mode": "exact",
            "node_count": 6,
            "edge_count": 6,
            "pair_count": 15,
            "memory_bytes": 40054000,
            "seconds": 0.2,
        }
    ],
    "memory_bytes": 40054000,
    "seconds": 0.2,
    "trains_denoiser": True,
}
CLASS_IN: Example = {
    "kind": "class",
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "target_class": 1,
    "node_count": 6,
    "example_count": 4,
    "seed": 7,
}
_SUMMARY: Example = {
    "graph_count": 1,
    "found_count": 1,
    "flip_rate": 1.0,
    "mean_edits": 1.0,
    "mean_modification_ratio": 1 / 7,
    "mean_fidelity": 0.77,
    "mean_confidence": 0.83,
    "edits_by_denoiser": 1,
    "edits_by_search": 0,
}
_RESULT: Example = {
    "kind": "counterfactual",
    "answers": [
        {
            "graph": NODE_LINK_GRAPH,
            "node": None,
            "prediction": _BEFORE,
            "found": True,
            "reason": None,
            "counterfactuals": [
                {
                    "graph": _EDITED,
                    "edits": [
                        {
                            "action": "remove",
                            "source": "b",
                            "target": "roof",
                            "plausibility": 1.84,
                            "proposed_by": "denoiser",
                        }
                    ],
                    "prediction": _AFTER,
                    "confidence": 0.83,
                    "denoiser_likelihood": 1.84,
                    "fidelity": 0.77,
                    "modification_ratio": 1 / 7,
                    "connected": True,
                    "found_by": "denoiser",
                }
            ],
            "closest_miss": None,
            "diversity": None,
            "gnn_evaluations": 512,
            "gnn_gradients": 2,
            "seconds": 0.4,
        }
    ],
    "summary": _SUMMARY,
    "mmd": {
        "degree": 0.02,
        "clustering": 0.04,
        "spectrum": 0.05,
        "sum": 0.11,
        "null_quantiles": {"0.05": 0.04, "0.5": 0.1, "0.95": 0.31},
        "p_value": 0.46,
        "graph_count": 1,
        "reference_count": 2,
    },
    "timings": {"load_seconds": 0.1, "explain_seconds": 0.4, "mmd_seconds": 0.02},
    "receipt": {
        "request_sha256": _SHA,
        "gnn_sha256": _SHA,
        "dataset_sha256": _SHA,
        "denoiser_sha256": _SHA,
        "denoiser_key": _SHA,
        "config": {"explainer": "d4", "preset": "balanced", "alternatives": 2},
        "seed": 7,
        "device": "cpu",
        "versions": {"d4explain": "0.1.0", "torch": "2.13.0"},
        "work": {"samples": 256, "gnn_evaluations": 512, "gnn_gradients": 2, "depth": 1},
    },
    "warnings": [],
}
EXPLANATION: Example = {
    "id": EXPLANATION_ID,
    "kind": "counterfactual",
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "denoiser": DENOISER_ID,
    "state": "succeeded",
    "summary": _SUMMARY,
    "job": _explaining("succeeded"),
    "created_at": _CREATED,
    "links": {
        "self": f"/v1/explanations/{EXPLANATION_ID}",
        "job": f"/v1/jobs/{JOB_ID}",
        "events": f"/v1/jobs/{JOB_ID}/events",
        "svg": f"/v1/explanations/{EXPLANATION_ID}?format=svg",
    },
    "result": _RESULT,
}
WAITING_EXPLANATION: Example = {
    **EXPLANATION,
    "state": "queued",
    "summary": None,
    "job": _explaining("queued", waiting_for=TRAIN_JOB_ID),
    "links": {**EXPLANATION["links"], "svg": None},
    "result": None,
}
LISTED_EXPLANATION: Example = {k: v for k, v in EXPLANATION.items() if k != "result"}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="760" height="520">…</svg>'
GRAPHML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">…</graphml>'
_EDITS = _RESULT["answers"][0]["counterfactuals"][0]["edits"]
_FACTS: Example = {"predicted_class": 1, "confidence": 0.83, "predicted_class_before": 0}
CYTOSCAPE: Example = {
    "data": {**_FACTS, "edits": _EDITS},
    "directed": False,
    "multigraph": False,
    "elements": {
        "nodes": [
            {
                "data": {"id": "a", "value": "a", "name": "a", "x": [1.0]},
                "position": {"x": 0.0, "y": 80.0},
            },
            {
                "data": {"id": "b", "value": "b", "name": "b", "x": [1.0]},
                "position": {"x": 80.0, "y": 80.0},
            },
        ],
        "edges": [{"data": {"source": "a", "target": "b", "edit": "kept"}}],
    },
}
PYG: Example = {
    "x": [[1.0]] * 6,
    "edge_index": [[0, 1, 2, 3, 0, 4, 1, 2, 3, 0, 4, 5], [1, 2, 3, 0, 4, 5, 0, 1, 2, 3, 0, 4]],
    "num_nodes": 6,
    "y": [1],
    "node_ids": ["a", "b", "c", "d", "roof", "tail"],
    "edits": _EDITS,
    **_FACTS,
}

_NO_ROOM = (
    "only 3.1 MiB are free for artifacts; 32 MiB are kept for running jobs; "
    "new work is refused until there is room"
)
READY: Example = {
    "status": "ready",
    "accepts_submissions": True,
    "reasons": [],
    "checks": {
        "database": {"ok": True, "detail": "answers"},
        "disk": {"ok": True, "detail": "has room"},
        "broker": {"ok": True, "detail": "answers"},
        "workers": {"ok": True, "detail": "every queue is served"},
    },
    "workers": [
        {
            "name": "worker-1",
            "queues": ["sample", "light"],
            "device": "cpu",
            "seen_at": _DONE,
        }
    ],
    "queues": {"train": {"queued": 1, "waiting": 0, "running": 1}},
}
NOT_READY: Example = {
    **READY,
    "status": "not ready",
    "accepts_submissions": False,
    "reasons": [f"disk: {_NO_ROOM}"],
    "checks": {**READY["checks"], "disk": {"ok": False, "detail": _NO_ROOM}},
}


def page(item: Example) -> Example:
    return {"items": [item], "next_cursor": None}


_PROBLEMS: dict[HTTPStatus, tuple[str, str, list[dict[str, str]]]] = {
    HTTPStatus.BAD_REQUEST: (
        "malformed-json",
        "Line 3, column 17: Expecting ',' delimiter",
        [],
    ),
    HTTPStatus.FORBIDDEN: (
        "foreign-origin",
        "Origin header 'https://other.example' is another site; this API rejects requests from "
        "pages of other sites.",
        [],
    ),
    HTTPStatus.NOT_FOUND: (
        "not-found",
        "There is no gnn with the id 'gnn_01kaajwd2kq5w0v8yh4n'",
        [],
    ),
    HTTPStatus.CONFLICT: (
        "gnn-not-ready",
        f"GNN {GNN_ID} is probing; only a ready GNN can be used",
        [],
    ),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: (
        "body-too-large",
        "The body has 104,857,600 bytes; this address accepts at most 33,554,432 bytes.",
        [],
    ),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: (
        "unsupported-media-type",
        "Unsupported Content-Type 'text/plain'; expected application/json.",
        [{"header": "Content-Type", "detail": "should be application/json"}],
    ),
    HTTPStatus.UNPROCESSABLE_ENTITY: (
        "invalid-input",
        '/graphs/3/edges/7/target: there is no node with the id "q"',
        [
            {
                "pointer": "/graphs/3/edges/7/target",
                "detail": 'there is no node with the id "q"',
            }
        ],
    ),
    HTTPStatus.INTERNAL_SERVER_ERROR: (
        "internal",
        "Internal error; see the service's log.",
        [],
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        "overloaded",
        "256 requests are being served already; try again in a moment.",
        [],
    ),
    HTTPStatus.INSUFFICIENT_STORAGE: (
        "disk-full",
        "The disk is full: only 3.1 MiB are free for artifacts; 32 MiB are kept for running jobs. "
        "Nothing was accepted. Send the request again when space is available.",
        [],
    ),
}


def problem(status: HTTPStatus) -> Example:
    slug, detail, errors = _PROBLEMS[status]
    return {
        "type": f"urn:d4explain:problem:{slug}",
        "title": status.phrase,
        "status": int(status),
        "detail": detail,
        "errors": errors,
    }
