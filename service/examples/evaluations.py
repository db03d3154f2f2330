"""Examples of evaluations, their rows and comparisons."""

from __future__ import annotations

from service.examples.explanations import EXPLANATION
from service.examples.jobs import job
from service.examples.shared import CREATED, DENOISER_ID, GNN_ID, METADATA, SET_ID, SHA, Example

_ID = "evl_01kaajz0q8w6r5n1t9zq"
_JOB_ID = "job_01kaajz0r2m4v6x8z0cf"
_TEST_ID = "set_01kaajwq2m4v6x8z0bdf"

EVALUATION_IN: Example = {
    "gnn": "motifs@production",
    "dataset": "motifs",
    "test": "motifs-test@1",
    "explainers": ["d4", "search"],
    "metrics": ["transfer", "typicality", "mmd"],
    "seed": 1,
    "metadata": METADATA,
}
HELD_OUT_IN: Example = {
    "gnn": "motifs@production",
    "dataset": "motifs",
    "test": {"held_out": 0.2},
    "explainers": ["d4", "greedy", "random"],
    "count": 100,
    "constraints": {"max_ratio": 0.3},
}
EVALUATION_ESTIMATE: Example = {
    "dry_run": True,
    "instances": 433,
    "shards": 22,
    "explainers": [
        {"explainer": "d4", "seconds": 130.0},
        {"explainer": "search", "seconds": 130.0},
    ],
    "metric_seconds": {},
    "seconds": 260.0,
    "trains_denoiser": False,
    "trains_witnesses": True,
    "denoiser_seconds": 0.0,
    "witness_seconds": 190.0,
    "total_seconds": 450.0,
}


def _job(state: str, explained: int) -> Example:
    done = {"phase": "explaining", "step": explained, "total": 40, "metrics": {"eta_seconds": 9.5}}
    base = job(_JOB_ID, "evaluation", "sample", f"/v1/evaluations/{_ID}", state)
    subject = {**base["subject"], "dataset": SET_ID, "denoiser": DENOISER_ID, "evaluation": _ID}
    progress = done if explained else None
    return {**base, "subject": subject, "metadata": METADATA, "progress": progress}


def _figure(value: float, low: float, high: float, count: int = 40) -> Example:
    return {"value": value, "low": low, "high": high, "count": count}


