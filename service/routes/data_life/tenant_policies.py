"""What a tenant may use, and how long its data is kept."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import Response

from service import examples
from service.context import ContextOf, run_in_thread
from service.http.bodies import json_body
from service.http.json_bodies import parse_model
from service.http.openapi import json_request, problem_responses, response
from service.http.principals import Admin, Reader
from service.http.responses import json_response
from service.resources import QuotaResource, QuotasResource, RetentionResource
from service.schemas import RetentionIn
from store.database import quotas
from store.retention import expiry
from store.store import Store

router = APIRouter(tags=["data life"])


@router.get(
    "/v1/quotas",
    summary="What the tenant may use, and what it uses",
    description="A request beyond a limit gets 429 `quota-exceeded` with `Retry-After`; its "
    "`quota` names the limit and the use. The operator sets the limits.",
    responses={
        200: response("Limits and use.", QuotasResource, examples.QUOTAS),
        **problem_responses(),
    },
)
def get_quotas(context: ContextOf, principal: Reader) -> Response:
    with context.store.database.reading() as session:
        limits = quotas.of_tenant(session, principal.tenant)
        used = quotas.usage_of(session, principal.tenant)
    return json_response(
        QuotasResource(
            jobs=QuotaResource(limit=limits.jobs or None, used=used.jobs),
            work_seconds=QuotaResource(limit=limits.work_seconds or None, used=used.work_seconds),
            stored_bytes=QuotaResource(limit=limits.stored_bytes or None, used=used.stored_bytes),
            requests_per_second=limits.requests_per_second or None,
        )
    )


@router.get(
    "/v1/retention",
    summary="How long the tenant's data is kept",
    responses={
        200: response("The times.", RetentionResource, examples.RETENTION),
        **problem_responses(),
    },
)
def get_retention(context: ContextOf, principal: Reader) -> Response:
    store = context.store
    with store.database.reading() as session:
        default = expiry.retention_of(store.settings)
        found = expiry.of_tenant(session, principal.tenant, default)
    return json_response(_resource(found))


@router.put(
    "/v1/retention",
    summary="Set how long the tenant's data is kept",
    description="Replaces all times. 0 keeps the resources; omitted or null means the "
    "deployment's time. Resources that are too old are deleted within about an hour, except those "
    "that something uses or that are on hold. GNNs are never deleted by age.",
    responses={
        200: response("The times.", RetentionResource, examples.RETENTION),
        **problem_responses(),
    },
    openapi_extra=json_request(RetentionIn, {"90 days": examples.RETENTION_IN}),
)
async def put_retention(request: Request, context: ContextOf, principal: Admin) -> Response:
    posted = parse_model(await json_body(request), RetentionIn)
    return json_response(await run_in_thread(_put, context.store, principal.tenant, posted))


def _put(store: Store, tenant: str, posted: RetentionIn) -> RetentionResource:
    default = expiry.retention_of(store.settings)
    with store.database.transaction() as session:
        days = posted.model_dump()
        return _resource(expiry.set_for_tenant(session, tenant, days, default))


def _resource(retention: expiry.Retention) -> RetentionResource:
    return RetentionResource(**{kind: days or None for kind, days in asdict(retention).items()})
