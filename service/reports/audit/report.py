"""Writes the content of an audit report; `document.py` says what it consists of."""

from __future__ import annotations

from service.reports.audit import findings, provenance
from service.reports.audit.cases import RULE, CaseChoice, picture
from service.reports.audit.document import AuditReport, Paragraph, Section
from service.reports.audit.edits import edits
from service.reports.audit.figures import figures_of
from service.reports.audit.slices import SliceCounts
from service.reports.audit.subject import Subject

_MAX_SHOWN_EXPLAINERS = 4  # of which examples are drawn


def audit_report(subject: Subject) -> AuditReport:
    result = subject.result
    names = {int(number): subject.class_name(int(number)) for number in result.predicted_classes}
    slices = SliceCounts(subject.edge_counts, names)
    choices = {one.explainer: CaseChoice(one) for one in result.explainers[:_MAX_SHOWN_EXPLAINERS]}
    for row in subject.rows():
        slices.add(row)
        if row.explainer in choices:
            choices[row.explainer].add(row)
    figures = figures_of(result, slices.shares())
    sections = [
        provenance.purpose_and_data(subject),
        findings.decisions(subject, figures, slices),
        _examples(subject, choices),
        edits(subject, figures),
        findings.evidence(subject, figures),
        findings.by_slice(figures, slices),
        findings.compared(subject),
        provenance.methods_and_limits(subject),
        provenance.sign_off(),
        provenance.receipt(subject),
        provenance.retention(subject),
    ]
    return AuditReport(
        evaluation=subject.evaluation,
        title=f"Audit report of {subject.gnn_title}",
        evaluated_at=subject.evaluated_at,
        written_at=subject.read_at,
        result_sha256=subject.result_sha256,
        summary=findings.summary(subject, figures),
        sections=[section for section in sections if section is not None],
        figures=figures,
    )


def _examples(subject: Subject, choices: dict[str, CaseChoice]) -> Section:
    cases = [case for choice in choices.values() for case in choice.cases()]
    instances = sorted({case.row.instance for case in cases})
    graphs = dict(zip(instances, subject.graphs(instances), strict=True))
    pictures = [picture(case, graphs[case.row.instance], subject.names) for case in cases]
    rule = RULE
    left_out = [one.explainer for one in subject.result.explainers if one.explainer not in choices]
    if left_out:
        rule += f" Examples of {', '.join(left_out)} are not drawn; their rows are in the CSV."
    return Section(title="Examples in plain words", blocks=[Paragraph(text=rule), *pictures])
