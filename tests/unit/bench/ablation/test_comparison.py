"""Ablation: paired differences, saved rows and their table."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bench.ablation.comparison import KEYS, REDUCED, VARIANTS, differences
from bench.ablation.tables import ablation_page, saved_ablation
from bench.counterfactuals.figures import MethodResult
from bench.counterfactuals.instances import EditableInstance
from bench.report.results_store import COMMANDS, merge_rows
from d4explain.gnn.graphs import Graph
from models.graphs.edits import EditRules

torch.set_num_threads(1)


def path(nodes: int) -> Graph:
    return Graph(
        torch.ones(nodes, 1), torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    )


def result(nodes: int, edits: int) -> MethodResult:
    """The first edges of a path, removed; no answer for 0 edits."""
    removed = tuple((node, node + 1) for node in range(edits))
    instance = EditableInstance(path(nodes), EditRules(), restricted=False)
    return MethodResult(instance, (removed,) if edits else (), 10, 0, 0.1)


def test_differences_are_paired_means_with_intervals() -> None:
    """On 30 edges a flip of n edits has AUC (9.5 - n) / 9: it counts from r = n/30 on."""
    others = [result(31, 1)] * 10
    ours = [*[result(31, 1)] * 9, result(31, 4)]
    figures = differences(ours, others, [path(20), path(25)], seed=0)
    assert figures["auc_change"] == pytest.approx(-(3 / 9) / 10)
    assert figures["auc_change_low"] < figures["auc_change"] <= figures["auc_change_high"] == 0
    assert figures["share_changed"] == pytest.approx(0.1)
    missing = differences([result(31, 0)], [result(31, 1)], [path(20)], seed=0)
    assert missing["auc_change"] == pytest.approx(-8.5 / 9)
    same = differences(others, others, [path(20), path(25)], seed=0)
    assert (same["auc_change"], same["share_changed"]) == (0, 0)
    assert same["mmd_change_low"] == same["mmd_change_high"] == 0


def row(variant: str, seed: int, auc: float) -> dict[str, object]:
    return {
        "dataset": "bbbp",
        "variant": variant,
        "n": 60,
        "seed": seed,
        "auc_strict": auc,
        "mmd_heldout": 0.2,
        "mmd_floor": 0.1,
    }


def test_a_repeated_measurement_replaces_its_row_and_keeps_the_others(tmp_path: Path) -> None:
    merge_rows("ablation", [row("removed", 1, 0.5), row(REDUCED, 1, 0.4)], KEYS, tmp_path)
    merge_rows("ablation", [row(REDUCED, 1, 0.6), row(REDUCED, 2, 0.8)], KEYS, tmp_path)
    saved = saved_ablation(tmp_path)
    assert [(one["variant"], one["seed"], one["auc_strict"]) for one in saved] == [
        ("removed", 1, 0.5),
        (REDUCED, 1, 0.6),
        (REDUCED, 2, 0.8),
    ]
    page = ablation_page(saved)
    assert "**bbbp** (validation instances)" in page
    assert "| removed | 60 | 1 | 0.500 |" in page
    assert f"| {REDUCED} | 60 | 2 | 0.700 |" in page


def test_variants_differ_and_the_report_leaves_them_out() -> None:
    assert next(iter(VARIANTS)) == REDUCED
    assert len(set(VARIANTS.values())) == len(VARIANTS)
    assert "ablation" not in COMMANDS
