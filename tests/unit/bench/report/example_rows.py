"""Invented result rows for the tests of the report."""

from __future__ import annotations

from typing import Any

ORIGIN = {"seed": 0, "commit": "0123456789abcdef", "machine": "a machine", "date": "2026-01-02"}


def counterfactual_row(dataset: str, method: str, **changes: Any) -> dict[str, Any]:
    return {
        **{"dataset": dataset, "method": method, "n": 60, "auc_strict": 0.8, "ceiling": 0.9},
        **{"auc_one_edit": 0.95, "fidelity_auc": 0.5, "mean_edits": 1.5, "flip_rate": 1.0},
        **{"flip_rate_005": 0.4, "flip_rate_01": 0.8, "mmd_sum": 0.05, "mmd_heldout": 0.04},
        **{"mmd_floor": 0.02, "alternatives": 5.0, "alternatives3": 0.9, "cpu_seconds": 0.1},
        **{"share_not_minimal": 0.01, "gnn_evaluations": 300.0, "train_seconds": 60.0},
        **{"curve": [step / 10 for step in range(10)], "command": "python -m bench x"},
        **ORIGIN,
        **changes,
    }


def class_row(method: str, **changes: Any) -> dict[str, Any]:
    return {
        **{"dataset": "mutagenicity", "label": 1, "nodes": 7, "method": method, "k": 20, "t": 50},
        **{"n": 100, "confidence": 0.9, "density": 0.3, "connected": 1.0, "valence_broken": 0.0},
        **{"unique": 0.9, "motif_rate": None, "mmd_heldout": 0.02, "seconds": 7.0},
        **{"recurrence": 0.5, "density_heldout": 0.28},
        **changes,
    }


def robustness_rows(method: str, *accuracies: float) -> list[dict[str, Any]]:
    shared = {"dataset": "bbbp", "method": method, "k": 5, "ratio": 0.2, "n": 20, "seeds": 5}
    return [
        {**shared, "noise": noise, "top_k_accuracy": value, "kept": 1.0, "flips": 0.9, **ORIGIN}
        for noise, value in zip((0.0, 0.02, 0.1), accuracies, strict=True)
    ]


def speed_row(name: str, **figures: float | None) -> dict[str, Any]:
    table = {"title": "by hand", "columns": ["N", "ms"], "rows": [["thirty", 0.123456], [50, 2e9]]}
    return {"dataset": name, **figures, "tables": [table], "short": True, **ORIGIN}


def rows_of_every_command() -> dict[str, list[dict[str, Any]]]:
    return {
        "gnns": [
            {"dataset": "bbbp", "test_accuracy": 0.88, "paper_accuracy": 0.85, **ORIGIN},
            {"dataset": "mutag", "test_accuracy": 0.72, "paper_accuracy": None, **ORIGIN},
        ],
        "counterfactual": [counterfactual_row("bbbp", name) for name in ("d4", "greedy", "random")],
        "classes": [class_row(name) for name in ("d4", "d4_paper", "real_best20")],
        "robustness": [
            *robustness_rows("d4", 1.0, 0.8, 0.7),
            *robustness_rows("greedy", 1.0, 0.5, 0.4),
        ],
        "speed": [speed_row("mmd", mmd_speedup=50.0, plain_ms=2500.0)],
    }
