"""The session of a browser: event streams and images cannot send a key, but a cookie."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import Response

from d4explain.contracts.scopes import TokenKind
from service import examples
from service.access_models import SessionResource, session_resource
from service.context import ContextOf, run_in_thread
from service.http.access.credentials import CSRF_COOKIE, cookie_name, csrf_token
from service.http.openapi import problem_responses, response
from service.http.principals import AnyKey, Principal
from service.http.responses import json_response
from store.access import api_keys, temporary_tokens
from store.access.temporary_tokens import NewToken
from store.errors import Conflict, NotFound
from store.store import Store

router = APIRouter(tags=["keys"])

SESSION_SECONDS = 12 * 3600


@router.post(
    "/v1/session",
    summary="Exchange a key for a session",
    description="Send the key as `Authorization: Bearer …`. The response sets a cookie that the "
    "scripts of the page cannot read and that browsers send to this site only. Requests that "
    "change something also need the header `X-CSRF-Token`, which is `csrf_token` and the cookie "
    "`d4_csrf`. A session ends after 12 hours, with "
    "its key, or by `DELETE`.",
    status_code=201,
    responses={
        201: response("Logged in.", SessionResource, examples.SESSION),
        **problem_responses(HTTPStatus.CONFLICT),
    },
)
async def log_in(request: Request, context: ContextOf, principal: AnyKey) -> Response:
    new = await run_in_thread(create, context.store, principal)
    resource = session_resource(principal, csrf_token(new.text), new.row.expires_at)
    answer = json_response(resource, 201)
    _set_cookies(request, answer, new.text, SESSION_SECONDS)
    return answer


@router.get(
    "/v1/session",
    summary="Who this request is",
    description="The tenant and the scopes of the key or session, and the session's `csrf_token`.",
    responses={
        200: response("The session, or the key.", SessionResource, examples.SESSION),
        **problem_responses(),
    },
)
async def get_session(request: Request, context: ContextOf, principal: AnyKey) -> Response:
    text = request.cookies.get(cookie_name(request.scope), "")
    token = csrf_token(text) if principal.session_id is not None else None
    expires_at = await run_in_thread(read_expiry, context.store, principal)
    return json_response(session_resource(principal, token, expires_at))


@router.delete(
    "/v1/session",
    summary="Log out",
    description="Ends the session and removes its cookie.",
    status_code=204,
    responses={
        204: response("Logged out."),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
)
async def log_out(request: Request, context: ContextOf, principal: AnyKey) -> Response:
    await run_in_thread(end, context.store, principal)
    context.keys.forget(request.cookies.get(cookie_name(request.scope), ""))
    answer = Response(status_code=204)
    _set_cookies(request, answer, "", 0)
    return answer


def create(store: Store, principal: Principal) -> NewToken:
    if principal.key_id is None:
        raise Conflict("this deployment has no keys, so that requests need no session")
    if principal.session_id is not None:
        raise Conflict("this request has a session already; send a key to start another one")
    with store.database.transaction() as session:
        return temporary_tokens.create(
            session,
            TokenKind.SESSION,
            tenant=principal.tenant,
            key_id=principal.key_id,
            seconds=SESSION_SECONDS,
        )


def read_expiry(store: Store, principal: Principal) -> float | None:
    """When the session or the key of a request ends."""
    if principal.key_id is None:
        return None
    with store.database.reading() as session:
        expiries = [api_keys.get(session, principal.key_id, principal.tenant).expires_at]
        if principal.session_id is not None:
            expiries.append(
                temporary_tokens.get(session, principal.session_id, principal.tenant).expires_at
            )
    return min((expiry for expiry in expiries if expiry is not None), default=None)


def end(store: Store, principal: Principal) -> None:
    if principal.session_id is None:
        raise NotFound("session", "", "this request has no session")
    with store.database.transaction() as session:
        temporary_tokens.end(session, principal.session_id, principal.tenant)


def _set_cookies(request: Request, answer: Response, text: str, seconds: int) -> None:
    """The session, and its CSRF token, which the scripts of a page of this site read and send."""
    token = csrf_token(text) if text else ""
    for name, value, is_hidden in (
        (cookie_name(request.scope), text, True),
        (CSRF_COOKIE, token, False),
    ):
        answer.set_cookie(
            name,
            value,
            max_age=seconds,
            path="/",
            secure=request.url.scheme == "https",
            httponly=is_hidden,
            samesite="strict",
        )
