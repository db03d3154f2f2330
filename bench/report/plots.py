"""Plots of the results; equal rows give equal bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report.paper_figures import CF_ACC_AUC, CLASS_CONFIDENCE, GNN_ACCURACY
from bench.report.results_store import Row

Plot = Callable[[Sequence[Row]], Figure | None]  # None if the rows lack its data

_COLOURS = {
    "d4": "#0b6e4f",
    "d4_answers": "#6bbf9b",
    "d4_no_denoiser": "#3f7cac",
    "d4_paper": "#8f5db7",
    "d4_paper_one_sample": "#d3c1e3",
    "d4_paper_threshold": "#b79ad1",
    "d4_paper_ranked": "#5d3a7e",
    "greedy": "#c8553d",
    "greedy_delete": "#e09f3e",
    "gnnexplainer": "#3f7cac",
    "random": "#9a9a9a",
    "mined": "#3f7cac",
}
_OTHER_COLOUR = "#c9c9c9"
_PANELS_PER_ROW = 3
_MAX_RATIO = 0.3  # end of the saved CF-ACC curves
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "d4explain",  # deterministic ids
    "svg.fonttype": "none",  # keep text as text: smaller and searchable
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def draw(command: str, rows: Sequence[Row], file: Path) -> bool:
    """Draw the command's first plot; False if there is nothing to draw."""
    plots = PLOTS.get(command)
    return plots is not None and _save(next(iter(plots.values())), rows, file)


