"""Examples in the shapes of other systems."""

from __future__ import annotations

from typing import Any

from service.examples.explanations import EXPLANATION, WAITING_EXPLANATION
from service.examples.shared import NODE_LINK_GRAPH

_ANSWER = EXPLANATION["result"]["answers"][0]
KSERVE_READY = {"name": "motifs@production", "ready": True}
KSERVE_IN: dict[str, Any] = {
    "instances": [NODE_LINK_GRAPH],
    "parameters": {"dataset": "motifs", "target_class": 1},
}
KSERVE_NODES_IN: dict[str, Any] = {"instances": [{"node": 17}, {"node": 23}]}
KSERVE_EXPLANATIONS: dict[str, Any] = {
    "predictions": [_ANSWER["prediction"]],
    "explanations": [
        {
            "explanation": EXPLANATION["id"],
            "instance": 0,
            "state": "succeeded",
            "stage": "final",
            "answer": _ANSWER,
            "links": EXPLANATION["links"],
        }
    ],
}
KSERVE_LATER: dict[str, Any] = {
    "predictions": [],
    "explanations": [
        {
            "explanation": WAITING_EXPLANATION["id"],
            "instance": 0,
            "state": "queued",
            "stage": None,
            "answer": None,
            "links": WAITING_EXPLANATION["links"],
        }
    ],
}


def _tensor(name: str, datatype: str, value: float) -> dict[str, Any]:
    return {"name": name, "shape": [1], "datatype": datatype, "data": [value]}


_MODEL = "motifs-v1-explanations"
TRUSTYAI: dict[str, Any] = {
    "model_name": _MODEL,
    "data_tag": "d4explain",
    "is_ground_truth": False,
    "request": {
        "id": EXPLANATION["id"],
        "inputs": [
            _tensor("node_count", "INT64", 6),
            _tensor("edge_count", "INT64", 6),
            _tensor("predicted_class", "INT64", 0),
            _tensor("probability", "FP64", 0.98),
        ],
    },
    "response": {
        "model_name": _MODEL,
        "id": EXPLANATION["id"],
        "outputs": [
            _tensor("validity", "INT64", 1),
            _tensor("edits", "INT64", 2),
            _tensor("modification_ratio", "FP64", 0.33),
            _tensor("fidelity", "FP64", 0.87),
            _tensor("typicality", "FP64", 0.41),
        ],
    },
}
