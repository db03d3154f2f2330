"""The pages of results and verdicts in docs/, computed from the saved rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.explainers.tables import explainer_tables, sanity_table
from bench.report.believability_tables import believability_tables
from bench.report.class_tables import class_tables
from bench.report.cost_table import cost_table
from bench.report.markdown import table
from bench.report.missed_targets import is_post_hoc
from bench.report.paper_figures import CF_ACC_AUC, GLOBAL_COVERAGE, GNN_ACCURACY
from bench.report.results_store import COMMANDS, Results
from bench.report.tables import GLOBAL_COLUMNS
from bench.report.targets.counterfactual import excess_mmd
from bench.report.targets.verdict import TargetKey, Verdict, count_verdicts
from bench.report.verdict_tables import verdict_table
from bench.speed.section import format_cell

TITLES = {
    "gnns": "Target GNNs",
    "counterfactual": "Counterfactuals",
    "believable": "Believable answers",
    "sanity": "Explainers on known motifs",
    "explainers": "Explainers in the paper's tables",
    "paper": "The paper's training over its steps",
    "paper_sizes": "Sizes of the paper's network",
    "classes": "Class explanations",
    "robustness": "Robustness",
    "typicality": "Typicality",
    "global": "Global counterfactuals",
    "speed": "Speed",
}
SECOND_PAGE = ("classes", "global", "robustness", "typicality", "speed")
_GNN_COLUMNS = {
    "dataset": "data set",
    "test_accuracy": "test accuracy",
    "paper": "paper",
    "validation_accuracy": "validation accuracy",
    "train_graphs": "train size",
    "test_graphs": "test size",
    "train_count": "train size",
    "test_count": "test size",
    "parameters": "parameters",
    "epochs": "epochs",
    "seconds": "training s",
}
_SUMMARY_COLUMNS = {
    "dataset": "data set",
    "n": "instances",
    "auc_d4": "AUC `d4`",
    "auc_greedy": "AUC `greedy`",
    "auc_no_denoiser": "AUC without denoiser",
    "edits_d4": "edits `d4`",
    "edits_greedy": "edits `greedy`",
    "mmd_ratio": "excess MMD, `d4` / `greedy`",
    "evaluations_ratio": "GNN evaluations, without denoiser / `d4`",
    "cpu_seconds": "CPU s per instance",
    "reached": "targets reached",
    "missed_count": "missed",
    "post_hoc_count": "post hoc",
}
_COUNTERFACTUAL_COLUMNS = {
    "dataset": "data set",
    "n": "instances",
    "ceiling": "ceiling",
    "auc_possible": "best possible",
    "auc_strict": "AUC strict",
    "auc_one_edit": "AUC one-edit",
    "paper": "AUC paper",
    "fidelity_auc": "fidelity AUC of flips",
    "mean_ratio": "mean ratio",
    "flip_rate_005": "flips ≤ 0.05",
    "flip_rate_01": "flips ≤ 0.1",
    "flip_rate": "flips ≤ 0.3",
    "alternatives3": "≥ 3 alternatives",
    "share_not_minimal": "not minimal",
    "mmd_sum": "MMD to input",
    "mmd_floor": "MMD floor",
    "train_seconds": "training s",
}
_METHOD_TABLES = {
    "auc_strict": "AUC strict by method",
    "mmd_heldout": "Held-out MMD by method",
    "gnn_evaluations": "GNN evaluations per instance by method",
}
_PAPER_COLUMNS = {
    "dataset": "data set",
    "network": "network",
    "steps": "steps",
    "epochs": "epochs",
    "cpu_seconds": "training CPU s",
    "n": "instances",
    "auc_strict one_sample": "strict: one sample",
    "auc_strict sample": "strict: 100 samples",
    "auc_strict scattered": "strict: scattered",
    "auc_strict threshold": "strict: threshold",
    "auc_strict ranked": "strict: ranked",
    "auc_one_edit one_sample": "one-edit: one sample",
    "auc_one_edit sample": "one-edit: 100 samples",
    "auc_one_edit scattered": "one-edit: scattered",
    "auc_one_edit threshold": "one-edit: threshold",
    "auc_one_edit ranked": "one-edit: ranked",
    "ceiling": "ceiling",
    "paper": "AUC paper",
}
_SIZE_COLUMNS = {
    "dataset": "data set",
    "hidden": "hidden",
    "blocks": "layers",
    "batch_graphs": "batch",
    "alpha": "alpha",
    "seconds_per_step": "CPU s per step",
    "hours": "CPU hours of the printed epochs",
    "remark": "remark",
}
_TYPICALITY_COLUMNS = {
    "dataset": "data set",
    "calibration": "calibration graphs",
    "ranked": "third part",
    "uniform": "splits with p ≥ .05",
    "uniform_share": "of further splits",
    "median_p": "median p",
    "smallest_p": "smallest p",
    "auc_1": "AUC, 1 % edits",
    "auc_2": "2 %",
    "auc_10": "10 %",
    "low": "flagged, unedited",
    "detected_1": "flagged, 1 % edits",
    "detected_2": "2 %",
    "detected_10": "10 %",
}


def results_page(
    results: Results,
    verdicts: Sequence[Verdict],
    missed: set[TargetKey],
    plots: Mapping[str, Sequence[Path]],
    introduction: str,
) -> str:
    """The first page: the summary, and what is measured on counterfactuals."""
    sections = ["# Benchmarks\n\n", introduction, *_unmeasured(results)]
    if verdicts:
        sections += ["\n## Summary\n", *_summary(results, verdicts, missed)]
    first = [command for command in COMMANDS if command not in SECOND_PAGE]
    return "".join(sections) + _sections(first, results, verdicts, missed, plots)


def second_page(
    results: Results,
    verdicts: Sequence[Verdict],
    missed: set[TargetKey],
    plots: Mapping[str, Sequence[Path]],
    first_page: str,
) -> str:
    """The page with all other measurements."""
    introduction = (
        "# Benchmarks of classes, robustness, typicality and speed\n\n"
        f"[The first page]({first_page}) has the summary, the counterfactuals and what the marks "
        "mean.\n"
    )
    return introduction + _sections(SECOND_PAGE, results, verdicts, missed, plots)


def _sections(
    commands: Sequence[str],
    results: Results,
    verdicts: Sequence[Verdict],
    missed: set[TargetKey],
    plots: Mapping[str, Sequence[Path]],
) -> str:
    sections: list[str] = []
    for command in commands:
        if results.rows(command) and command in _TABLES:
            command_verdicts = [verdict for verdict in verdicts if verdict.command == command]
            sections.append(f"\n## {TITLES[command]}\n")
            sections += _TABLES[command](results)
            sections += [f"\n![{TITLES[command]}]({file.as_posix()})\n" for file in plots[command]]
            if command_verdicts:
                sections.append(f"\n### Verdicts: {count_verdicts(command_verdicts)}\n")
                sections.append(verdict_table(command_verdicts, missed))
    return "".join(sections)


def _unmeasured(results: Results) -> list[str]:
    names = [TITLES[command].lower() for command in COMMANDS if not results.rows(command)]
    return [f"\nNo saved results for: {', '.join(names)}.\n"] if names else []


def _summary(
    results: Results, verdicts: Sequence[Verdict], missed: set[TargetKey]
) -> Iterable[str]:
    datasets = [
        {
            **_headline(results, dataset),
            **_counts([one for one in verdicts if one.dataset == dataset], missed),
        }
        for dataset in results.datasets("counterfactual")
    ]
    if datasets:
        yield table(datasets, _SUMMARY_COLUMNS)
    sections: list[dict[str, Any]] = [
        {
            "section": TITLES[command],
            **_counts([one for one in verdicts if one.command == command], missed),
        }
        for command in COMMANDS
        if any(one.command == command for one in verdicts)
    ]
    sections.append({"section": "**all**", **_counts(verdicts, missed)})
    yield table(
        sections,
        {
            "section": "section",
            "reached": "targets reached",
            "missed_count": "missed",
            "undecided": "undecided",
            "post_hoc_count": "post hoc",
        },
    )


def _headline(results: Results, dataset: str) -> dict[str, Any]:
    """The counterfactual figures of a data set that matter most."""
    ours, greedy, without = (
        results.row("counterfactual", dataset=dataset, method=method) or {}
        for method in ("d4", "greedy", "d4_no_denoiser")
    )
    our_excess, greedy_excess = (
        excess_mmd(row) if row.get("mmd_floor") is not None else None for row in (ours, greedy)
    )
    return {
        "dataset": dataset,
        "n": ours.get("n"),
        "auc_d4": ours.get("auc_strict"),
        "auc_greedy": greedy.get("auc_strict"),
        "auc_no_denoiser": without.get("auc_strict"),
        "edits_d4": ours.get("mean_edits"),
        "edits_greedy": greedy.get("mean_edits"),
        "mmd_ratio": _ratio(our_excess, greedy_excess),
        "evaluations_ratio": _ratio(without.get("gnn_evaluations"), ours.get("gnn_evaluations")),
        "cpu_seconds": ours.get("cpu_seconds"),
    }


def _ratio(numerator: float | None, denominator: float | None) -> str | None:
    return None if numerator is None or not denominator else f"{numerator / denominator:.2f}"


def _counts(verdicts: Sequence[Verdict], missed: set[TargetKey]) -> dict[str, int]:
    outcomes = [verdict.reached for verdict in verdicts]
    return {
        "reached": outcomes.count(True),
        "missed_count": outcomes.count(False),
        "undecided": outcomes.count(None),
        "post_hoc_count": sum(is_post_hoc(verdict, missed) for verdict in verdicts),
    }


def _gnn_tables(results: Results) -> list[str]:
    rows = [
        {**row, "paper": row.get("paper_accuracy", GNN_ACCURACY.get(row["dataset"]))}
        for row in results.rows("gnns")
    ]
    return [table(rows, _GNN_COLUMNS)]


def _counterfactual_tables(results: Results) -> list[str]:
    rows = results.rows("counterfactual")
    ours = [
        {**row, "paper": CF_ACC_AUC.get(row["dataset"])} for row in rows if row["method"] == "d4"
    ]
    tables = ["\nResults of `d4`:\n", table(ours, _COUNTERFACTUAL_COLUMNS)] if ours else []
    methods = list(dict.fromkeys(row["method"] for row in rows))
    columns = {"dataset": "data set", **{method: f"`{method}`" for method in methods}}
    for key, title in _METHOD_TABLES.items():
        lines = [
            {
                "dataset": dataset,
                **{row["method"]: row.get(key) for row in results.rows("counterfactual", dataset)},
            }
            for dataset in results.datasets("counterfactual")
        ]
        tables += [f"\n{title}:\n", table(lines, columns)]
    return [*tables, "\nWhat the denoiser costs and saves:\n", cost_table(results)]


def _paper_tables(results: Results) -> list[str]:
    """The last point of each training; the ways to decide edges stand side by side."""
    lines = []
    for dataset in results.datasets("paper"):
        rows = results.rows("paper", dataset)
        last = max(rows, key=lambda row: float(row["steps"]))
        network = f"hidden {last['hidden']}, {last['blocks']} layers"
        line = {**last, "network": network, "paper": CF_ACC_AUC.get(dataset)}
        for row in rows:
            if row["steps"] == last["steps"]:
                for figure in ("auc_strict", "auc_one_edit"):
                    line[f"{figure} {row['sampling']}"] = row[figure]
        lines.append(line)
    return [table(lines, _PAPER_COLUMNS)]


def size_table(results: Results) -> str:
    """All timed networks; `benchmark-methods.md` shows it."""
    rows = [
        {
            **row,
            "hours": 1500 * row["steps_per_epoch"] * row["seconds_per_step"] / 3600,
            "remark": ", ".join(word for word in ("printed", "chosen") if row[word]),
        }
        for row in results.rows("paper_sizes")
    ]
    return table(rows, _SIZE_COLUMNS)


def _robustness_tables(results: Results) -> list[str]:
    lines: list[dict[str, Any]] = []
    noises = sorted({row["noise"] for row in results.rows("robustness")})
    for dataset in results.datasets("robustness"):
        rows = results.rows("robustness", dataset)
        for method in dict.fromkeys(row["method"] for row in rows):
            method_rows = [row for row in rows if row["method"] == method]
            flips = [row["flips"] for row in method_rows if row.get("flips") is not None]
            lines.append(
                {
                    "dataset": dataset,
                    "method": f"`{method}`",
                    **{str(row["noise"]): row["top_k_accuracy"] for row in method_rows},
                    "flips": sum(flips) / len(flips) if flips else None,
                }
            )
        unchanged = {str(row["noise"]): row["kept"] for row in rows}
        lines.append({"dataset": dataset, "method": "share with unchanged class", **unchanged})
    columns = {"dataset": "data set", "method": "method"}
    columns |= {str(noise): f"{noise:.0%} noise" for noise in noises}
    first = results.rows("robustness")[0]
    caption = (
        f"\nTop-{first['k']} accuracy at modification ratio {first['ratio']:g}; {first['n']} "
        f"graphs per data set, {first['seeds']} noisy versions of each.\n"
    )
    return [caption, table(lines, columns | {"flips": "explanations that flip the GNN"})]


def _typicality_tables(results: Results) -> list[str]:
    rows = [
        {**row, "uniform": f"{row['uniform_splits']} of {row['splits']}"}
        for row in results.rows("typicality")
    ]
    return [table(rows, _TYPICALITY_COLUMNS)]


def _global_tables(results: Results) -> list[str]:
    rows = [
        {**row, "gcf": GLOBAL_COVERAGE.get(row["dataset"]), "first": row["curve"][0]}
        for row in results.rows("global")
        if row["curve"]
    ]
    return [table(rows, GLOBAL_COLUMNS)]


def _speed_tables(results: Results) -> list[str]:
    """The first table of each speed benchmark; the others stay in the JSON."""
    tables = []
    for row in results.rows("speed"):
        name = f"**{row['dataset']}**{' (short run)' if row.get('short') else ''}"
        for saved in row.get("tables", ())[:1]:
            keys = ["figure", *map(str, range(1, len(saved["columns"])))]
            lines = [dict(zip(keys, map(format_cell, line), strict=True)) for line in saved["rows"]]
            columns = dict(zip(keys, saved["columns"], strict=True))
            tables += [f"\n{name}: {saved['title']}:\n", table(lines, columns)]
    return tables


_TABLES = {
    "gnns": _gnn_tables,
    "counterfactual": _counterfactual_tables,
    "believable": believability_tables,
    "sanity": lambda results: [sanity_table(results.rows("sanity"))],
    "explainers": explainer_tables,
    "paper": _paper_tables,
    "classes": class_tables,
    "robustness": _robustness_tables,
    "typicality": _typicality_tables,
    "global": _global_tables,
    "speed": _speed_tables,
}
