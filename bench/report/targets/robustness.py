"""Targets of the robustness comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.report.results_store import Results
from bench.report.targets.verdict import MISSING, Verdict, count_datasets, format_number

_COMMAND = "robustness"
_BASELINES = ("greedy", "gnnexplainer")
_Curve = Mapping[float, float | None]  # Top-K accuracy by noise level


def robustness_verdicts(results: Results) -> Iterator[Verdict]:
    beats_all = []
    for dataset in results.datasets(_COMMAND):
        curves = {method: _curve(results, dataset, method) for method in ("d4", *_BASELINES)}
        without_noise = curves["d4"].get(0.0)
        yield Verdict(
            _COMMAND,
            dataset,
            "Top-K accuracy 1 without noise",
            MISSING if without_noise is None else format_number(without_noise),
            None if without_noise is None else without_noise == 1.0,
        )
        comparisons = [
            _compare_curves(dataset, curves["d4"], name, curves[name]) for name in _BASELINES
        ]
        yield from comparisons
        beats_all.append(all(verdict.reached for verdict in comparisons))
    if beats_all:
        target = "above `greedy` and `gnnexplainer` at every noise level"
        yield count_datasets(_COMMAND, target, beats_all, required=2, total=3)


def _curve(results: Results, dataset: str, method: str) -> _Curve:
    return {
        row["noise"]: row["top_k_accuracy"]
        for row in results.rows(_COMMAND)
        if row["dataset"] == dataset and row["method"] == method
    }


def _compare_curves(dataset: str, ours: _Curve, name: str, baseline: _Curve) -> Verdict:
    gaps = [
        our_accuracy - accuracy
        for noise, our_accuracy in ours.items()
        if noise > 0 and our_accuracy is not None and (accuracy := baseline.get(noise)) is not None
    ]
    return Verdict(
        _COMMAND,
        dataset,
        f"above `{name}` at every noise level",
        f"by {min(gaps):+.3f} to {max(gaps):+.3f}" if gaps else MISSING,
        min(gaps) > 0 if gaps else None,
    )
