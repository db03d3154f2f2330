"""Limits the size, duration and memory of request bodies."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.middleware.admission import client_of
from service.http.problems import ProblemError, problem

_DRAIN_SECONDS = 10.0
_DRAIN_BYTES = 256 * 1024 * 1024
# Smaller bodies are not counted; the number of requests limits their total.
_UNCOUNTED_BYTES = 64 * 1024
_RELEASE_MEMORY = "d4explain.release_body_memory"


@dataclass(frozen=True)
class BodyDeadlines:
    """Time limits between two chunks of a body, and for the whole body."""

    idle_seconds: float = 10.0
    min_seconds: float = 20.0
    min_bytes_per_second: float = 256 * 1024

    def total_seconds(self, size: int) -> float:
        return self.min_seconds + size / self.min_bytes_per_second


class BodyMemory:
    """Limits the bytes that bodies hold in memory while they are received and parsed.

    A body that does not fit waits unread, so that its client stops sending. One client gets at most
    half; a larger body counts as half.
    """

    def __init__(self, total: int, timeout_seconds: float = 3.0) -> None:
        self._left = total
        self._share = total // 2
        self._timeout_seconds = timeout_seconds
        self._held: Counter[str] = Counter()
        self._waiting: deque[tuple[str, int, asyncio.Future[None]]] = deque()

    async def take(self, client: str, size: int) -> int | None:
        """The bytes to release later; None after the timeout."""
        weight = min(size, self._share)
        if not self._waiting and self._has_room(client, weight):
            self._hold(client, weight)
            return weight
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (client, weight, granted)
        self._waiting.append(entry)
        try:
            await asyncio.wait_for(asyncio.shield(granted), self._timeout_seconds)
        except BaseException as error:
            if granted.done():  # granted at the moment of the timeout
                if isinstance(error, TimeoutError):
                    return weight
                self.release(client, weight)
            else:
                self._waiting.remove(entry)
            if isinstance(error, TimeoutError):
                return None
            raise
        return weight

    def release(self, client: str, weight: int) -> None:
        self._left += weight
        self._held[client] -= weight
        if not self._held[client]:
            del self._held[client]
        for entry in list(self._waiting):
            waiting_client, waiting_weight, granted = entry
            if self._has_room(waiting_client, waiting_weight):
                self._waiting.remove(entry)
                self._hold(waiting_client, waiting_weight)
                granted.set_result(None)

    def _has_room(self, client: str, weight: int) -> bool:
        return weight <= self._left and self._held[client] + weight <= self._share

    def _hold(self, client: str, weight: int) -> None:
        self._left -= weight
        self._held[client] += weight


class BodyLimit:
    """Middleware that rejects bodies that are too large, too slow, or too many at once."""

    def __init__(
        self,
        app: ASGIApp,
        limit_for: Callable[[str], int],
        memory: BodyMemory,
        on_disk: frozenset[str] = frozenset(),  # paths whose bodies go to a file
        deadlines: BodyDeadlines | None = None,
    ) -> None:
        self.app = app
        self.limit_for = limit_for
        self.memory = memory
        self.on_disk = on_disk
        self.deadlines = deadlines or BodyDeadlines()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = self.limit_for(scope["path"])
        size = _declared_size(scope, limit)
        if size > limit:
            await _reject_and_drain(_too_large(size, limit), scope, receive, send)
            return
        limited = _LimitedReceive(receive, limit, size, self.deadlines)
        if size <= _UNCOUNTED_BYTES or scope["path"] in self.on_disk:
            await self.app(scope, limited, send)
            return
        client = client_of(scope)
        weight = await self.memory.take(client, size)
        if weight is None:
            await _reject_and_drain(_too_many(size), scope, receive, send)
            return
        is_held = True

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self.memory.release(client, weight)

        scope[_RELEASE_MEMORY] = release
        try:
            await self.app(scope, limited, send)
        finally:
            release()


def release_body_memory(request: Request) -> None:
    """Releases the body's memory before the request ends, since its body is no longer needed."""
    release = request.scope.get(_RELEASE_MEMORY)
    if release is not None:
        release()


class _LimitedReceive:
    """`receive` with a size and time limit for the body; later messages have no limit."""

    def __init__(self, receive: Receive, limit: int, size: int, deadlines: BodyDeadlines) -> None:
        self._receive = receive
        self._limit = limit
        self._deadlines = deadlines
        self._total_seconds = deadlines.total_seconds(size)
        self._deadline: float | None = None  # counts from the first read
        self._bytes = 0
        self._is_complete = False

    async def __call__(self) -> Message:
        if self._is_complete:
            return await self._receive()
        if self._deadline is None:
            self._deadline = time.monotonic() + self._total_seconds
        left = min(self._deadlines.idle_seconds, self._deadline - time.monotonic())
        try:
            message = await asyncio.wait_for(self._receive(), max(left, 0.0))
        except TimeoutError:
            raise _too_slow(self._bytes) from None
        self._is_complete = not message.get("more_body", False)
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._limit:
            raise _too_large(None, self._limit)
        return message


def _declared_size(scope: Scope, limit: int) -> int:
    """The Content-Length; a chunked body counts as the largest allowed."""
    headers = Headers(scope=scope)
    if "transfer-encoding" in headers:
        return limit
    declared = headers.get("content-length", "")
    return int(declared[:20]) if declared.isascii() and declared.isdigit() else 0


def _too_large(sent: int | None, limit: int) -> ProblemError:
    problem_text = "The body is too long" if sent is None else f"The body has {sent:,} bytes"
    return ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "body-too-large",
        f"{problem_text}; this address accepts at most {limit:,} bytes.",
        limit=limit,
    )


def _too_many(size: int) -> ProblemError:
    return ProblemError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "overloaded",
        f"The service is reading other large bodies and has no memory for {size:,} bytes. "
        "Try again in a moment.",
        headers={"Retry-After": "5"},
    )


def _too_slow(received: int) -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_TIMEOUT,
        "body-too-slow",
        f"The body stopped or was too slow; received {received:,} bytes.",
        headers={"Connection": "close"},
    )


async def _reject_and_drain(
    error: ProblemError, scope: Scope, receive: Receive, send: Send
) -> None:
    """Sends the problem, then keeps reading for a while.

    Closing while the client sends would reset the connection, and the client would not see the
    problem.
    """
    response = problem(
        error.status, error.slug, error.detail, (), error.headers, **error.extensions
    )
    response.headers["Connection"] = "close"
    await send(
        {"type": "http.response.start", "status": error.status, "headers": response.raw_headers}
    )
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    deadline = time.monotonic() + _DRAIN_SECONDS
    drained, more = 0, True
    while more and drained < _DRAIN_BYTES and (left := deadline - time.monotonic()) > 0:
        try:
            message = await asyncio.wait_for(receive(), left)
        except TimeoutError:
            break
        drained += len(message.get("body", b""))
        more = message["type"] == "http.request" and message.get("more_body", False)
    await send({"type": "http.response.body", "body": b"", "more_body": False})
