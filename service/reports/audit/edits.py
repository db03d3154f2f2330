"""The section about edits: how many it takes, which ones they are, and what they change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from d4explain.contracts.evaluations.results import ExplainerResult, RecurringEdit, TypedEdit
from service.reports.audit import plots
from service.reports.audit.document import (
    Block,
    Paragraph,
    Picture,
    ReportFigure,
    Section,
    Table,
)
from service.reports.audit.figures import figure_table, of
from service.reports.audit.provenance import not_searched
from service.reports.audit.subject import Subject

_SHOWN_RECURRING = 8
_FIGURES = (
    *("validity", "one_edit_share", "edits", "modification_ratio", "cf_acc_auc", "ceiling"),
    *("of_ceiling", "fidelity_auc", "fidelity", "connected", "diversity"),
)


def edits(subject: Subject, figures: Sequence[ReportFigure]) -> Section:
    blocks: list[Block] = [
        Paragraph(
            text="An edit adds or removes one edge. A change is a set of edits after which the GNN "
            "gives another class. Finding changes easily is not a merit of the GNN: it means that "
            "small differences decide."
        ),
        *_curves(subject),
    ]
    for one in subject.result.explainers:
        name = one.explainer
        blocks.append(
            figure_table(
                f"How many edits it takes: {name}", [of(figures, f, name) for f in _FIGURES]
            )
        )
        blocks += _pictures(subject, one)
    blocks.append(not_searched(subject.request))
    return Section(title="What changes the decisions", blocks=blocks)


def _curves(subject: Subject) -> Iterable[Picture]:
    explained = subject.result.explainers
    ratios = [point.ratio for point in explained[0].curve]
    least = 1 / np.maximum(subject.edge_counts, 1)
    bound = [(ratio, float((least <= ratio + 1e-12).mean())) for ratio in ratios]
    strict = [
        plots.Line(one.explainer, [(p.ratio, p.strict) for p in one.curve]) for one in explained
    ]
    fidelity = [
        plots.Line(one.explainer, [(p.ratio, p.fidelity) for p in one.curve]) for one in explained
    ]
    yield Picture(
        title="CF-ACC curve",
        text="Share of all graphs whose class is altered by edits up to a ratio of their edges. "
        "No explainer can be above the grey line: there, one edit would always suffice.",
        svg=plots.line_plot(
            [*strict, plots.Line("ceiling: one edit", bound, is_bound=True)],
            title="CF-ACC curve",
            x_label="edits over edges of the graph",
            y_label="share of graphs",
        ),
    )
    yield Picture(
        title="Fidelity curve",
        text="How much the probability of the old class falls, on average over all graphs. A graph "
        "without a change within the ratio counts as 0. It cannot be above the CF-ACC curve.",
        svg=plots.line_plot(
            fidelity,
            title="Fidelity curve",
            x_label="edits over edges of the graph",
            y_label="mean fidelity",
        ),
    )


def _pictures(subject: Subject, one: ExplainerResult) -> Iterable[Block]:
    if not one.edit_histogram:
        yield Paragraph(text=f"{one.explainer} found no change, so there is nothing to draw.")
        return
    counts = {int(edits): count for edits, count in one.edit_histogram.items()}
    yield Picture(
        title=f"Number of edits: {one.explainer}",
        text=f"Of the {sum(counts.values())} graphs for which a change was found.",
        svg=plots.histogram(
            counts, title=f"Number of edits by {one.explainer}", x_label="edits per change"
        ),
    )
    yield from _flip_matrix(subject, one)
    recurring = one.recurring_edits[:_SHOWN_RECURRING]
    if recurring:
        bars = [
            plots.Bar(_edit_name(each), each.share, each.base_share, each.instances)
            for each in recurring
        ]
        more = len(one.recurring_edits) - len(recurring)
        yield Picture(
            title=f"Edits that recur: {one.explainer}",
            text="Share of the changes that contain this edit, and their number. The orange mark "
            "is the share of such edges (or absent edges) in the data: an edit far above its mark "
            "is preferred, one near it is only frequent in the data."
            + (f" {more} more are in the JSON of the evaluation." if more else ""),
            svg=plots.shares_plot(bars, title=f"Recurring edits of {one.explainer}"),
        )


def _flip_matrix(subject: Subject, one: ExplainerResult) -> Iterable[Block]:
    classes = sorted({c for flip in one.flips for c in (flip.old_class, flip.new_class)})
    names = [subject.class_name(number) for number in classes]
    at = {number: place for place, number in enumerate(classes)}
    counts = {(at[flip.old_class], at[flip.new_class]): flip.count for flip in one.flips}
    title = f"Class before and after the change: {one.explainer}"
    drawn = plots.matrix(names, counts, title=title)
    if drawn is not None:
        text = "Number of graphs by the GNN's class before (row) and after (column)."
        yield Picture(title=title, text=text, svg=drawn)
        return
    rows = [
        [subject.class_name(flip.old_class), subject.class_name(flip.new_class), str(flip.count)]
        for flip in sorted(one.flips, key=lambda flip: -flip.count)
    ]
    yield Table(title=title, header=["before", "after", "graphs"], rows=rows)


def _edit_name(edit: RecurringEdit) -> str:
    joined = " and ".join(_typed(one) for one in edit.edits)
    return f"{joined}, at one {edit.shared_type}" if edit.shared_type else joined


def _typed(edit: TypedEdit) -> str:
    return f"{edit.action} {edit.types[0]}–{edit.types[1]}"  # noqa: RUF001
