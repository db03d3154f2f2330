"""Examples of predictions."""

from __future__ import annotations

from service.examples.jobs import job
from service.examples.shared import AFTER, BEFORE, GNN_ID, NODE_LINK_GRAPH, PREDICT_JOB_ID, Example

PREDICTIONS_IN: Example = {"graphs": [NODE_LINK_GRAPH]}
_PREDICT_JOB = job(PREDICT_JOB_ID, "predict", "light", f"/v1/jobs/{PREDICT_JOB_ID}", "succeeded")
PREDICTIONS: Example = {
    "gnn": GNN_ID,
    "job": {
        **_PREDICT_JOB,
        "result": {"kind": "prediction", "predictions": [BEFORE], "warnings": []},
    },
    "predictions": [BEFORE],
    "warnings": [],
}
PREDICTIONS_LATER: Example = {
    "gnn": GNN_ID,
    "job": job(PREDICT_JOB_ID, "predict", "light", f"/v1/jobs/{PREDICT_JOB_ID}", "queued"),
    "predictions": None,
    "warnings": [],
}

NODE_PREDICTIONS_IN: Example = {"graph": NODE_LINK_GRAPH, "nodes": ["roof", "tail"]}
_NODE_ANSWERS: list[Example] = [{"nodes": [{"node": "roof", **BEFORE}, {"node": "tail", **AFTER}]}]
NODE_PREDICTIONS: Example = {
    "gnn": GNN_ID,
    "job": {
        **_PREDICT_JOB,
        "result": {"kind": "prediction", "predictions": _NODE_ANSWERS, "warnings": []},
    },
    "predictions": _NODE_ANSWERS,
    "warnings": [],
}
