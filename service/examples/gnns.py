"""Examples of GNNs."""

from __future__ import annotations

from service.examples.shared import CREATED, GNN_ID, PROBE_JOB_ID, SHA, SPEC, Example

GNN: Example = {
    "id": GNN_ID,
    "name": "motif classifier",
    "version": 3,
    "aliases": ["production"],
    "description": "Trained on 800 graphs, seed 1.",
    "tags": {"dataset": "BA-3Motif"},
    "metadata": {"team": "risk"},
    "state": "ready",
    "sha256": SHA,
    "spec": SPEC,
    "report": {
        "passed": True,
        "checks": [
            {"name": "deterministic", "passed": True, "detail": "two runs gave the same numbers"},
            {"name": "dense_equals_sparse", "passed": True, "detail": "largest difference 3e-7"},
            {
                "name": "samples_accuracy",
                "passed": True,
                "detail": "2 of 2 samples are predicted as labelled: accuracy 1, required 0.5",
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
    "created_at": CREATED,
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
    "archive": "(a zip file with spec.json, weights.safetensors and, optionally, samples.json)",
}
GNN_PATCH: Example = {"description": "The first one.", "tags": {"stage": "beta", "seed": None}}
ALIAS_IN: Example = {"version": 3}
