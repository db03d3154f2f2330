"""Writes the audit report of an evaluation in one of its formats."""

from __future__ import annotations

import json

from service.reports.audit.document import CYCLONEDX_VERSION, ReportFormat
from service.reports.audit.figures import as_csv
from service.reports.audit.html_page import html_page
from service.reports.audit.model_card import model_card
from service.reports.audit.pdf_file import pdf_file
from service.reports.audit.report import audit_report
from service.reports.audit.subject import read_subject
from store.store import Store


def report_file(
    store: Store,
    tenant: str,
    evaluation_id: str,
    format_: ReportFormat,
    *,
    purpose: str | None,
    comparison_id: str | None,
) -> tuple[bytes, str]:
    """Content and media type."""
    subject = read_subject(
        store, tenant, evaluation_id, purpose=purpose, comparison_id=comparison_id
    )
    report = audit_report(subject)
    match format_:
        case ReportFormat.HTML:
            return html_page(report).encode(), "text/html"
        case ReportFormat.JSON:
            return report.model_dump_json().encode(), "application/json"
        case ReportFormat.CSV:
            return as_csv(report.figures).encode(), "text/csv"
        case ReportFormat.PDF:
            return pdf_file(report), "application/pdf"
        case ReportFormat.CYCLONEDX:
            card = json.dumps(model_card(subject, report), ensure_ascii=False, allow_nan=False)
            return card.encode(), f"application/vnd.cyclonedx+json; version={CYCLONEDX_VERSION}"
