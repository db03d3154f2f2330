"""Outer limits: how large a body may be, how many requests run at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import ProblemError, problem

_DRAIN_SECONDS = 10.0
_DRAIN_BYTES = 256 * 1024 * 1024
_ALWAYS_OPEN = {"/livez", "/metrics"}


class BodyLimit:
    """Refuses bodies above the limit: by Content-Length at once, chunked ones while they arrive."""

    def __init__(self, app: ASGIApp, limit_for: Callable[[str], int]) -> None:
        self.app = app
        self.limit_for = limit_for

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = self.limit_for(scope["path"])
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:20]) > limit:
            await _refuse_and_drain(_too_large(int(declared[:20]), limit), scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise _too_large(None, limit)
            return message

        await self.app(scope, counted, send)


class ConcurrencyLimit:
    """Answers 503 at once instead of queueing without end; event streams count as well."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app = app
        self.most = most
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _ALWAYS_OPEN:
            await self.app(scope, receive, send)
            return
        if self.running >= self.most:
            detail = f"{self.most} requests are being served already; try again in a moment."
            refusal = problem(
                HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", detail, headers={"Retry-After": "1"}
            )
            await refusal(scope, receive, send)
            return
        self.running += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.running -= 1


def _too_large(sent: int | None, limit: int) -> ProblemError:
    said = f"The body has {sent:,} bytes" if sent is not None else "The body is longer"
    return ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "body-too-large",
        f"{said}; this address accepts at most {limit:,} bytes.",
        limit=limit,
    )


async def _refuse_and_drain(
    error: ProblemError, scope: Scope, receive: Receive, send: Send
) -> None:
    """Sends the refusal, then reads on for a while.

    A server that closes on a client in the middle of sending resets the connection, and the
    client never sees why.
    """
    response = problem(error.status, error.slug, error.detail, **error.members)
    response.headers["Connection"] = "close"
    await send(
        {"type": "http.response.start", "status": error.status, "headers": response.raw_headers}
    )
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    deadline = time.monotonic() + _DRAIN_SECONDS
    drained, more = 0, True
    while more and drained < _DRAIN_BYTES and time.monotonic() < deadline:
        message = await receive()
        drained += len(message.get("body", b""))
        more = message["type"] == "http.request" and message.get("more_body", False)
    await send({"type": "http.response.body", "body": b"", "more_body": False})
