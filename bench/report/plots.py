"""Plots of the results; equal rows give equal bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report.paper_figures import CLASS_CONFIDENCE, GNN_ACCURACY
from bench.report.results_store import Row

_COLOURS = {
    "d4": "#0b6e4f",
    "d4_answers": "#6bbf9b",
    "d4_no_denoiser": "#3f7cac",
    "d4_paper": "#8f5db7",
    "greedy": "#c8553d",
    "greedy_delete": "#e09f3e",
    "gnnexplainer": "#3f7cac",
    "random": "#9a9a9a",
    "real_best20": "#3f7cac",
    "hill_climbing": "#e09f3e",
}
_OTHER = "#c9c9c9"
_COLUMNS = 3
_CURVE_END = 0.3
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
    figures = FIGURES.get(command)
    return figures is not None and _save(next(iter(figures.values())), rows, file)


def draw_all(command: str, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw every plot of the command as SVG, if the rows have its data."""
    files = []
    for name, figure in FIGURES.get(command, {}).items():
        file = folder / f"{name}.svg"
        if _save(figure, rows, file):
            files.append(file)
    return files


def _save(
    figure: Callable[[Sequence[Row]], Figure | None], rows: Sequence[Row], file: Path
) -> bool:
    with mpl.rc_context(_STYLE):
        drawn = figure(rows)
        if drawn is None:
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        # Omit metadata that differs between runs.
        metadata: dict[str, Any] = {"Date": None} if file.suffix == ".svg" else {"Software": None}
        drawn.savefig(file, metadata=metadata, dpi=120)
    return True


def _gnn_accuracy(rows: Sequence[Row]) -> Figure | None:
    if not rows:
        return None
    names = _names(rows, "dataset")
    figure, axes = _single(0.9 + 0.8 * len(names))
    for place, name in enumerate(names):
        row = next(row for row in rows if row["dataset"] == name)
        axes.bar(place - 0.2, row["test_accuracy"], 0.38, color=_COLOURS["d4"])
        if name in GNN_ACCURACY:
            axes.bar(place + 0.2, GNN_ACCURACY[name], 0.38, color=_OTHER)
    axes.bar(0, 0, color=_COLOURS["d4"], label="ours")
    axes.bar(0, 0, color=_OTHER, label="paper")
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set_ylabel("test accuracy")
    axes.set_ylim(0, 1.18)
    axes.legend(ncols=2, loc="upper right")
    return figure


def _cf_acc_curves(rows: Sequence[Row]) -> Figure | None:
    curves = [row for row in rows if row.get("curve")]

    def one(axes: Axes, dataset: str) -> None:
        for row in curves:
            if row["dataset"] == dataset:
                points = row["curve"]
                ratios = [_CURVE_END * place / (len(points) - 1) for place in range(len(points))]
                _line(axes, ratios, points, row["method"])
        axes.set_xlabel("modification ratio")
        axes.set_ylabel("CF-ACC")
        axes.set_ylim(-0.03, 1.03)

    return _multiples(_names(curves, "dataset"), one)


def _naturalness(rows: Sequence[Row]) -> Figure | None:
    known = [row for row in rows if row.get("mmd_heldout") is not None]

    def one(axes: Axes, dataset: str) -> None:
        for row in known:
            if row["dataset"] == dataset:
                colour = _COLOURS.get(row["method"], _OTHER)
                axes.scatter(
                    [row["mmd_heldout"]], [row["auc_strict"]], color=colour, s=18,
                    label=row["method"],
                )  # fmt: skip
        floor = next(row["mmd_floor"] for row in known if row["dataset"] == dataset)
        axes.axvline(floor, color=_OTHER, linewidth=0.8)
        axes.set_xlabel("MMD to held-out graphs (line: floor)")
        axes.set_ylabel("AUC strict")

    return _multiples(_names(known, "dataset"), one)


def _class_confidence(rows: Sequence[Row]) -> Figure | None:
    def one(axes: Axes, dataset: str) -> None:
        own = [row for row in rows if row["dataset"] == dataset]
        cases = list(dict.fromkeys((row["label"], row["nodes"]) for row in own))
        methods = _names(own, "method")
        width = 0.8 / len(methods)
        for shift, method in enumerate(methods):
            heights = [
                next(
                    (
                        row["confidence"]
                        for row in own
                        if (row["label"], row["nodes"], row["method"]) == (*case, method)
                    ),
                    0.0,
                )
                for case in cases
            ]
            places = [place + (shift + 0.5) * width - 0.4 for place in range(len(cases))]
            axes.bar(places, heights, width, color=_COLOURS.get(method, _OTHER), label=method)
        paper = CLASS_CONFIDENCE.get(dataset, {})
        for place, (_, nodes) in enumerate(cases):
            if nodes in paper:
                axes.hlines(paper[nodes], place - 0.45, place + 0.45, color="black", label="paper")
        ticks = [f"{label}, {nodes}" for label, nodes in cases]
        axes.set_xticks(range(len(cases)), ticks, rotation=40, ha="right")
        axes.set_xlabel("class, nodes")
        axes.set_ylabel("confidence")

    return _multiples(_names(rows, "dataset"), one)


def _robustness(rows: Sequence[Row]) -> Figure | None:
    known = [row for row in rows if row["top_k_accuracy"] is not None]

    def one(axes: Axes, dataset: str) -> None:
        own = [row for row in known if row["dataset"] == dataset]
        for method in _names(own, "method"):
            points = sorted(
                (row["noise"], row["top_k_accuracy"]) for row in own if row["method"] == method
            )
            _line(axes, [noise for noise, _ in points], [value for _, value in points], method)
        axes.set_xlabel("noise, share of the edges")
        axes.set_ylabel("Top-K accuracy")
        axes.set_ylim(-0.03, 1.03)

    return _multiples(_names(known, "dataset"), one)


FIGURES: dict[str, dict[str, Callable[[Sequence[Row]], Figure | None]]] = {
    "gnns": {"gnn-accuracy": _gnn_accuracy},
    "counterfactual": {"cf-acc-curves": _cf_acc_curves, "naturalness": _naturalness},
    "classes": {"class-confidence": _class_confidence},
    "robustness": {"robustness": _robustness},
}


def _multiples(names: Sequence[str], one: Callable[[Axes, str], None]) -> Figure | None:
    """One small plot per data set, with a shared legend."""
    if not names:
        return None
    columns = min(_COLUMNS, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(2.6 * columns + 1.4, 2.2 * lines), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False)
    labels: dict[str, Any] = {}
    for place, axes in enumerate(grid.flat):
        if place >= len(names):
            axes.set_axis_off()
            continue
        one(axes, names[place])
        axes.set_title(names[place], fontsize=9)
        handles, texts = axes.get_legend_handles_labels()
        labels |= dict(zip(texts, handles, strict=True))
    figure.legend(list(labels.values()), list(labels), loc="outside right upper")
    return figure


def _single(width: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, 2.4), layout="constrained")
    return figure, figure.subplots()


def _line(axes: Axes, x: Sequence[float], y: Sequence[float], method: str) -> None:
    is_ours = method == "d4"
    axes.plot(
        x,
        y,
        color=_COLOURS.get(method, _OTHER),
        linewidth=1.8 if is_ours else 1.0,
        zorder=3 if is_ours else 2,
        label=method,
    )


def _names(rows: Sequence[Row], key: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in rows))
