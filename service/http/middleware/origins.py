"""Rejects requests from web pages of other sites, unless the deployment lists them.

A page in the user's browser can send requests to loopback, where an API without keys trusts every
client. The browser names the page in `Origin`. DNS rebinding, a foreign host name that resolves to
loopback, shows in `Host`.
"""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from d4explain.contracts.errors import quoted
from service.http.problems import problem

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_WILDCARD_ADDRESSES = frozenset({"0.0.0.0", "::"})  # listen addresses, not host names
ANY_HOST = "*"


def allowed_hosts(setting: str, bound_to: str) -> frozenset[str]:
    """Host names that the API accepts: loopback, the address it is bound to, and the setting's.

    Listening on every address does not allow every name: DNS rebinding would work behind a
    published port. Only `*` allows every name.
    """
    configured = frozenset(name.strip().lower() for name in setting.split(",") if name.strip())
    return _LOOPBACK | configured | ({bound_to.lower()} - _WILDCARD_ADDRESSES)


def allowed_origins(setting: str) -> list[str]:
    """The sites whose pages may use the API, as browsers name them."""
    return [origin.strip().lower().rstrip("/") for origin in setting.split(",") if origin.strip()]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on this address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_from_another_site(headers: Headers) -> bool:
    """Whether a page of another site sent the request; its browser says so in `Origin`."""
    origin = headers.get("origin")
    return origin is not None and _host_and_port(origin) != headers.get("host", "").lower()


class OriginCheck:
    """Answers 403 if the Host is unknown or the Origin is another site."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: Collection[str] = ()) -> None:
        self.app = app
        self.hosts = hosts
        self.origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            rejection = self._rejection(headers)
            if rejection is not None:
                response = problem(HTTPStatus.FORBIDDEN, "foreign-origin", rejection)
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _rejection(self, headers: Headers) -> str | None:
        host, origin = headers.get("host", ""), headers.get("origin", "")
        name = _host_name(f"//{host}")
        if ANY_HOST not in self.hosts and name not in self.hosts:
            hint = f"add {quoted(name)} to" if name else "expected a loopback name or one of"
            return f"Unknown Host header {quoted(host)}; {hint} D4_ALLOWED_HOSTS."
        if is_from_another_site(headers) and origin.lower() not in self.origins:
            return (
                f"Origin header {quoted(origin)} is another site, which is not in "
                "D4_ALLOWED_ORIGINS."
            )
        return None


def _host_and_port(origin: str) -> str | None:
    """None for the origin `null` and for invalid URLs."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _host_name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
