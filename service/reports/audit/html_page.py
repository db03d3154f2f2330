"""The audit report as one HTML file: everything inline, no script, nothing to load."""

from __future__ import annotations

from markupsafe import Markup

from service.reports.audit.document import AuditReport, minute
from service.reports.pages import TEMPLATES


def html_page(report: AuditReport) -> str:
    """The SVG comes from the service, so it is not escaped; every text is."""
    template = TEMPLATES.get_template("audit_report.html")
    return template.render(report=report, markup=Markup, minute=minute)
