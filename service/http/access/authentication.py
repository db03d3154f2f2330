"""Requires an API key of every request, except those to open paths.

A browser may send the cookie of a session instead, and a link to an explanation has a token. A
deployment without any key serves everybody; the API then listens on loopback only.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.access.credentials import (
    CSRF_HEADER,
    Credential,
    CredentialKind,
    credential_of,
    has_csrf_token,
    opens,
)
from service.http.access.failed_keys import FailedKeys
from service.http.access.key_lookup import KeyLookup
from service.http.middleware.admission import client_of
from service.http.principals import ANYBODY, OPEN_FOLDERS, OPEN_PATHS, Principal, set_principal
from service.http.problems import on_outage, problem
from service.http.responses import retry_after
from store.database.sessions import OUTAGES

_CHALLENGE = 'Bearer realm="d4explain"'
_REFUSED = {
    CredentialKind.KEY: "The key is unknown, expired or revoked.",
    CredentialKind.SESSION: "The session has ended; log in again.",
    CredentialKind.LINK: "The link has expired or was removed.",
}


class Authentication:
    """Middleware that answers 401 unless the request has a valid key, session or link."""

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
            if outcome.explanation_id is not None:
                send = _for_other_sites(send)
        await self.app(scope, receive, send)

    async def _authenticate(self, scope: Scope) -> Principal | Response:
        credential = credential_of(scope)
        if not await self.keys.needs_keys():
            return await self._keyless(scope, credential)
        if credential is None:
            return _unauthorized(
                "This API needs a key; send it as `Authorization: Bearer d4_…`.", _CHALLENGE
            )
        client = client_of(scope)
        wait = self.failures.seconds_until_next(client)
        # A key that worked before is not a guess: one client may not lock out another one behind
        # the same gateway.
        if wait > 0 and not self.keys.is_known(credential.text):
            return problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too-many-wrong-keys",
                "This client sent too many wrong keys; wait before you send another one.",
                headers=retry_after(wait),
            )
        principal = await self.keys.principal(credential.text)
        if principal is None or _kind_of(principal) is not credential.kind:
            self.failures.note(client)
            return _unauthorized(_REFUSED[credential.kind], f'{_CHALLENGE}, error="invalid_token"')
        return _refusal(scope, credential, principal) or principal

    async def _keyless(self, scope: Scope, credential: Credential | None) -> Principal:
        """A valid link also counts where nothing needs a key: other sites show its image."""
        if credential is not None and credential.kind is CredentialKind.LINK:
            linked = await self.keys.principal(credential.text)
            if linked is not None and opens(scope, linked.explanation_id):
                return linked
        return ANYBODY


def _refusal(scope: Scope, credential: Credential, principal: Principal) -> Response | None:
    """Why a valid session or link does not allow this request."""
    if credential.kind is CredentialKind.LINK and not opens(scope, principal.explanation_id):
        detail = "This link opens one explanation, its answers and drawings, and nothing else."
        return problem(HTTPStatus.FORBIDDEN, "link-opens-one-explanation", detail)
    if credential.kind is CredentialKind.SESSION and not has_csrf_token(scope, credential.text):
        detail = f"A session needs the header {CSRF_HEADER} for this; GET /v1/session shows it."
        return problem(HTTPStatus.FORBIDDEN, "csrf-token", detail)
    return None


def _for_other_sites(send: Send) -> Send:
    """Lets pages of other sites show the response to a link as an image."""

    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Cross-Origin-Resource-Policy"] = "cross-origin"
        await send(message)

    return send_with_header


def _kind_of(principal: Principal) -> CredentialKind:
    if principal.session_id is not None:
        return CredentialKind.SESSION
    return CredentialKind.KEY if principal.explanation_id is None else CredentialKind.LINK


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDERS)


def _unauthorized(detail: str, challenge: str) -> Response:
    headers = {"WWW-Authenticate": challenge}
    return problem(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, headers=headers)
