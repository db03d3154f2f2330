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
        **{"seeds": 1, "n": 4.0, "confidence_alone": 0.9, "paper_confidence": 0.856},
        **{"density": 0.3, "paper_density": 0.327, "class_support": 0.8, "other_support": 0.1},
        **{"contrast": 0.7, "effect": 2.0, "confidence": 0.8, "motif": None},
        **{"from_denoiser": 1.0, "seconds": 7.0},
        **changes,
    }


def robustness_rows(method: str, *accuracies: float) -> list[dict[str, Any]]:
    shared = {"dataset": "bbbp", "method": method, "k": 5, "ratio": 0.2, "n": 20, "seeds": 5}
    return [
        {**shared, "noise": noise, "top_k_accuracy": value, "kept": 1.0, "flips": 0.9, **ORIGIN}
        for noise, value in zip((0.0, 0.02, 0.1), accuracies, strict=True)
    ]


def typicality_row(dataset: str, uniform_splits: int) -> dict[str, Any]:
    return {
        **{"dataset": dataset, "splits": 20, "uniform_splits": uniform_splits, "median_p": 0.4},
        **{"uniform_share": 0.95},
        **{"smallest_p": 0.01, "calibration": 300, "ranked": 500.0, "unranked": 1.0, "low": 0.05},
        **{"auc_1": 0.7, "auc_2": 0.8, "auc_10": 0.9},
        **{"detected_1": 0.1, "detected_2": 0.2, "detected_10": 0.6},
        **ORIGIN,
    }


def global_row(dataset: str, coverage: float, *, count: int = 10) -> dict[str, Any]:
    return {
        **{"dataset": dataset, "source_class": 0, "test_accuracy": 0.8, "asked": 100},
        **{"too_large": 1, "count": count, "radius": 0.1, "coverage": coverage},
        **{"curve": [0.05, coverage], "by_radius": {"0.1": coverage}, "median_distance": None},
        **{"mean_cost": 5.0, "cpu_seconds": 60.0, "evaluations": 500},
        **ORIGIN,
    }


def speed_row(name: str, **figures: float | None) -> dict[str, Any]:
    table = {"title": "by hand", "columns": ["N", "ms"], "rows": [["thirty", 0.123456], [50, 2e9]]}
    return {"dataset": name, **figures, "tables": [table], "short": True, **ORIGIN}


def paper_row(steps: int, sampling: str) -> dict[str, Any]:
    return {
        "dataset": "bbbp",
        "sampling": sampling,
        "hidden": 64,
        "blocks": 6,
        "steps": steps,
        "epochs": steps / 5,
        "cpu_seconds": 3.0 * steps,
        "n": 60,
        "auc_strict": 0.25 if sampling == "ranked" else 0.125,
        "auc_one_edit": 0.375,
        "ceiling": 0.8,
        **ORIGIN,
    }


def size_row(*, printed: bool) -> dict[str, Any]:
    return {
        "dataset": "bbbp",
        "hidden": 128 if printed else 64,
        "blocks": 6,
        "batch_graphs": 16,
        "alpha": 0.005,
        "printed": printed,
        "chosen": not printed,
        "seconds_per_step": 12.0 if printed else 3.0,
        "steps_per_epoch": 100,
        **ORIGIN,
    }


JUDGES = [
    *[{"validation_accuracy": 0.8, "agreement": 0.9}] * 4,
    {"validation_accuracy": 0.7, "agreement": 0.95},
]


def believable_row(dataset: str, method: str, seed: int, **figures: Any) -> dict[str, Any]:
    measured = {"na": 0.25, "na_low": 0.2, "na_high": 0.3, "nafr": 0.2, "nafr_low": 0.1}
    measured |= {"nafr_high": 0.3, "c2st": 0.9, "c2st_low": 0.85, "c2st_high": 0.95}
    extra = {"c2st_untouched": 0.51, "judges": JUDGES, "seed": seed, "mean_ratio": 0.125}
    extra |= {"answers": 200, "unseen_answers": 0}
    return counterfactual_row(dataset, method, **measured | extra | figures)


def sanity_row(method: str, auc: float | None) -> dict[str, Any]:
    scores = {"auc": auc, "auc_per_node": auc, "removed_in_motif": 0.8 if auc is None else None}
    figures = {"nodes": 10, "edits": 1.5, "flipped": 1.0, "motif_share": 0.3}
    published = {"published": 0.905, "source": "Ying et al. 2019"}
    return {"dataset": "tree_cycle", "method": method, **scores, **figures, **published, **ORIGIN}


def explainer_row(method: str) -> dict[str, Any]:
    extra = {"fidelity_any_auc": 0.4, "cpu_seconds_std": 0.01, "na": 0.3, "c2st": 0.7}
    extra |= {"gnn_gradients": 5.0}
    return {**counterfactual_row("bbbp", method), **extra}


def rows_of_every_command() -> dict[str, list[dict[str, Any]]]:
    return {
        "gnns": [
            {"dataset": "bbbp", "test_accuracy": 0.88, "paper_accuracy": 0.85, **ORIGIN},
            {"dataset": "mutag", "test_accuracy": 0.72, "paper_accuracy": None, **ORIGIN},
        ],
        "counterfactual": [counterfactual_row("bbbp", name) for name in ("d4", "greedy", "random")],
        "believable": [believable_row("bbbp", name, 1) for name in ("believable", "greedy")],
        "sanity": [sanity_row("saliency", 0.9), sanity_row("greedy", None)],
        "explainers": [explainer_row("d4"), explainer_row("random")],
        "paper": [paper_row(steps, name) for steps in (10, 20) for name in ("sample", "ranked")],
        "paper_sizes": [size_row(printed=True), size_row(printed=False)],
        "classes": [
            *(class_row(name) for name in ("d4", "mined", "d4_paper")),
            *(
                class_row(name, nodes=None, seeds=10, paper_confidence=None, paper_density=None)
                for name in ("d4", "mined")
            ),
            class_row("d4_paper", nodes=6, t=100, confidence_alone=0.95),
        ],
        "robustness": [
            *robustness_rows("d4", 1.0, 0.8, 0.7),
            *robustness_rows("greedy", 1.0, 0.5, 0.4),
        ],
        "typicality": [typicality_row("nci1", 19)],
        "global": [global_row("nci1", 0.3)],
        "speed": [speed_row("mmd", mmd_speedup=50.0, plain_ms=2500.0)],
    }