_MMD = EXPLANATION["result"]["mmd"]
_RESULT: Example = {
    "instances": 40,
    "test": {
        "dataset": _TEST_ID,
        "sha256": SHA,
        "part": "whole",
        "graph_count": 40,
        "held_out_share": None,
    },
    "metrics": ["transfer", "typicality", "mmd"],
    "predicted_classes": {"0": 19, "1": 21},
    "class_names": {"0": "cycle", "1": "house"},
    "accuracy": _figure(0.975, 0.925, 1.0),
    "explainers": [
        {
            "explainer": "search",
            "validity": _figure(0.95, 0.875, 1.0),
            "one_edit_share": _figure(0.475, 0.325, 0.625),
            "cf_acc_auc": _figure(0.741, 0.69, 0.789),
            "ceiling": 0.861,
            "of_ceiling": _figure(0.861, 0.806, 0.912),
            "cf_acc_auc_one_edit": _figure(0.83, 0.78, 0.87),
            "fidelity_auc": _figure(0.61, 0.56, 0.66),
            "fidelity": _figure(0.81, 0.77, 0.85, 38),
            "edits": _figure(1.7, 1.5, 2.0, 38),
            "modification_ratio": _figure(0.071, 0.06, 0.083, 38),
            "connected": _figure(0.92, 0.84, 1.0, 38),
            "answers": _figure(2.8, 2.6, 3.0),
            "diversity": _figure(0.83, 0.79, 0.87, 37),
            "brittle_share": _figure(0.66, 0.5, 0.81, 35),
            "na": {"value": 0.36, "low": 0.24, "high": 0.48},
            "nafr": {"value": 0.34, "low": 0.22, "high": 0.46},
            "verdicts": {"brittle": 23, "meaningful": 12, "unjudged": 3},
            "typicality_before": _figure(0.52, 0.43, 0.61),
            "typicality": _figure(0.21, 0.13, 0.29, 38),
            "low_typicality_before": _figure(0.05, 0.0, 0.125),
            "low_typicality": _figure(0.42, 0.26, 0.58, 38),
            "robustness_before": None,
            "robustness": None,
            "stability": None,
            "mmd": _MMD,
            "mmd_before": _MMD,
            "c2st": None,
            "gnn_evaluations": _figure(402.0, 371.0, 433.0),
            "gnn_gradients": _figure(2.4, 2.1, 2.7),
            "cpu_seconds": _figure(0.31, 0.28, 0.35),
            "seconds": _figure(0.33, 0.29, 0.38),
            "curve": [
                {"ratio": 0.0, "strict": 0.0, "one_edit": 0.475, "ceiling": 0.0, "fidelity": 0.0},
                {"ratio": 0.3, "strict": 0.95, "one_edit": 0.95, "ceiling": 1.0, "fidelity": 0.77},
            ],
            "edit_histogram": {"1": 19, "2": 12, "3": 7},
            "flips": [
                {"old_class": 0, "new_class": 1, "count": 18},
                {"old_class": 1, "new_class": 0, "count": 20},
            ],
            "classes": [
                {"predicted_class": 0, "class_name": "cycle", "validity": _figure(0.95, 0.84, 1.0)},
            ],
            "recurring_edits": [
                {
                    "edits": [{"action": "remove", "types": ["C", "H"]}],
                    "shared_type": None,
                    "instances": 11,
                    "share": 0.289,
                    "base_share": 0.31,
                }
            ],
        }
    ],
    "judges": EXPLANATION["result"]["judges"],
    "unjudged_reason": None,
    "rows_sha256": SHA,
    "receipt": EXPLANATION["result"]["receipt"],
    "warnings": [
        "whether the GNN, or the reference set, contains graphs of the test set is not known"
    ],
}
EVALUATION: Example = {
    "id": _ID,
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "test_dataset": _TEST_ID,
    "denoiser": DENOISER_ID,
    "explainers": ["search"],
    "instance_count": 40,
    "explained_count": 40,
    "state": "succeeded",
    "summary": {
        "instances": 40,
        "accuracy": 0.975,
        "explainers": {
            "search": {"validity": 0.95, "cf_acc_auc": 0.741, "edits": 1.7, "brittle_share": 0.66}
        },
    },
    "metadata": METADATA,
    "job": _job("succeeded", 40),
    "created_at": CREATED,
    "links": {
        "self": f"/v1/evaluations/{_ID}",
        "job": f"/v1/jobs/{_JOB_ID}",
        "events": f"/v1/jobs/{_JOB_ID}/events",
        "rows": f"/v1/evaluations/{_ID}/rows",
        "csv": f"/v1/evaluations/{_ID}/rows?format=csv",
        "parquet": f"/v1/evaluations/{_ID}/rows?format=parquet",
    },
    "result": _RESULT,
}
WAITING_EVALUATION: Example = {
    **EVALUATION,
    "explained_count": 0,
    "state": "queued",
    "summary": None,
    "job": _job("queued", 0),
    "links": {**EVALUATION["links"], "parquet": None},
    "result": None,
}
LISTED_EVALUATION: Example = {k: v for k, v in EVALUATION.items() if k != "result"}
ROWS: Example = {
    "items": [
        {
            "instance": 0,
            "graph": 0,
            "graph_sha256": SHA,
            "explainer": "search",
            "node_count": 25,
            "edge_count": 26,
            "label": 1,
            "predicted_class": 1,
            "probability": 0.98,
            "found": True,
            "reason": None,
            "new_class": 0,
            "new_probability": 0.83,
            "added": [[3, 7]],
            "removed": [[1, 2]],
            "edits": 2,
            "modification_ratio": 0.0769,
            "fidelity": 0.81,
            "connected": True,
            "verdict": "brittle",
            "judges_agree": [True, True, True, False, True],
            "judges_share": [True, False, False, False, False],
            "typicality_before": 0.61,
            "typicality": 0.08,
            "answer_count": 3,
            "diversity": 0.83,
            "robustness_before": None,
            "robustness": None,
            "stability": None,
            "gnn_evaluations": 371,
            "gnn_gradients": 2,
            "cpu_seconds": 0.28,
            "seconds": 0.29,
        }
    ],
    "next_cursor": None,
}
ROWS_CSV = "instance,graph,graph_sha256,explainer,…\r\n0,0,0b1c…,search,…\r\n"
_COMPARISON_ID = "cmp_01kaajz0q8w6r5n1t9zq"
_CANDIDATE_ID = "evl_01kaak12c8w6r5n1t9zq"
_COMPARISON_JOB_ID = "job_01kaak1fr2m4v6x8z0cf"
COMPARISON_IN: Example = {
    "baseline": _ID,
    "candidate": _CANDIDATE_ID,
    "retrained": ["evl_01kaajz1a2m4v6x8z0bd", "evl_01kaajz1b2m4v6x8z0bd"],
}
EXPLAINERS_IN: Example = {
    "baseline": _ID,
    "candidate": _ID,
    "explainer": "search",
    "candidate_explainer": "d4",
}


