"""The example of global counterfactuals."""

from __future__ import annotations

from service.examples.explanations import EXPLANATION
from service.examples.shared import GNN_ID, SET_ID, Example

GLOBAL_IN: Example = {
    "kind": "global",
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "source_class": 0,
    "target_class": 1,
    "count": 10,
    "theta": 0.1,
    "seed": 7,
}
GLOBAL_ESTIMATE: Example = {
    "dry_run": True,
    "cases": [],
    "memory_bytes": 61000000,
    "seconds": 120.0,
    "trains_denoiser": False,
    "trains_witnesses": False,
    "denoiser_seconds": 0.0,
    "witness_seconds": 0.0,
    "total_seconds": 120.0,
    "provisional": False,
}
_TRIANGLE: Example = {
    "nodes": [{"id": node, "x": [1.0]} for node in range(3)],
    "edges": [{"source": 0, "target": 1}, {"source": 0, "target": 2}, {"source": 1, "target": 2}],
}
_COVERED: Example = {
    "graph": 17,
    "cost": 1,
    "distance": 1 / 11,
    "nearest": True,
    "path": {
        "added_nodes": [],
        "removed_nodes": [],
        "changed_types": [],
        "added_edges": [[0, 2]],
        "removed_edges": [],
        "nodes": [0, 1, 2],
    },
}
_RESULT = EXPLANATION["result"]
GLOBAL_EXPLANATION: Example = {
    **EXPLANATION,
    "kind": "global",
    "denoiser": None,
    "summary": {
        "source_class": 0,
        "target_class": 1,
        "theta": 0.1,
        "counterfactuals": 1,
        "source_count": 4,
        "covered_count": 1,
        "coverage": 0.25,
        "reason": None,
    },
    "result": {
        "kind": "global",
        "stage": "final",
        "source_class": 0,
        "target_class": 1,
        "theta": 0.1,
        "reference_count": 9,
        "source_count": 4,
        "too_large_count": 0,
        "covered_count": 1,
        "coverage": 0.25,
        "mean_cost": 1.0,
        "counterfactuals": [
            {
                "graph": _TRIANGLE,
                "node_types": [0, 0, 0],
                "prediction": {"predicted_class": 1, "probabilities": [0.2, 0.8]},
                "covered_share": 0.25,
                "added_share": 0.25,
                "covered": [_COVERED],
                "molecule": None,
            }
        ],
        "curves": [
            {"theta": 0.05, "coverage": [0.0], "mean_cost": [None]},
            {"theta": 0.1, "coverage": [0.25], "mean_cost": [1.0]},
        ],
        "median_distance": [None],
        "rules": [{"kind": "add_edge", "types": [0, 0], "path_count": 1, "share": 1.0}],
        "node_types": [{"type": 0, "x": [1.0]}],
        "ignores_features": False,
        "ignores_edge_attributes": False,
        "reason": None,
        "timings": {"load_seconds": 0.4, "explain_seconds": 118.0},
        "receipt": {
            **_RESULT["receipt"],
            "config": {"source_class": 0, "target_class": 1, "theta": 0.1, "preset": "balanced"},
            "work": {"gnn_evaluations": 5200, "counterfactuals": 1, "covered_graphs": 1},
        },
        "warnings": [],
    },
}
