"""Examples of explanations."""

from __future__ import annotations

from service.examples.jobs import WAITING_JOB, explanation_job
from service.examples.shared import (
    AFTER,
    BEFORE,
    CREATED,
    DENOISER_ID,
    EDITED,
    EXPLANATION_ID,
    GNN_ID,
    JOB_ID,
    METADATA,
    NODE_LINK_GRAPH,
    PROVISIONAL_JOB_ID,
    PYG_GRAPH,
    SET_ID,
    SHA,
    Example,
)

COUNTERFACTUAL_IN: Example = {
    "kind": "counterfactual",
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "graph": NODE_LINK_GRAPH,
    "alternatives": 2,
    "constraints": {"max_ratio": 0.3, "frozen_nodes": ["tail"], "frozen_edges": [["a", "b"]]},
    "seed": 7,
    "metadata": METADATA,
}
SEARCH_IN: Example = {
    "kind": "counterfactual",
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "graph": NODE_LINK_GRAPH,
    "explainer": "search",
    "aim": "minimal",
    "judges": "none",
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
            "seconds": 2.0,
        }
    ],
    "memory_bytes": 40054000,
    "seconds": 2.0,
    "trains_denoiser": True,
    "trains_witnesses": True,
    "denoiser_seconds": 95.0,
    "witness_seconds": 60.0,
    "total_seconds": 160.0,
    "provisional": True,
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
    "already_count": 0,
    "flip_rate": 1.0,
    "mean_edits": 1.0,
    "mean_modification_ratio": 1 / 7,
    "mean_fidelity": 0.77,
    "mean_confidence": 0.83,
    "edits_by_denoiser": 1,
    "edits_by_search": 0,
    "verdicts": {"meaningful": 1, "brittle": 0, "unjudged": 0},
    "transfer_ratio": 1.0,
}
_RESULT: Example = {
    "kind": "counterfactual",
    "stage": "final",
    "final_adds": [],
    "answers": [
        {
            "graph": NODE_LINK_GRAPH,
            "node": None,
            "prediction": BEFORE,
            "typicality": {"value": 0.71, "low": False, "calibration_graphs": 345},
            "found": True,
            "reason": None,
            "counterfactuals": [
                {
                    "graph": EDITED,
                    "edits": [
                        {
                            "action": "remove",
                            "source": "b",
                            "target": "roof",
                            "plausibility": 1.84,
                            "proposed_by": "denoiser",
                        }
                    ],
                    "prediction": AFTER,
                    "confidence": 0.83,
                    "denoiser_likelihood": 1.84,
                    "fidelity": 0.77,
                    "modification_ratio": 1 / 7,
                    "connected": True,
                    "found_by": "denoiser",
                    "typicality": {"value": 0.24, "low": False, "calibration_graphs": 345},
                    "aim": "believable",
                    "verdict": "meaningful",
                    "transfers": {"shared": 4, "agreeing": 5, "asked": 5},
                    "unseen": [],
                    "order": {
                        "edits": 1,
                        "unseen": 0,
                        "convinced": 10,
                        "witnesses": 10,
                        "statistics_shift": 0.21,
                        "reason": "First: no other answer has fewer than 1 edit.",
                    },
                }
            ],
            "minimal": [],
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
        "request_sha256": SHA,
        "gnn": GNN_ID,
        "gnn_sha256": SHA,
        "dataset": SET_ID,
        "dataset_sha256": SHA,
        "graphs_sha256": [SHA],
        "denoiser_sha256": SHA,
        "denoiser_key": SHA,
        "witnesses_sha256": SHA,
        "witnesses_key": SHA,
        "config": {"explainer": "d4", "aim": "believable", "preset": "balanced", "alternatives": 2},
        "limits": {"exact_nodes": 512, "neighbourhood_nodes": 128},
        "seed": 7,
        "device": "cpu",
        "environment": {
            "device": "cpu",
            "cpu": "AMD EPYC 7B13, AVX2",
            "torch": "2.13.0+cpu (49f3bd1a5c2e)",
            "threads": 1,
        },
        "versions": {"d4explain": "0.1.0", "torch": "2.13.0"},
        "work": {"samples": 256, "gnn_evaluations": 512, "gnn_gradients": 2, "depth": 1},
    },
    "judges": [
        {"architecture": "gin", "gnn": None, "labels": "true", "agreement": 0.93, "used": True}
    ],
    "unjudged_reason": None,
    "warnings": [],
}
_FOUND: Example = _RESULT["answers"][0]["counterfactuals"][0]
PROVISIONAL_RESULT: Example = {
    **_RESULT,
    "stage": "provisional",
    "final_adds": [
        "believable answers, which also convince other networks; these are minimal",
        "verdicts: whether networks trained on the same data share each flip",
        "a wider search, which may find fewer edits",
        "edits that the denoiser proposes, with plausibility and typicality",
    ],
    "answers": [
        {
            **_RESULT["answers"][0],
            "typicality": None,
            "counterfactuals": [
                {
                    **_FOUND,
                    "edits": [
                        {**_FOUND["edits"][0], "plausibility": None, "proposed_by": "search"}
                    ],
                    "denoiser_likelihood": None,
                    "found_by": "search",
                    "typicality": None,
                    "aim": "minimal",
                    "verdict": "unjudged",
                    "transfers": None,
                    "order": {**_FOUND["order"], "convinced": None, "witnesses": None},
                }
            ],
        }
    ],
    "summary": {
        **_SUMMARY,
        "edits_by_denoiser": 0,
        "edits_by_search": 1,
        "verdicts": {"meaningful": 0, "brittle": 0, "unjudged": 1},
        "transfer_ratio": None,
    },
    "receipt": {
        **_RESULT["receipt"],
        **dict.fromkeys(("denoiser_sha256", "denoiser_key", "witnesses_sha256", "witnesses_key")),
        "config": {"explainer": "search", "aim": "minimal", "preset": "fast"},
    },
    "judges": [],
    "unjudged_reason": "this answer is provisional, and the witnesses are still being trained",
}


def _answer(stage: str, state: str) -> Example:
    url = f"/v1/explanations/{EXPLANATION_ID}/answers/{stage}"
    exists = state == "succeeded"
    return {
        "stage": stage,
        "state": state,
        "job": JOB_ID if stage == "final" else PROVISIONAL_JOB_ID,
        "sha256": SHA if exists else None,
        "url": url,
        "svg": f"{url}?format=svg" if exists else None,
    }


EXPLANATION: Example = {
    "id": EXPLANATION_ID,
    "kind": "counterfactual",
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "denoiser": DENOISER_ID,
    "state": "succeeded",
    "answers": [_answer("provisional", "succeeded"), _answer("final", "succeeded")],
    "result_stage": "final",
    "reason": None,
    "summary": _SUMMARY,
    "metadata": METADATA,
    "job": explanation_job("succeeded"),
    "created_at": CREATED,
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
    "answers": [_answer("provisional", "queued"), _answer("final", "queued")],
    "result_stage": None,
    "summary": None,
    "job": WAITING_JOB,
    "links": {**EXPLANATION["links"], "svg": None},
    "result": None,
}
PROVISIONAL_EXPLANATION: Example = {
    **EXPLANATION,
    "state": "running",
    "answers": [_answer("provisional", "succeeded"), _answer("final", "queued")],
    "result_stage": "provisional",
    "summary": PROVISIONAL_RESULT["summary"],
    "job": WAITING_JOB,
    "result": PROVISIONAL_RESULT,
}
LISTED_EXPLANATION: Example = {k: v for k, v in EXPLANATION.items() if k != "result"}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="760" height="520">…</svg>'
GRAPHML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">…</graphml>'
_EDITS = _RESULT["answers"][0]["counterfactuals"][0]["edits"]
_PREDICTIONS: Example = {"predicted_class": 1, "confidence": 0.83, "predicted_class_before": 0}
CYTOSCAPE: Example = {
    "data": {**_PREDICTIONS, "edits": _EDITS},
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
    **_PREDICTIONS,
}
