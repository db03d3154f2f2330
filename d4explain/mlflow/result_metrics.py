"""Metrics of a run and tags of a version, computed from results."""

from __future__ import annotations

import re
from collections import Counter
from statistics import fmean

from d4explain.contracts.counterfactual_results import Counterfactual, CounterfactualResult
from d4explain.contracts.results import ClassResult

PREFIX = "d4explain/"
_NOT_IN_NAMES = re.compile(r"[^\w\-.]", re.ASCII)  # MLflow refuses most other characters


def counterfactual_metrics(result: CounterfactualResult) -> dict[str, float]:
    """Figures of the first counterfactual of each graph; those that are unknown are left out."""
    summary, mmd = result.summary, result.mmd
    typicalities = [best.typicality for best in best_counterfactuals(result) if best.typicality]
    values: dict[str, float | None] = {
        "graphs": summary.graph_count,
        "found": summary.found_count,
        "validity": summary.flip_rate,
        "transfer": summary.transfer_ratio,
        **{f"verdicts/{verdict}": count for verdict, count in summary.verdicts.items()},
        "edits": summary.mean_edits,
        "modification_ratio": summary.mean_modification_ratio,
        "fidelity": summary.mean_fidelity,
        "confidence": summary.mean_confidence,
        "seconds": result.timings.explain_seconds,
    }
    if mmd is not None:
        values["mmd"] = mmd.sum
        values["mmd_null_p95"] = mmd.null_quantiles.get("0.95")
        values["mmd_p_value"] = mmd.p_value
    if typicalities:
        values["typicality"] = fmean(one.value for one in typicalities)
        values["typicality_low"] = fmean(one.low for one in typicalities)
    return {f"{PREFIX}{key}": float(value) for key, value in values.items() if value is not None}


def class_metrics(label: str, result: ClassResult) -> dict[str, float]:
    """Figures of the first pattern of a class."""
    values: dict[str, float | None] = {"patterns": len(result.examples)}
    if result.examples:
        first = result.examples[0]
        values |= {
            "support": first.support.in_class,
            "contrast": first.contrast,
            "effect": first.effect.mean,
        }
    prefix = f"{PREFIX}{file_label(label)}"
    return {f"{prefix}/{key}": float(value) for key, value in values.items() if value is not None}


def best_counterfactuals(result: CounterfactualResult) -> list[Counterfactual]:
    return [answer.counterfactuals[0] for answer in result.answers if answer.counterfactuals]


def verdict(result: CounterfactualResult) -> str:
    """`meaningful` if most judged counterfactuals are, else `brittle`; see docs/mlflow.md."""
    counts = Counter(best.verdict for best in best_counterfactuals(result))
    judged = counts["meaningful"] + counts["brittle"]
    if not counts:
        return "none found"
    if not judged:
        return "unjudged"
    return "meaningful" if 2 * counts["meaningful"] > judged else "brittle"


def verdict_counts(result: CounterfactualResult) -> str:
    """Such as "7 meaningful, 2 brittle, 0 unjudged, 1 without a counterfactual"."""
    counts = Counter(best.verdict for best in best_counterfactuals(result))
    already = result.summary.already_count
    without = len(result.answers) - counts.total() - already
    parts = [f"{counts[name]} {name}" for name in ("meaningful", "brittle", "unjudged")]
    if without:
        parts.append(f"{without} without a counterfactual")
    if already:
        parts.append(f"{already} had the class already")
    return ", ".join(parts)


def file_label(label: str) -> str:
    """A label as part of a file name or a metric name."""
    return _NOT_IN_NAMES.sub("_", label)
