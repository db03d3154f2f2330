"""Rejects requests from web pages of other sites: the API has no keys and trusts every client.

A page in the user's browser can send requests to loopback. The browser names the page in `Origin`.
DNS rebinding, a foreign host name that resolves to loopback, shows in `Host`.
"""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.problems import problem

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})  # listen addresses, not host names
ANY_HOST = "*"
_MOST_SHOWN = 100  # characters of a refused header


def hosts_of(allowed: str, bound_to: str) -> frozenset[str]:
    """Host names this API answers to: loopback, the address it is bound to, and those allowed.

    Listening on every address does not allow every name, or DNS rebinding would work behind a
    published port. Only `*` allows every name.
    """
    named = frozenset(name.strip().lower() for name in allowed.split(",") if name.strip())
    return _LOOPBACK | named | ({bound_to.lower()} - _EVERY_ADDRESS)


class OwnOrigin:
    """Answers 403 if the Host is unknown or the Origin is another site."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refusal = self._refusal(headers.get("host", ""), headers.get("origin"))
            if refusal is not None:
                answer = problem(HTTPStatus.FORBIDDEN, "foreign-origin", refusal)
                await answer(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _refusal(self, host: str, origin: str | None) -> str | None:
        name = _name(f"//{host}")
        if ANY_HOST not in self.hosts and name not in self.hosts:
            hint = (
                f"add {name[:_MOST_SHOWN]!r} to" if name else "expected a loopback name or one of"
            )
            return f"Unknown Host header {host[:_MOST_SHOWN]!r}; {hint} D4_ALLOWED_HOSTS."
        if origin is not None and _place(origin) != host.lower():
            return (
                f"Origin header {origin[:_MOST_SHOWN]!r} is another site; this API rejects "
                "requests from pages of other sites."
            )
        return None


def _place(origin: str) -> str | None:
    """Host and port of an origin; None for `null` and invalid URLs."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
