"""The audit report of an evaluation, as a page and as data."""

from __future__ import annotations

import json
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse, Response

from service import examples
from service.context import ContextOf
from service.http.openapi import problem_responses, schema_of
from service.http.principals import Reader
from service.http.responses import json_response
from service.reports.audit.document import AuditReport
from service.reports.audit.figures import as_csv
from service.reports.audit.html_page import html_page
from service.reports.audit.model_card import MEDIA_TYPE, model_card
from service.reports.audit.pdf_file import pdf_file
from service.reports.audit.report import audit_report
from service.reports.audit.subject import read_subject
from service.reports.embed_errors import POLICY
from service.submission.resource_ids import checked_id
from store.store import Store

router = APIRouter(tags=["evaluations"])

_PDF = "application/pdf"
_HEADERS = {"Content-Security-Policy": f"{POLICY}frame-ancestors 'self'"}


class ReportFormat(StrEnum):
    HTML = "html"
    JSON = "json"
    CSV = "csv"
    PDF = "pdf"
    CYCLONEDX = "cyclonedx"


class ReportQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: ReportFormat = Field(
        ReportFormat.HTML,
        description="`json`: the content. `csv`: the figures. `pdf` needs the extra `pdf`. "
        "`cyclonedx`: a CycloneDX model card.",
    )
    purpose: Annotated[str, Field(min_length=1, max_length=2000)] | None = Field(
        None,
        description="What the GNN is for. Without it, the metadata `intended_purpose` of the "
        "evaluation or the GNN; the report says who stated it, or that nobody did.",
    )
    comparison: str | None = Field(
        None, max_length=64, description="Id of a comparison of this evaluation to include."
    )


@router.get(
    "/v1/evaluations/{evaluation_id}/report",
    summary="The audit report of an evaluation",
    description="One HTML file without scripts and foreign files: purpose, hashes, decisions, "
    "examples, edits, evidence, slices with intervals, methods, limits, a place to sign, the "
    "receipt and how long it is kept. 409 before the evaluation has succeeded.",
    responses={
        200: {
            "description": "The report, its content or its figures.",
            "content": {
                "text/html": {"schema": {"type": "string"}, "example": examples.REPORT},
                "application/json": {
                    "schema": schema_of(AuditReport),
                    "example": examples.AUDIT_REPORT,
                },
                "text/csv": {"schema": {"type": "string"}, "example": examples.AUDIT_CSV},
                _PDF: {"schema": {"type": "string", "format": "binary"}, "example": "%PDF-1.4…"},
                MEDIA_TYPE: {"schema": {"type": "object"}, "example": examples.MODEL_CARD},
            },
        },
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.NOT_IMPLEMENTED),
    },
)
async def get_evaluation_report(
    context: ContextOf,
    principal: Reader,
    evaluation_id: str,
    query: Annotated[ReportQuery, Query()],
) -> Response:
    checked_id("evaluation", evaluation_id)
    return await to_thread.run_sync(
        _written,
        context.store,
        principal.tenant,
        evaluation_id,
        query,
        limiter=context.report_threads,
    )


def _written(store: Store, tenant: str, evaluation_id: str, query: ReportQuery) -> Response:
    subject = read_subject(
        store, tenant, evaluation_id, purpose=query.purpose, comparison_id=query.comparison
    )
    report = audit_report(subject)
    name = {"Content-Disposition": f'attachment; filename="{evaluation_id}-report.{query.format}"'}
    if query.format is ReportFormat.JSON:
        return json_response(report)
    if query.format is ReportFormat.PDF:
        return Response(pdf_file(report), media_type=_PDF, headers=name)
    if query.format is ReportFormat.CYCLONEDX:
        text = json.dumps(model_card(subject, report), ensure_ascii=False, allow_nan=False)
        return Response(text, media_type=MEDIA_TYPE)
    if query.format is ReportFormat.CSV:
        return Response(as_csv(report.figures), media_type="text/csv", headers=name)
    return HTMLResponse(html_page(report), headers=_HEADERS)
