"""Targets: what decides each verdict."""

from __future__ import annotations

from typing import Any

import pytest

from bench.report.paper_figures import SETS
from bench.report.results_store import Results
from bench.report.targets.evaluate import evaluate_targets
from bench.report.targets.verdict import Verdict, count_verdicts
from bench.speed.bounds import BOUNDS
from tests.unit.bench.report.example_rows import (
    class_row,
    counterfactual_row,
    global_row,
    robustness_rows,
    speed_row,
    typicality_row,
)

AUC = "AUC strict ≥ `greedy`"


def evaluate(command: str, rows: list[dict[str, Any]]) -> dict[tuple[str, str], Verdict]:
    """The verdicts by data set and target."""
    verdicts = evaluate_targets(Results({command: rows}))
    return {(verdict.dataset, verdict.target): verdict for verdict in verdicts}


@pytest.mark.parametrize(("accuracy", "reached"), [(0.83, True), (0.829, False)])
def test_gnn_accuracy_is_compared_with_the_paper(accuracy: float, reached: bool) -> None:
    rows = [{"dataset": "bbbp", "test_accuracy": accuracy}, {"dataset": "x", "test_accuracy": 0.1}]
    (verdict,) = evaluate_targets(Results({"gnns": rows}))
    assert (verdict.dataset, verdict.reached) == ("bbbp", reached)


def test_counterfactual_targets() -> None:
    rows = [
        counterfactual_row("bbbp", "d4", mmd_heldout=0.036, cpu_seconds=0.3, cpu_seconds_n60=0.15),
        counterfactual_row("bbbp", "greedy"),
        counterfactual_row("bbbp", "d4_no_denoiser", gnn_evaluations=900.0, auc_strict=0.804),
        counterfactual_row(
            "nci1", "d4", alternatives3=0.7, share_not_minimal=0.03, auc_one_edit=0.7
        ),
    ]
    verdicts = evaluate("counterfactual", rows)
    by_first_word = {
        (dataset, target.split(" ")[0]): verdict.reached
        for (dataset, target), verdict in verdicts.items()
    }
    assert verdicts["bbbp", AUC].reached
    assert verdicts["bbbp", AUC].figures == "0.800 vs 0.800"
    assert by_first_word["bbbp", "excess"]  # 0.016 of 0.020
    assert by_first_word["bbbp", "denoiser:"]
    denoiser = next(one for key, one in verdicts.items() if key[1].startswith("denoiser:"))
    assert "gradients not measured" in denoiser.figures  # older rows lack the count
    assert verdicts["bbbp", "≤ 0.2 CPU s per instance (N ≤ 60)"].reached
    assert verdicts["nci1", AUC].reached is None  # greedy was not measured
    alternatives = "≥ 3 alternatives for 80 % of the flipped instances"
    assert verdicts["nci1", alternatives].reached is False
    assert verdicts["nci1", "≤ 2 % not minimal"].reached is False
    assert verdicts["nci1", "AUC one-edit ≥ paper"].reached is False
    assert by_first_word["nci1", "denoiser:"] is None


@pytest.mark.parametrize(
    ("changes", "reached"),
    [
        ({"gnn_evaluations": 301.0}, False),
        ({"gnn_evaluations": 290.0, "gnn_gradients": 10.0}, True),
        ({"gnn_evaluations": 290.0, "gnn_gradients": 11.0}, False),  # backward passes count too
        ({"auc_strict": 0.79}, False),
        ({"gnn_evaluations": 900.0, "mmd_gain_low": 0.001, "mmd_gain_high": 0.01}, True),
        ({"gnn_evaluations": 900.0, "mmd_gain_low": -0.001, "mmd_gain_high": 0.01}, False),
    ],
)
def test_denoiser_must_save_evaluations_or_lower_the_mmd(
    changes: dict[str, float], reached: bool
) -> None:
    rows = [
        counterfactual_row("x", "d4", **changes),
        counterfactual_row("x", "d4_no_denoiser", gnn_evaluations=900.0, gnn_gradients=0.0),
    ]
    (verdict,) = [
        verdict
        for (_, target), verdict in evaluate("counterfactual", rows).items()
        if "denoiser" in target
    ]
    assert verdict.reached is reached


@pytest.mark.parametrize(
    ("gains", "measured", "reached"), [(2, 3, True), (1, 3, None), (1, 8, False), (0, 7, False)]
)
def test_targets_over_data_sets_are_undecided_until_enough_are_measured(
    gains: int, measured: int, reached: bool | None
) -> None:
    rows = []
    for index, name in enumerate(SETS[:measured]):
        gain = 0.02 if index < gains else 0.019
        rows.append(counterfactual_row(name, "d4", auc_strict=0.7 + gain))
        rows.append(counterfactual_row(name, "greedy", auc_strict=0.7))
    verdicts = evaluate("counterfactual", rows)
    assert verdicts["all", f"{AUC} + 0.02, on 2 of 8 data sets"].reached is reached


