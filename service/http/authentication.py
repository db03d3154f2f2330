"""Requires an API key of every request, except those to open paths.

A deployment without any key serves everybody; the API then listens on loopback only.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.admission import client_of
from service.http.failed_keys import FailedKeys
from service.http.key_lookup import KeyLookup
from service.http.principals import ANYBODY, Principal, set_principal
from service.http.problems import on_outage, problem
from service.http.responses import retry_after
from store.database.sessions import OUTAGES

# They tell nothing about a tenant: health, the pages and the reference of the API.
PAGES = frozenset({"/", "/gnns", "/explanations", "/ask", "/docs"})
OPEN_PATHS = PAGES | {"/livez", "/readyz", "/openapi.json"}
OPEN_FOLDERS = ("/docs/", "/dashboard/", "/gnns/", "/explanations/", "/jobs/")
_SCHEME = "bearer"
_CHALLENGE = 'Bearer realm="d4explain"'


class Authentication:
    """Middleware that answers 401 unless the request has a valid key."""

    def __init__(self, app: ASGIApp, keys: KeyLookup, failures: FailedKeys) -> None:
        self.app = app
        self.keys = keys
        self.failures = failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_open(scope["path"]):
            try:
                outcome = await self._authenticate(scope)
            except OUTAGES as error:
                outcome = await on_outage(Request(scope), error)
            if isinstance(outcome, Response):
                await outcome(scope, receive, send)
                return
            set_principal(scope, outcome)
        await self.app(scope, receive, send)

    async def _authenticate(self, scope: Scope) -> Principal | Response:
        if not await self.keys.needs_keys():
            return ANYBODY
        scheme, _, text = Headers(scope=scope).get("authorization", "").partition(" ")
        text = text.strip()
        if scheme.lower() != _SCHEME or not text:
            return _unauthorized(
                "This API needs a key; send it as `Authorization: Bearer d4_…`.", _CHALLENGE
            )
        client = client_of(scope)
        wait = self.failures.seconds_until_next(client)
        # A key that worked before is not a guess: one client may not lock out another one behind
        # the same gateway.
        if wait > 0 and not self.keys.is_known(text):
            return problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too-many-wrong-keys",
                "This client sent too many wrong keys; wait before you send another one.",
                headers=retry_after(wait),
            )
        principal = await self.keys.principal(text)
        if principal is None:
            self.failures.note(client)
            return _unauthorized(
                "The key is unknown, expired or revoked.", f'{_CHALLENGE}, error="invalid_token"'
            )
        return principal


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDERS)


def _unauthorized(detail: str, challenge: str) -> Response:
    headers = {"WWW-Authenticate": challenge}
    return problem(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, headers=headers)
