"""The audit report of an evaluation, as a page and as data."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from service import examples
from service.context import ContextOf
from service.http.openapi import problem_responses, schema_of
from service.http.principals import Reader
from service.reports.audit.document import CYCLONEDX_VERSION, AuditReport, ReportFormat
from service.reports.embed_errors import POLICY
from service.submission.resource_ids import checked_id
from store.store import Store

router = APIRouter(tags=["evaluations"])

_PDF = "application/pdf"
_CYCLONEDX = f"application/vnd.cyclonedx+json; version={CYCLONEDX_VERSION}"
_HEADERS = {"Content-Security-Policy": f"{POLICY}frame-ancestors 'self'"}


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
                _CYCLONEDX: {"schema": {"type": "object"}, "example": examples.MODEL_CARD},
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
    # Loaded for the first report: an API that writes none stays smaller.
    from service.reports.audit.files import report_file  # noqa: PLC0415

    content, media_type = report_file(
        store,
        tenant,
        evaluation_id,
        query.format,
        purpose=query.purpose,
        comparison_id=query.comparison,
    )
    headers = _HEADERS if query.format is ReportFormat.HTML else {}
    if query.format in (ReportFormat.CSV, ReportFormat.PDF):
        name = f"{evaluation_id}-report.{query.format}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, headers=headers, media_type=media_type)