def draw_all(command: str, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw every plot of the command as SVG, if the rows have its data."""
    files = []
    for name, plot in PLOTS.get(command, {}).items():
        file = folder / f"{name}.svg"
        if _save(plot, rows, file):
            files.append(file)
    return files


def _save(plot: Plot, rows: Sequence[Row], file: Path) -> bool:
    with mpl.rc_context(_STYLE):
        figure = plot(rows)
        if figure is None:
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        # Omit metadata that differs between runs.
        metadata: dict[str, Any] = {"Date": None} if file.suffix == ".svg" else {"Software": None}
        figure.savefig(file, metadata=metadata, dpi=120)
    return True


def _gnn_accuracy(rows: Sequence[Row]) -> Figure | None:
    if not rows:
        return None
    datasets = _distinct(rows, "dataset")
    figure = Figure(figsize=(0.9 + 0.8 * len(datasets), 2.4), layout="constrained")
    axes = figure.subplots()
    for position, dataset in enumerate(datasets):
        row = next(row for row in rows if row["dataset"] == dataset)
        axes.bar(position - 0.2, row["test_accuracy"], 0.38, color=_COLOURS["d4"])
        if dataset in GNN_ACCURACY:
            axes.bar(position + 0.2, GNN_ACCURACY[dataset], 0.38, color=_OTHER_COLOUR)
    axes.bar(0, 0, color=_COLOURS["d4"], label="ours")
    axes.bar(0, 0, color=_OTHER_COLOUR, label="paper")
    axes.set_xticks(range(len(datasets)), datasets, rotation=20, ha="right")
    axes.set_ylabel("test accuracy")
    axes.set_ylim(0, 1.18)
    axes.legend(ncols=2, loc="upper right")
    return figure


def _cf_acc_curves(rows: Sequence[Row]) -> Figure | None:
    rows_with_curve = [row for row in rows if row.get("curve")]

    def draw_dataset(axes: Axes, dataset: str) -> None:
        for row in rows_with_curve:
            if row["dataset"] == dataset:
                curve = row["curve"]
                ratios = [_MAX_RATIO * step / (len(curve) - 1) for step in range(len(curve))]
                _draw_line(axes, ratios, curve, row["method"])
        axes.set_xlabel("modification ratio")
        axes.set_ylabel("CF-ACC")
        axes.set_ylim(-0.03, 1.03)

    return _panels(_distinct(rows_with_curve, "dataset"), draw_dataset)


def _naturalness(rows: Sequence[Row]) -> Figure | None:
    rows_with_mmd = [row for row in rows if row.get("mmd_heldout") is not None]

    def draw_dataset(axes: Axes, dataset: str) -> None:
        for row in rows_with_mmd:
            if row["dataset"] == dataset:
                colour = _COLOURS.get(row["method"], _OTHER_COLOUR)
                axes.scatter(
                    [row["mmd_heldout"]], [row["auc_strict"]], color=colour, s=18,
                    label=row["method"],
                )  # fmt: skip
        floor = next(row["mmd_floor"] for row in rows_with_mmd if row["dataset"] == dataset)
        axes.axvline(floor, color=_OTHER_COLOUR, linewidth=0.8)
        axes.set_xlabel("MMD to held-out graphs (line: floor)")
        axes.set_ylabel("AUC strict")

    return _panels(_distinct(rows_with_mmd, "dataset"), draw_dataset)


def _paper_curve(rows: Sequence[Row]) -> Figure | None:
    def draw_dataset(axes: Axes, dataset: str) -> None:
        dataset_rows = [row for row in rows if row["dataset"] == dataset]
        for sampling in _distinct(dataset_rows, "sampling"):
            points = sorted(
                (row["steps"], row["auc_one_edit"])
                for row in dataset_rows
                if row["sampling"] == sampling
            )
            steps, areas = zip(*points, strict=True)
            axes.plot(steps, areas, marker="o", markersize=2.5, linewidth=1, label=sampling)
        if dataset in CF_ACC_AUC:
            axes.axhline(CF_ACC_AUC[dataset], color="black", linewidth=0.8, label="paper")
        axes.set_xlabel("training steps")
        axes.set_ylabel("AUC one-edit")
        axes.set_ylim(-0.03, 1.03)

    return _panels(_distinct(rows, "dataset"), draw_dataset)


def _class_confidence(rows: Sequence[Row]) -> Figure | None:
    def draw_dataset(axes: Axes, dataset: str) -> None:
        dataset_rows = [row for row in rows if row["dataset"] == dataset]
        cases = list(dict.fromkeys((row["label"], row["nodes"]) for row in dataset_rows))
        methods = _distinct(dataset_rows, "method")
        width = 0.8 / len(methods)
        for column, method in enumerate(methods):
            heights = [
                next(
                    (
                        row["confidence_alone"] or 0.0
                        for row in dataset_rows
                        if (row["label"], row["nodes"], row["method"]) == (*case, method)
                    ),
                    0.0,
                )
                for case in cases
            ]
            positions = [case + (column + 0.5) * width - 0.4 for case in range(len(cases))]
            colour = _COLOURS.get(method, _OTHER_COLOUR)
            axes.bar(positions, heights, width, color=colour, label=method)
        paper = CLASS_CONFIDENCE.get(dataset, {})
        for position, (_, nodes) in enumerate(cases):
            if nodes in paper:
                ends = (position - 0.45, position + 0.45)
                axes.hlines(paper[nodes], *ends, color="black", label="paper")
        ticks = [f"{label}, {nodes or 'chosen'}" for label, nodes in cases]
        axes.set_xticks(range(len(cases)), ticks, rotation=40, ha="right")
        axes.set_xlabel("class, nodes")
        axes.set_ylabel("confidence alone")

    return _panels(_distinct(rows, "dataset"), draw_dataset)


def _robustness(rows: Sequence[Row]) -> Figure | None:
    measured = [row for row in rows if row["top_k_accuracy"] is not None]

    def draw_dataset(axes: Axes, dataset: str) -> None:
        dataset_rows = [row for row in measured if row["dataset"] == dataset]
        for method in _distinct(dataset_rows, "method"):
            points = sorted(
                (row["noise"], row["top_k_accuracy"])
                for row in dataset_rows
                if row["method"] == method
            )
            noises, accuracies = zip(*points, strict=True)
            _draw_line(axes, noises, accuracies, method)
        axes.set_xlabel("noise, share of the edges")
        axes.set_ylabel("Top-K accuracy")
        axes.set_ylim(-0.03, 1.03)

    return _panels(_distinct(measured, "dataset"), draw_dataset)


PLOTS: dict[str, dict[str, Plot]] = {  # by command, then by file name
    "gnns": {"gnn-accuracy": _gnn_accuracy},
    "counterfactual": {"cf-acc-curves": _cf_acc_curves, "naturalness": _naturalness},
    "paper": {"paper-training": _paper_curve},
    "classes": {"class-confidence": _class_confidence},
    "robustness": {"robustness": _robustness},
}


def _panels(datasets: Sequence[str], draw_dataset: Callable[[Axes, str], None]) -> Figure | None:
    """One panel per data set, with a shared legend; None without data sets."""
    if not datasets:
        return None
    columns = min(_PANELS_PER_ROW, len(datasets))
    rows = math.ceil(len(datasets) / columns)
    figure = Figure(figsize=(2.6 * columns + 1.4, 2.2 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    handle_of: dict[str, Any] = {}
    for panel, axes in enumerate(grid.flat):
        if panel >= len(datasets):
            axes.set_axis_off()
            continue
        draw_dataset(axes, datasets[panel])
        axes.set_title(datasets[panel], fontsize=9)
        handles, labels = axes.get_legend_handles_labels()
        handle_of |= dict(zip(labels, handles, strict=True))
    figure.legend(list(handle_of.values()), list(handle_of), loc="outside right upper")
    return figure


def _draw_line(axes: Axes, x: Sequence[float], y: Sequence[float], method: str) -> None:
    is_ours = method == "d4"
    axes.plot(
        x,
        y,
        color=_COLOURS.get(method, _OTHER_COLOUR),
        linewidth=1.8 if is_ours else 1.0,
        zorder=3 if is_ours else 2,
        label=method,
    )


def _distinct(rows: Sequence[Row], key: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in rows))
