"""The figures of an evaluation with their meaning, for tables, CSV and model cards."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from d4explain.contracts.evaluations.requests import Metric
from d4explain.contracts.evaluations.results import (
    EvaluationResult,
    ExplainerResult,
    Figure,
    Interval,
)
from d4explain.contracts.results import Mmd
from service.reports.audit.document import ReportFigure, Table
from service.reports.audit.slices import Share, wilson


@dataclass(frozen=True)
class _Meaning:
    figure: str
    meaning: str
    metric: Metric | None = None  # that measures it; None: it is always measured


_HEADER = ["figure", "meaning", "value (95 % interval)", "n", "note"]
WILSON = "Wilson's interval"
# Of instances: each counts as 0 or 1.
_SHARES = frozenset(
    {"accuracy", "validity", "one_edit_share", "connected", "brittle_share"}
    | {"low_typicality", "low_typicality_before"}
)
ACCURACY = "share of graphs to which the GNN gives the label of the test set"
FIGURES = (
    _Meaning("validity", "share of graphs for which a change was found that alters the class"),
    _Meaning("one_edit_share", "share of graphs whose class one edit alters"),
    _Meaning("edits", "mean number of edits, where a change was found"),
    _Meaning("modification_ratio", "mean number of edits over edges of the graph"),
    _Meaning("cf_acc_auc", "area under the CF-ACC curve, 0 to 1; higher: fewer edits suffice"),
    _Meaning("ceiling", "the area that no explainer can exceed: one edit always suffices"),
    _Meaning("of_ceiling", "the area over its ceiling"),
    _Meaning("fidelity_auc", "area under the fidelity curve, 0 to 1"),
    _Meaning("fidelity", "mean fall of the probability of the old class, where a change was found"),
    _Meaning("connected", "share of changed graphs that are in one piece"),
    _Meaning("diversity", "how much the alternatives of one graph differ, 0 to 1"),
    _Meaning(
        "brittle_share", "share of judged changes that at most half of the judges share", "transfer"
    ),
    _Meaning("na", "of the changes, the share that a judge shares (mean over judges)", "transfer"),
    _Meaning("nafr", "of all graphs, the share with a change that a judge shares", "transfer"),
    _Meaning("typicality_before", "mean typicality of the original graphs, 0 to 1", "typicality"),
    _Meaning("typicality", "mean typicality of the changed graphs, 0 to 1", "typicality"),
    _Meaning("low_typicality_before", "share of original graphs below 0.05", "typicality"),
    _Meaning(
        "low_typicality", "share of changed graphs with a typicality below 0.05", "typicality"
    ),
    _Meaning("mmd", "MMD of the changed graphs to the reference set; lower: more alike", "mmd"),
    _Meaning("mmd_before", "MMD of the originals of these graphs to the reference set", "mmd"),
    _Meaning(
        "c2st",
        "AUC of a classifier that tells changed graphs from originals; 0.5: it cannot",
        "c2st",
    ),
    _Meaning(
        "robustness_before",
        "share of noisy copies of the original that keep its class",
        "robustness",
    ),
    _Meaning(
        "robustness",
        "share of noisy copies of the changed graph that keep the new class",
        "robustness",
    ),
    _Meaning("stability", "how alike the edits of other random seeds are, 0 to 1", "stability"),
    _Meaning("gnn_evaluations", "mean number of graphs that the GNN classified per explanation"),
    _Meaning("cpu_seconds", "mean CPU seconds per explanation; another run changes them"),
)
MEANINGS = {one.figure: one.meaning for one in FIGURES} | {"accuracy": ACCURACY}


def figures_of(result: EvaluationResult, shares: Iterable[Share]) -> list[ReportFigure]:
    figures = [_accuracy(result)]
    for one in result.explainers:
        figures += [_figure(meaning, one, result) for meaning in FIGURES]
    return figures + [_of_share(share) for share in shares]


def of(figures: Sequence[ReportFigure], name: str, explainer: str | None = None) -> ReportFigure:
    """A figure of the whole test set."""
    return next(
        one for one in figures if (one.figure, one.explainer, one.slice) == (name, explainer, None)
    )


def as_csv(figures: Iterable[ReportFigure]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(ReportFigure.model_fields), lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(figure.model_dump() for figure in figures)
    return text.getvalue()


def shown(value: float | None) -> str:
    """Two decimals, more for small values, none for large ones."""
    if value is None:
        return "not measured"
    if value != 0 and abs(value) < 0.1:
        return f"{value:.3f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def with_interval(figure: ReportFigure) -> str:
    """A value with its interval, for the cell of a table."""
    if figure.value is None or figure.low is None or figure.high is None:
        return shown(figure.value)
    interval = f"({shown(figure.low)} to {shown(figure.high)})".replace(" ", "\N{NO-BREAK SPACE}")
    return f"{shown(figure.value)} {interval}"


def figure_table(title: str, figures: Sequence[ReportFigure]) -> Table:
    rows = [
        [
            one.figure,
            one.meaning,
            with_interval(one),
            "" if one.count is None else str(one.count),
            one.note,
        ]
        for one in figures
    ]
    return Table(title=title, header=_HEADER, rows=rows)


def _accuracy(result: EvaluationResult) -> ReportFigure:
    if result.accuracy is None:
        return _unmeasured("accuracy", ACCURACY, None, "the test set has no labels")
    return _measured("accuracy", ACCURACY, None, result.accuracy)


def _figure(meaning: _Meaning, one: ExplainerResult, result: EvaluationResult) -> ReportFigure:
    name, text, explainer = meaning.figure, meaning.meaning, one.explainer
    value = getattr(one, name)
    if value is None:
        if meaning.metric is not None and meaning.metric not in result.metrics:
            reason = f"the evaluation did not ask for the metric {meaning.metric}"
        elif meaning.metric == "transfer":
            reason = result.unjudged_reason or "no change was judged"
        elif not one.validity.value:
            reason = "no change was found"
        else:
            reason = "the evaluation could not compute it; its warnings may say why"
        return _unmeasured(name, text, explainer, reason)
    if isinstance(value, Mmd):
        return _mmd(name, text, explainer, value)
    if isinstance(value, Interval):  # of shares of flips, or of all instances
        flips = sum(one.edit_histogram.values())
        count = flips if name == "na" else one.validity.count
        return _measured(name, text, explainer, value, count)
    if isinstance(value, float):
        return ReportFigure(
            figure=name,
            meaning=text,
            explainer=explainer,
            slice=None,
            value=value,
            low=None,
            high=None,
            count=one.validity.count,
            note="exact for these graphs",
        )
    if isinstance(value, Figure):
        return _measured(name, text, explainer, value)
    return ReportFigure(
        figure=name,
        meaning=text,
        explainer=explainer,
        slice=None,
        value=value.auc,
        low=value.low,
        high=value.high,
        count=value.pairs,
        note="pairs of graphs",
    )


def _mmd(name: str, text: str, explainer: str, value: Mmd) -> ReportFigure:
    low, high = value.null_quantiles.get("0.05"), value.null_quantiles.get("0.95")
    note = (
        f"samples of the reference set of the same size: {shown(low)} to {shown(high)} "
        f"(5 % to 95 %); p = {value.p_value:.2g}"
    )
    return ReportFigure(
        figure=name,
        meaning=text,
        explainer=explainer,
        slice=None,
        value=value.sum,
        low=None,
        high=None,
        count=value.graph_count,
        note=note,
    )


def _measured(
    name: str,
    text: str,
    explainer: str | None,
    value: Figure | Interval,
    count: int | None = None,
) -> ReportFigure:
    low, high, note = value.low, value.high, ""
    if isinstance(value, Figure):
        count = value.count
        if name in _SHARES and low == high and value.value in (0.0, 1.0):
            # All instances agree, so the bootstrap has no width, which would read as certainty.
            low, high = wilson(round(value.value * value.count), value.count)
            note = WILSON
    return ReportFigure(
        figure=name,
        meaning=text,
        explainer=explainer,
        slice=None,
        value=value.value,
        low=low,
        high=high,
        count=count,
        note=note,
    )


def _unmeasured(name: str, text: str, explainer: str | None, reason: str) -> ReportFigure:
    return ReportFigure(
        figure=name,
        meaning=text,
        explainer=explainer,
        slice=None,
        value=None,
        low=None,
        high=None,
        count=None,
        note=reason,
    )


def _of_share(share: Share) -> ReportFigure:
    low, high = share.interval or (None, None)
    return ReportFigure(
        figure=share.figure,
        meaning=MEANINGS[share.figure],
        explainer=share.explainer,
        slice=share.slice,
        value=share.value,
        low=low,
        high=high,
        count=share.count,
        note=WILSON,
    )
