"""The sections about what was found: decisions, evidence, slices and a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from service.reports.audit.document import (
    Block,
    Bullets,
    Paragraph,
    ReportFigure,
    Section,
    Table,
)
from service.reports.audit.figures import figure_table, of, shown, with_interval
from service.reports.audit.slices import SliceCounts
from service.reports.audit.subject import Subject
from service.reports.letters import percent, sentence

_LEARNED = {
    "true": "the labels of the reference set",
    "gnn": "the GNN's classes",
    None: "not known",
}
EVIDENCE_FIGURES = (
    *("brittle_share", "na", "nafr", "typicality_before", "typicality", "low_typicality_before"),
    *("low_typicality", "mmd_before", "mmd", "c2st", "robustness_before", "robustness"),
    "stability",
)


def summary(subject: Subject, figures: Sequence[ReportFigure]) -> list[str]:
    """The main findings, in plain words."""
    accuracy = of(figures, "accuracy")
    count = subject.result.instances
    if accuracy.value is None:
        lines = ["How often the GNN is right was not measured: the test set has no labels."]
    else:
        lines = [
            f"The GNN gives {_percent(accuracy)} of {accuracy.count} graphs the label of the test "
            "set."
        ]
    for one in subject.result.explainers:
        name = one.explainer
        text = (
            f"The explainer {name} found a change of edges that alters the GNN's class for "
            f"{_percent(of(figures, 'validity', name))} of {count} graphs; for "
            f"{_percent(of(figures, 'one_edit_share', name))} a single edit suffices."
        )
        brittle = of(figures, "brittle_share", name)
        if brittle.value is not None:
            text += (
                f" Of {brittle.count} changes that were judged, {_percent(brittle)} are brittle: "
                "at most half of the judges share them, so they say more about this GNN than about "
                "the data."
            )
        lines.append(text)
    lines.append(
        "This report states figures. It has no threshold, so it neither passes nor fails the GNN: "
        "a person decides."
    )
    return lines


def decisions(subject: Subject, figures: Sequence[ReportFigure], slices: SliceCounts) -> Section:
    accuracy = of(figures, "accuracy")
    predicted = {int(one): count for one, count in subject.result.predicted_classes.items()}
    total = sum(predicted.values())
    rows = []
    for number in sorted(predicted.keys() | slices.labels.keys()):
        labelled = str(slices.labels[number]) if slices.labels else "not known"
        share = percent(predicted.get(number, 0) / total)
        rows.append([subject.class_name(number), labelled, f"{predicted.get(number, 0)} ({share})"])
    unlabelled = total - sum(slices.labels.values())
    notes = [
        Paragraph(
            text="Class balance is that of these test graphs. It need not be that of the graphs on "
            "which the GNN is used."
        )
    ]
    if slices.labels and unlabelled:
        notes.append(Paragraph(text=f"{unlabelled} of {total} graphs have no label."))
    return Section(
        title="The decisions of the GNN",
        blocks=[
            figure_table("Is the GNN right?", [accuracy]),
            Table(
                title="Classes of the test graphs",
                header=["class", "graphs with this label", "graphs that the GNN gives this class"],
                rows=rows,
            ),
            *notes,
        ],
    )


def evidence(subject: Subject, figures: Sequence[ReportFigure]) -> Section:
    blocks: list[Block] = [
        Bullets(
            items=[
                "Judges are other networks, trained on the same data or named by the request. A "
                "change that most of them share is meaningful; one that at most half share is "
                "brittle.",
                "Typicality is the share of held-out reference graphs that are, for their size, no "
                "likelier than the graph: below 0.05 it is unusual. MMD compares the changed "
                "graphs with the reference set as a whole; the range beside it is what samples of "
                "the reference set itself give.",
            ]
        )
    ]
    judges = [
        [
            judge.gnn or judge.architecture or "",
            _LEARNED[judge.labels],
            "not known" if judge.agreement is None else percent(judge.agreement),
        ]
        for judge in subject.result.judges
    ]
    if judges:
        blocks.append(
            Table(
                title="Judges",
                header=["judge", "learned", "gives reference graphs the GNN's class"],
                rows=judges,
            )
        )
    if subject.result.unjudged_reason:
        blocks.append(Paragraph(text=sentence(subject.result.unjudged_reason)))
    for one in subject.result.explainers:
        name = one.explainer
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in one.verdicts.items())
        blocks.append(
            figure_table(
                f"Can the changes be trusted? {name}",
                [of(figures, f, name) for f in EVIDENCE_FIGURES],
            )
        )
        if verdicts:
            blocks.append(Paragraph(text=f"Verdicts of {name}: {verdicts}."))
    return Section(title="Validity, transfer, typicality, stability", blocks=blocks)


def by_slice(figures: Sequence[ReportFigure], slices: SliceCounts) -> Section:
    order = {place: position for position, place in enumerate(slices.slices())}
    sliced = sorted(
        (figure for figure in figures if figure.slice is not None),
        key=lambda figure: order[figure.slice or ""],
    )
    blocks: list[Block] = [
        Paragraph(
            text="Sizes are thirds of the test set by the number of edges. The intervals are "
            "Wilson's, which also hold for shares of 0 and 1. Many slices are compared here, so "
            "one that stands out may do so by chance."
        )
    ]
    for name in dict.fromkeys(figure.explainer for figure in sliced):
        mine = [figure for figure in sliced if figure.explainer == name]
        columns = list(dict.fromkeys(figure.figure for figure in mine))
        cells = {(f.slice, f.figure): f"{with_interval(f)}, n = {f.count}" for f in mine}
        blocks.append(
            Table(
                title="The GNN alone" if name is None else f"Changes by {name}",
                header=["slice", *columns],
                rows=[
                    [place, *(cells.get((place, column), "none") for column in columns)]
                    for place in dict.fromkeys(f.slice or "" for f in mine)
                ],
            )
        )
    return Section(title="By class and size", blocks=blocks)


def compared(subject: Subject) -> Section | None:
    if subject.comparison is None:
        return None
    result = subject.comparison.result
    side = "baseline" if subject.comparison.baseline == subject.evaluation else "candidate"
    noise = {
        "retraining": f"the spread of {result.trainings} trainings of the baseline",
        "instances": "which graphs were drawn; another training may differ as much",
    }[result.noise]
    rows = [
        [
            one.figure,
            shown(one.expected),
            shown(one.candidate),
            f"{shown(one.difference)} (candidate minus baseline: {shown(one.low)} to "
            f"{shown(one.high)})",
            f"{one.corrected_p_value:.2g}",
            "worse" if one.worse else "moved" if one.moved else "no",
            str(one.instances),
        ]
        for one in result.figures
    ]
    table = Table(
        title=f"{subject.comparison.id}: {subject.comparison.baseline} and "
        f"{subject.comparison.candidate}",
        header=["figure", "expected", "candidate", "difference", "corrected p", "moved?", "n"],
        rows=rows,
    )
    text = (
        f"The evaluation of this report is the {side}. Noise: {noise}. A figure moved if its "
        f"corrected p value (Holm) is below {result.alpha:g}. No movement found does not prove "
        "that there is none."
    )
    blocks: list[Block] = [Paragraph(text=text), table]
    if result.warnings:
        blocks.append(Bullets(items=[sentence(warning) for warning in result.warnings]))
    return Section(title="Comparison of versions", blocks=blocks)


def _percent(figure: ReportFigure) -> str:
    if figure.value is None or figure.low is None or figure.high is None:
        return "an unknown share"
    interval = f"95 % interval {percent(figure.low)} to {percent(figure.high)}"
    return f"{percent(figure.value)} ({interval})"
