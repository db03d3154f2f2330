"""API keys of a tenant, for its admins. The first key of a tenant is made on the database."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from d4explain.contracts.scopes import KeyState, Scope
from service import examples
from service.access_models import (
    KeyIn,
    KeyResource,
    NewKeyResource,
    RotationIn,
    key_resource,
    new_key_resource,
)
from service.context import ContextOf, run_in_thread
from service.http.bodies import json_body
from service.http.json_bodies import parse_model
from service.http.openapi import json_request, problem_responses, response
from service.http.pagination import METADATA_FILTER, ListQuery, converted_page, read_page
from service.http.principals import Admin, Principal
from service.http.responses import json_response, page_response
from service.resources import PageOf
from service.submission.resource_ids import checked_id
from store.access import api_keys
from store.database.sessions import read_clock
from store.errors import Conflict
from store.store import Store

router = APIRouter(tags=["keys"])

_SECONDS_PER_DAY = 86_400.0
_SECONDS_PER_HOUR = 3600.0


class KeysQuery(ListQuery):
    state: KeyState | None = None


@router.post(
    "/v1/keys",
    summary="Make an API key",
    description="A key of the tenant of the key that asks. The response is the only one with its "
    "text. A repeated request makes another key.",
    status_code=201,
    responses={
        201: response("The key with its text.", NewKeyResource, examples.NEW_KEY),
        **problem_responses(HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=json_request(KeyIn, {"for a dashboard": examples.KEY_IN}),
)
async def create_key(request: Request, context: ContextOf, principal: Admin) -> Response:
    body = await json_body(request)
    key = await run_in_thread(create, context.store, principal, body)
    return json_response(key, 201, {"Location": f"/v1/keys/{key.id}"})


@router.get(
    "/v1/keys",
    summary="List the keys of the tenant, newest first",
    responses={
        200: response("A page.", PageOf[KeyResource], examples.page(examples.KEY)),
        **problem_responses(),
    },
    openapi_extra={"parameters": [METADATA_FILTER]},
)
def list_keys(
    request: Request, context: ContextOf, principal: Admin, query: Annotated[KeysQuery, Query()]
) -> Response:
    with context.store.database.reading() as session:
        rows = read_page(
            lambda: api_keys.page(
                session,
                query.cursor,
                query.limit,
                tenant=principal.tenant,
                state=query.state,
                filters=query.filters,
            )
        )
        at = read_clock(session)
    page = converted_page(rows, lambda row: key_resource(row, at))
    return page_response(request, page, query.link_parameters())


@router.get(
    "/v1/keys/{key_id}",
    summary="One key without its text",
    responses={
        200: response("The key.", KeyResource, examples.KEY),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
)
def get_key(context: ContextOf, principal: Admin, key_id: str) -> Response:
    with context.store.database.reading() as session:
        row = api_keys.get(session, checked_id("key", key_id), principal.tenant)
        return json_response(key_resource(row, read_clock(session)))


@router.post(
    "/v1/keys/{key_id}/rotate",
    summary="Replace a key",
    description="Makes a key with the same name, scopes, metadata and lifetime. The old key works "
    "until the overlap has passed, so that clients can change over.",
    status_code=201,
    responses={
        201: response("The new key with its text.", NewKeyResource, examples.ROTATED_KEY),
        **problem_responses(
            HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        ),
    },
    openapi_extra=json_request(RotationIn, {"a day": {"overlap_hours": 24}}),
)
async def rotate_key(
    request: Request, context: ContextOf, principal: Admin, key_id: str
) -> Response:
    body = await json_body(request)
    key = await run_in_thread(
        rotate, context.store, principal.tenant, checked_id("key", key_id), body
    )
    return json_response(key, 201, {"Location": f"/v1/keys/{key.id}"})


@router.delete(
    "/v1/keys/{key_id}",
    summary="Revoke a key",
    description="It stops working within two seconds, and so do its sessions and links. It stays "
    "in the list.",
    status_code=204,
    responses={204: response("Revoked."), **problem_responses(HTTPStatus.NOT_FOUND)},
)
def revoke_key(context: ContextOf, principal: Admin, key_id: str) -> Response:
    with context.store.database.transaction() as session:
        api_keys.revoke(session, checked_id("key", key_id), principal.tenant)
    return Response(status_code=204)


def create(store: Store, principal: Principal, body: bytes) -> NewKeyResource:
    posted = parse_model(body, KeyIn)
    if principal.key_id is None:
        # Otherwise any program on this machine could lock out all others.
        raise Conflict(
            "this deployment has no keys; make the first one on its database with "
            "`python -m store keys create --name NAME`"
        )
    with store.database.transaction() as session:
        new = api_keys.create(
            session,
            tenant=principal.tenant,
            name=posted.name,
            scopes=[Scope(scope) for scope in posted.scopes],
            seconds=None if posted.days is None else posted.days * _SECONDS_PER_DAY,
            metadata=posted.metadata,
        )
        return new_key_resource(new, read_clock(session))


def rotate(store: Store, tenant: str, key_id: str, body: bytes) -> NewKeyResource:
    overlap = parse_model(body, RotationIn).overlap_hours * _SECONDS_PER_HOUR
    with store.database.transaction() as session:
        new = api_keys.rotate(session, key_id, tenant, overlap_seconds=overlap)
        return new_key_resource(new, read_clock(session))
