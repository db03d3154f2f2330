"""The example of an explained class."""

from __future__ import annotations

from service.examples.explanations import EXPLANATION
from service.examples.shared import Example

_HOUSE: Example = {
    "nodes": [{"id": node, "x": [1.0]} for node in range(5)],
    "edges": [
        {"source": source, "target": target}
        for source, target in ((0, 1), (0, 3), (0, 4), (1, 2), (1, 4), (2, 3))
    ],
}
_PATTERN: Example = {
    "graph": _HOUSE,
    "support": {"in_class": 1.0, "elsewhere": 0.16, "class_count": 80, "other_count": 80},
    "contrast": 0.84,
    "effect": {
        "mean": 4.1,
        "inserted": {"mean": 3.1, "standard_error": 0.4, "graph_count": 120},
        "broken": {"mean": -5.1, "standard_error": 0.6, "graph_count": 120},
    },
    "confidence": 0.78,
    "prediction": {"predicted_class": 1, "probabilities": [0.3, 0.7]},
    "confidence_alone": 0.7,
    "found_by": ["denoiser", "data"],
    "chain": [{"step": 12, "graph": _HOUSE}],
    "occurrences": [{"graph": 17, "nodes": [6, 7, 8, 9, 10], "shown": None}],
    "denoiser_likelihood": -1.1,
    "density": 0.48,
    "connected": True,
    "node": None,
    "molecule": None,
}
_RESULT = EXPLANATION["result"]
CLASS_EXPLANATION: Example = {
    **EXPLANATION,
    "kind": "class",
    "summary": {"target_class": 1, "examples": 1, "best_contrast": 0.84, "reason": None},
    "result": {
        "kind": "class",
        "stage": "final",
        "final_adds": [],
        "target_class": 1,
        "examples": [_PATTERN],
        "reason": None,
        "tells_small_graphs_apart": True,
        "mmd": _RESULT["mmd"],
        "timings": _RESULT["timings"],
        "receipt": {
            **_RESULT["receipt"],
            "config": {"explainer": "d4", "preset": "balanced", "candidates": 20, "steps": 30},
            "work": {"steps": 30, "chains": 8, "candidates": 20, "class_reference_graphs": 410},
        },
        "warnings": [],
    },
}