def test_ba3motif_counts_once_over_data_sets() -> None:
    names = ("ba3motif", "ba3motif_roles")
    rows = [counterfactual_row(name, method) for name in names for method in ("d4", "greedy")]
    verdicts = evaluate_targets(Results({"counterfactual": rows}))
    over_datasets = [verdict for verdict in verdicts if verdict.dataset == "all"]
    assert over_datasets
    assert all(" of 1 measured" in verdict.figures for verdict in over_datasets)


def test_class_targets() -> None:
    rows = [
        class_row("d4", nodes=None, motif=0.8, seeds=10),
        class_row("d4", motif=0.0),  # one seed: no target about the motif
        class_row("mined", nodes=None, motif=1.0, seeds=10),
        class_row("d4_paper", seconds=100.0),
    ]
    verdicts = evaluate_targets(Results({"classes": rows}))
    assert {(one.case, one.target): one.reached for one in verdicts} == {
        ("class 1", "shows the class in 9 of 10 seeds"): False,
        ("class 1", "≤ 15 CPU s per class"): True,
        ("class 1, N = 7", "≤ 15 CPU s per class"): True,
    }


def test_robustness_targets() -> None:
    rows = [
        *robustness_rows("d4", 1.0, 0.8, 0.5),
        *robustness_rows("greedy", 1.0, 0.7, 0.4),
        *robustness_rows("gnnexplainer", 1.0, 0.7, 0.5),
    ]
    verdicts = evaluate("robustness", rows)
    assert verdicts["bbbp", "Top-K accuracy 1 without noise"].reached
    assert verdicts["bbbp", "above `greedy` at every noise level"].figures == "by +0.100 to +0.100"
    assert verdicts["bbbp", "above `gnnexplainer` at every noise level"].reached is False
    over_datasets = [verdict for verdict in verdicts.values() if verdict.dataset == "all"]
    assert [verdict.reached for verdict in over_datasets] == [None]  # two sets are unmeasured


def test_speed_targets() -> None:
    rows = [
        speed_row("requests", many_jobs_over_one=1.51, warm_overhead_ms=None),
        speed_row("load", submit_rps=100.0, submit_p99_ms=150.0, submit_over_bare=0.5),
        speed_row("large", node_time_ratio_1e6_over_1e4=1.21, node_peak_bytes=1.9e9),
    ]
    verdicts = evaluate_targets(Results({"speed": rows}))
    by_key = {bound.key: verdict for bound, verdict in zip(BOUNDS, verdicts, strict=True)}
    assert [verdict.target for verdict in verdicts] == [bound.target for bound in BOUNDS]
    measured = {key: one.reached for key, one in by_key.items() if one.figures != "not measured"}
    assert measured == {
        "many_jobs_over_one": False,
        "node_time_ratio_1e6_over_1e4": False,
        "node_peak_bytes": True,
        "submit_rps": True,
        "submit_p99_ms": False,  # the bound itself is excluded
        "submit_over_bare": True,
    }
    assert by_key["node_peak_bytes"].figures == "1,900,000,000"
    assert by_key["submit_rps"].dataset == "load"
    assert by_key["warm_overhead_ms"].reached is None
    assert not evaluate_targets(Results({"speed": []}))


def test_count_verdicts_omits_outcomes_that_do_not_occur() -> None:
    verdicts = [Verdict("x", "x", "x", "x", reached) for reached in (True, None, True)]
    assert count_verdicts(verdicts) == "2 reached, 1 undecided"


def test_typicality_must_be_uniform_in_18_of_20_splits() -> None:
    rows = [typicality_row("nci1", 18), typicality_row("mutagenicity", 17)]
    verdicts = list(evaluate("typicality", rows).values())
    assert [(verdict.dataset, verdict.reached) for verdict in verdicts] == [
        ("nci1", True),
        ("mutagenicity", False),
    ]
    assert verdicts[0].figures == "18 of 20"


def test_global_coverage_must_be_above_the_published_one() -> None:
    rows = [
        global_row("nci1", 0.28),
        global_row("mutagenicity", 0.37),
        global_row("proteins", 0.9, count=5),
    ]
    verdicts = list(evaluate("global", rows).values())
    assert [(verdict.dataset, verdict.reached) for verdict in verdicts] == [
        ("nci1", True),
        ("mutagenicity", False),
    ]
