"""The audit log: who did what, one chain of hashes per tenant."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from d4explain.contracts.receipts.envelopes import Envelope
from service import examples
from service.context import ContextOf
from service.http.openapi import problem_responses, response
from service.http.principals import Admin
from service.http.responses import json_response, next_link
from store.audit import chain
from store.database.clock import timestamp
from store.database.sessions import read_clock

router = APIRouter(tags=["audit"])

NDJSON = "application/x-ndjson"


class AuditQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    after: Annotated[
        int, Field(ge=0, lt=2**63, description="Position of the last entry that you have.")
    ] = 0
    limit: Annotated[int, Field(ge=1, le=5000, description="Most entries per page.")] = 1000


@router.get(
    "/v1/audit-log",
    summary="Export the audit log, oldest first",
    description="One entry per line: who changed what and when. Each `chain_sha256` is the hash of "
    "the entry and the one before, so a changed, removed or moved entry is noticed "
    "(`d4explain verify`). An entry appears here within seconds after its action. The Link header "
    "leads to the next page.",
    response_class=Response,
    responses={
        200: response("Entries.", example=examples.AUDIT_LINES, media_type=NDJSON),
        **problem_responses(),
    },
)
def export_audit_log(
    request: Request, context: ContextOf, principal: Admin, query: Annotated[AuditQuery, Query()]
) -> Response:
    with context.store.database.reading() as session:
        entries = chain.page(session, principal.tenant, query.after, query.limit)
    text = "".join(f"{entry.line()}\n" for entry in entries)
    headers = {}
    if len(entries) == query.limit:
        following = {"after": entries[-1].position, "limit": query.limit}
        headers = next_link(request, following)
    return Response(text, headers=headers, media_type=NDJSON)


@router.get(
    "/v1/audit-log/head",
    summary="The signed end of the audit log",
    description="Position and hash of the newest entry, in an envelope like that of a receipt. "
    "Keep it elsewhere: no later export may end before it.",
    responses={
        200: response("The envelope.", Envelope, examples.ENVELOPE),
        **problem_responses(),
    },
)
def get_audit_head(context: ContextOf, principal: Admin) -> Response:
    with context.store.database.reading() as session:
        head, now = chain.head(session, principal.tenant), read_clock(session)
    return json_response(context.signer.audit_head(head, timestamp(now)))