def _comparison_job(state: str) -> Example:
    link = f"/v1/comparisons/{_COMPARISON_ID}"
    base = job(_COMPARISON_JOB_ID, "comparison", "sample", link, state)
    subject = {**base["subject"], "comparison": _COMPARISON_ID}
    return {**base, "subject": subject, "metadata": METADATA}


COMPARISON: Example = {
    "id": _COMPARISON_ID,
    "baseline": _ID,
    "candidate": _CANDIDATE_ID,
    "baseline_explainer": "search",
    "candidate_explainer": "search",
    "state": "succeeded",
    "moved": ["accuracy"],
    "worse": ["accuracy"],
    "result": {
        "noise": "retraining",
        "baseline_explainer": "search",
        "candidate_explainer": "search",
        "retrained": ["evl_01kaajz1a2m4v6x8z0bd", "evl_01kaajz1b2m4v6x8z0bd"],
        "trainings": 3,
        "alpha": 0.01,
        "instances": 40,
        "agreement": 0.83,
        "figures": [
            {
                "figure": "accuracy",
                "baseline": 0.975,
                "candidate": 0.8,
                "difference": -0.17,
                "expected": 0.97,
                "low": -0.3,
                "high": -0.05,
                "effect": -11.3,
                "deviation": 0.015,
                "p_value": 0.0011,
                "corrected_p_value": 0.0077,
                "moved": True,
                "worse": True,
                "instances": 40,
            }
        ],
        "moved": ["accuracy"],
        "worse": ["accuracy"],
        "warnings": [],
    },
    "metadata": METADATA,
    "job": _comparison_job("succeeded"),
    "created_at": CREATED,
    "links": {
        "self": f"/v1/comparisons/{_COMPARISON_ID}",
        "job": f"/v1/jobs/{_COMPARISON_JOB_ID}",
        "baseline": f"/v1/evaluations/{_ID}",
        "candidate": f"/v1/evaluations/{_CANDIDATE_ID}",
    },
}
WAITING_COMPARISON: Example = {
    **COMPARISON,
    "baseline_explainer": None,
    "candidate_explainer": None,
    "state": "queued",
    "moved": None,
    "worse": None,
    "result": None,
    "job": _comparison_job("queued"),
}
LISTED_COMPARISON: Example = {k: v for k, v in COMPARISON.items() if k != "result"}


AUDIT_REPORT: Example = {
    "evaluation": _ID,
    "title": "Audit report of motifs@2",
    "evaluated_at": CREATED,
    "written_at": CREATED,
    "result_sha256": SHA,
    "summary": [
        "The GNN gives 98 % (95 % interval 93 % to 100 %) of 40 graphs the label of the test set."
    ],
    "sections": [
        {
            "title": "Sign-off",
            "blocks": [
                {"kind": "paragraph", "text": "To be filled in by a person."},
                {"kind": "sign_off", "fields": ["Name", "Role", "Date", "Signature"]},
            ],
        }
    ],
    "figures": [
        {
            "figure": "accuracy",
            "meaning": "share of graphs to which the GNN gives the label of the test set",
            "explainer": None,
            "slice": None,
            "value": 0.975,
            "low": 0.925,
            "high": 1.0,
            "count": 40,
            "note": "",
        }
    ],
}
AUDIT_CSV = "figure,meaning,explainer,slice,value,low,high,count,note\r\naccuracy,…,,,0.975,…\r\n"
MODEL_CARD: Example = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.6",
    "version": 1,
    "components": [
        {
            "type": "machine-learning-model",
            "name": "motifs",
            "modelCard": {
                "quantitativeAnalysis": {
                    "performanceMetrics": [
                        {
                            "type": "accuracy",
                            "value": "0.975",
                            "slice": "n = 40",
                            "confidenceInterval": {"lowerBound": "0.925", "upperBound": "1.0"},
                        }
                    ]
                }
            },
        }
    ],
}
GATE_IN: Example = {
    "threshold": [
        {"figure": "accuracy", "min": 0.9, "bound": "low"},
        {"figure": "brittle_share", "explainer": "search", "max": 0.8},
    ]
}
