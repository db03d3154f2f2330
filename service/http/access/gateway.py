"""Reads the headers that gateways add, only from gateways that the deployment trusts.

`X-Forwarded-For` names the client, `X-Forwarded-Proto` the scheme and `X-Forwarded-Host` the host.
Anybody can send these headers, so that limits per client would not hold if all were believed.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware


class GatewayHeaders:
    """Middleware; `trusted` lists addresses and networks, comma-separated."""

    def __init__(self, app: ASGIApp, trusted: str) -> None:
        # Takes the client and the scheme, and knows networks.
        self._app = ProxyHeadersMiddleware(app, trusted)  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _peer(scope) in self._app.trusted_hosts:
            host = Headers(scope=scope).get("x-forwarded-host", "").split(",")[-1].strip()
            if host:
                others = [(name, value) for name, value in scope["headers"] if name != b"host"]
                scope = {**scope, "headers": [(b"host", host.encode("latin-1")), *others]}
        await self._app(scope, receive, send)  # type: ignore[arg-type]


def _peer(scope: Scope) -> str | None:
    client = scope.get("client")
    return client[0] if client else None
