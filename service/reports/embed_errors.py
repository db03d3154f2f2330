"""Errors in a frame: a person sees a sentence instead of JSON."""

from __future__ import annotations

import json
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.problems import MEDIA_TYPE
from service.reports.pages import error_page

EMBED = "/embed/explanations/"
# Pages have no scripts. Drawings have inline styles.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "


class EmbedErrors:
    """Middleware that answers the problems of embedded views as pages, if a browser asks."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(EMBED):
            await self.app(scope, receive, send)
            return
        if "text/html" not in Headers(scope=scope).get("accept", ""):
            await self.app(scope, receive, send)
            return
        await self.app(scope, receive, _ProblemPage(send))


class _ProblemPage:
    """Holds back the start of a problem until its body is known; passes everything else on."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: dict[str, Any] | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if Headers(scope=message).get("content-type", "").startswith(MEDIA_TYPE):
                self._start = dict(message)
                return
        elif self._start is not None:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)
            return
        await self._send(message)

    async def _finish(self, start: dict[str, Any]) -> None:
        problem = json.loads(self._body)
        page = error_page(problem["title"], problem["detail"]).encode()
        headers = MutableHeaders(scope=start)
        headers["Content-Type"] = "text/html; charset=utf-8"
        headers["Content-Length"] = str(len(page))
        headers["Content-Security-Policy"] = f"{POLICY}frame-ancestors *"
        await self._send(start)
        await self._send({"type": "http.response.body", "body": page})
