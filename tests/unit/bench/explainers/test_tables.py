"""The paper's tables: layout, intervals over seeds, and verdicts."""

from __future__ import annotations

from typing import Any

from bench.explainers.rows import METHODS, PAPER_METHODS
from bench.explainers.tables import run_time, table_1, table_2, verdicts


def row(method: str, seed: int = 0, **figures: Any) -> dict[str, Any]:
    return {
        **{"dataset": "tree_cycle", "method": method, "seed": seed, "auc_strict": 0.5},
        **{"auc_one_edit": 0.7, "fidelity_any_auc": 0.4, "mmd_heldout": 0.2, "flip_rate": 1.0},
        **{"na": None, "c2st": None, "cpu_seconds": 0.25, "cpu_seconds_std": 0.05},
        **{"train_seconds": 0.0, "gnn_evaluations": 10.0, "gnn_gradients": 2.0},
        **figures,
    }


def test_every_figure_stands_beside_the_papers() -> None:
    lines = table_1([row("d4"), row("search")]).strip().splitlines()
    assert lines[2] == (
        "| **D4Explainer (ours, `minimal`)** | 0.500 (0.917) | 0.700 | 0.400 (0.862) |"
    )
    assert lines[3] == "| `search` | 0.500 | 0.700 | 0.400 |"


def test_all_methods_are_in_the_papers_order() -> None:
    rows = [row(method) for method in reversed(METHODS)]
    table = table_2(rows).strip().splitlines()[2:]
    assert len(table) == len(METHODS) == 12
    assert [line.split("|")[1].strip() for line in table][:2] == ["Random", "GNNExplainer"]


def test_several_seeds_have_an_interval() -> None:
    rows = [row("d4", seed, auc_strict=auc) for seed, auc in enumerate((0.4, 0.5, 0.6))]
    # t = 4.303 and a standard error of 0.1 / √3.
    assert "| 0.500 ± 0.248 (0.917) |" in table_1(rows)


def test_run_times_have_their_deviation() -> None:
    assert "| 0.250 ± 0.050 | 0.022 ± 0.002 |" in run_time([row("d4")])


def test_verdicts_name_what_was_missed() -> None:
    rows = [row(method, auc_strict=0.1) for method in PAPER_METHODS]
    rows += [row("search", auc_strict=0.99)]  # not a method of the paper
    by_method = {one["method"]: one for one in rows}
    by_method["d4"] |= {"auc_strict": 0.8, "mmd_heldout": 0.2}
    by_method["cf-gnnexplainer"] |= {"auc_strict": 0.805, "mmd_heldout": 0.1}
    by_method["random"]["mmd_heldout"] = 0.01  # too few flips to count
    (sentence,) = verdicts(rows)
    assert sentence == (
        "tree_cycle (1 seed): CF-ACC AUC 0.800, the best of the others 0.805 (`cf-gnnexplainer`): "
        "reached. MMD sum 0.200, the lowest of the others with at least half of the best AUC "
        "0.100 (`cf-gnnexplainer`): **missed**."
    )
    by_method["cf-gnnexplainer"]["auc_strict"] = 0.82
    assert "0.820 (`cf-gnnexplainer`): **missed**." in verdicts(rows)[0]


def test_methods_that_were_not_measured_are_named() -> None:
    (sentence,) = verdicts([row("d4"), row("random", auc_strict=0.1)])
    assert sentence.endswith(
        "Not measured: `gnnexplainer`, `saliency`, `gradcam`, `integrated-gradients`, "
        "`pgexplainer`, `pgm-explainer`, `cxplain`, `cf-gnnexplainer`."
    )


def test_nothing_measured_says_so() -> None:
    assert table_1([]).strip() == run_time([]).strip() == "Not measured."
    assert verdicts([]) == []
