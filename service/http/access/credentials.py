"""Reads the credential of a request: a key, the cookie of a session, or the token of a link."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from enum import Enum
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from service.http.middleware.origins import is_from_another_site

LINK_PARAMETER = "token"
SENT_QUERY = "d4explain.sent_query"  # of the ASGI scope: the query with the token of a link
CSRF_HEADER = "X-CSRF-Token"
CSRF_COOKIE = "d4_csrf"
_SCHEME = "bearer"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_LINKED = re.compile(
    r"/(?:v1|embed)/explanations/([a-z0-9_]{1,32})(?:/answers/[a-z]+|/report|/letter)?"
)


class CredentialKind(Enum):
    KEY = "key"
    SESSION = "session"
    LINK = "link"


@dataclass(frozen=True)
class Credential:
    kind: CredentialKind
    text: str


def credential_of(scope: Scope) -> Credential | None:
    """The key, else the session, else the link of a request.

    A session counts only for pages of this site: a cookie is sent without the page's doing.
    """
    headers = Headers(scope=scope)
    scheme, _, text = headers.get("authorization", "").partition(" ")
    if scheme.lower() == _SCHEME and text.strip():
        return Credential(CredentialKind.KEY, text.strip())
    session = cookie_parser(headers.get("cookie", "")).get(cookie_name(scope))
    if session and not is_from_another_site(headers):
        return Credential(CredentialKind.SESSION, session)
    if b"token=" in scope["query_string"]:
        return _take_link_token(scope)
    return None


def opens(scope: Scope, explanation_id: str | None) -> bool:
    """Whether a link to this explanation opens this request."""
    match = _LINKED.fullmatch(scope["path"])
    return (
        scope["method"] in _SAFE_METHODS and match is not None and match.group(1) == explanation_id
    )


def cookie_name(scope: Scope) -> str:
    """Browsers accept a `__Host-` cookie only over https, for this host and all its paths."""
    return "__Host-d4_session" if scope["scheme"] == "https" else "d4_session"


def csrf_token(session: str) -> str:
    """The token that proves that a page of this site sent a request; follows from the cookie."""
    return hmac.new(session.encode(), b"csrf", hashlib.sha256).hexdigest()


def has_csrf_token(scope: Scope, session: str) -> bool:
    """Whether the request is safe, or has the token of its session."""
    if scope["method"] in _SAFE_METHODS:
        return True
    sent = Headers(scope=scope).get(CSRF_HEADER, "")
    return hmac.compare_digest(sent.encode(), csrf_token(session).encode())


def _take_link_token(scope: Scope) -> Credential | None:
    """Takes the token out of the query, so that routes need not know it."""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    tokens = [value for name, value in query if name == LINK_PARAMETER]
    if len(tokens) != 1:
        return None
    scope[SENT_QUERY] = scope["query_string"]
    left = [(name, value) for name, value in query if name != LINK_PARAMETER]
    scope["query_string"] = urlencode(left).encode()
    return Credential(CredentialKind.LINK, tokens[0])
