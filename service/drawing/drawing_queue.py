"""Computes drawings in a few threads and caches them.

Requests for the same drawing share the work. Work is abandoned when all its clients have left.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from http import HTTPStatus

import anyio
import anyio.to_thread
from anyio import CancelScope, CapacityLimiter
from fastapi import Request
from starlette.requests import ClientDisconnect

from service.http.problems import ProblemError
from service.http.waiting import until_disconnected

# More threads would not help: drawing is mostly Python code, and one thread runs at a time.
_THREADS = 2
_MAX_WAITING = 64
_TIMEOUT_SECONDS = 8.0
_RETRY_AFTER_SECONDS = "5"
_CACHE_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Drawing:
    """One graph of a result in one format, not only SVG."""

    content: bytes
    media_type: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


class DrawingAbandoned(Exception):  # noqa: N818 - not an error
    """All clients have left; the computation ends."""


Check = Callable[[], None]  # raises `DrawingAbandoned` if the computation should end
Draw = Callable[[Check], Drawing]


@dataclass
class _Pending:
    """A drawing that is queued or being computed."""

    clients: int = 0
    drawing: Drawing | None = None
    error: Exception | None = None
    done: anyio.Event = field(default_factory=anyio.Event)
    scope: CancelScope = field(default_factory=CancelScope)
    abandoned: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        if self.abandoned.is_set():
            raise DrawingAbandoned

    def abandon(self) -> None:
        self.abandoned.set()
        self.scope.cancel()  # leaves the queue; `check` ends a running thread


class Drawings:
    """Draws in its own threads, so that other requests do not wait for drawings."""

    def __init__(
        self,
        threads: int = _THREADS,
        max_waiting: int = _MAX_WAITING,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        cache_bytes: int = _CACHE_BYTES,
    ) -> None:
        self._limiter = CapacityLimiter(threads)
        self._max_pending = threads + max_waiting
        self._timeout_seconds = timeout_seconds
        self._pending: dict[Hashable, _Pending] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._cache = _Cache(cache_bytes)

    async def get(self, key: Hashable, draw: Draw) -> Drawing:
        """The drawing `key` from the cache, or from a computation that requests share."""
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        pending = self._pending.get(key) or self._start(key, draw)
        pending.clients += 1
        try:
            with anyio.move_on_after(self._timeout_seconds):
                await pending.done.wait()
        finally:
            pending.clients -= 1
            if pending.clients == 0 and not pending.done.is_set():
                self._remove(key, pending)
                pending.abandon()
        if pending.error is not None:
            raise pending.error
        if pending.drawing is None:
            raise _overloaded(f"The drawing took more than {self._timeout_seconds:g} seconds")
        return pending.drawing

    def discard(self, result_digests: Collection[str]) -> None:
        """Removes the drawings of deleted results from the cache."""
        self._cache.discard(lambda key: getattr(key, "result_digest", None) in result_digests)

    def _start(self, key: Hashable, draw: Draw) -> _Pending:
        if len(self._pending) >= self._max_pending:
            raise _overloaded(f"The service already has {self._max_pending} drawings to compute")
        pending = self._pending[key] = _Pending()
        # A separate task: the client that asked first may leave before the others.
        task = asyncio.create_task(self._run(key, draw, pending))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return pending

    async def _run(self, key: Hashable, draw: Draw, pending: _Pending) -> None:
        try:
            with pending.scope:
                drawing = await anyio.to_thread.run_sync(draw, pending.check, limiter=self._limiter)
                self._cache.put(key, drawing)
                pending.drawing = drawing
        except Exception as error:  # `get` raises it for each client
            pending.error = error
        finally:
            self._remove(key, pending)
            pending.done.set()

    def _remove(self, key: Hashable, pending: _Pending) -> None:
        if self._pending.get(key) is pending:
            del self._pending[key]


class _Cache:
    """The most recently used drawings, up to `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._drawings: OrderedDict[Hashable, Drawing] = OrderedDict()

    def get(self, key: Hashable) -> Drawing | None:
        drawing = self._drawings.get(key)
        if drawing is not None:
            self._drawings.move_to_end(key)
        return drawing

    def put(self, key: Hashable, drawing: Drawing) -> None:
        if key in self._drawings or len(drawing.content) > self._max_bytes:
            return
        self._drawings[key] = drawing
        self._bytes += len(drawing.content)
        while self._bytes > self._max_bytes:
            _, oldest = self._drawings.popitem(last=False)
            self._bytes -= len(oldest.content)

    def discard(self, is_discarded: Callable[[Hashable], bool]) -> None:
        for key in [key for key in self._drawings if is_discarded(key)]:
            self._bytes -= len(self._drawings.pop(key).content)


def _overloaded(reason: str) -> ProblemError:
    return ProblemError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "overloaded",
        f"{reason}; try again in {_RETRY_AFTER_SECONDS} seconds.",
        headers={"Retry-After": _RETRY_AFTER_SECONDS},
    )


async def get_unless_disconnected(
    request: Request, drawings: Drawings, key: Hashable, draw: Draw
) -> Drawing:
    """Like `Drawings.get`, but raises `ClientDisconnect` if the client leaves first."""
    drawing = asyncio.ensure_future(drawings.get(key, draw))
    disconnected = asyncio.ensure_future(until_disconnected(request))
    try:
        await asyncio.wait({drawing, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if not drawing.done():
            raise ClientDisconnect
        return drawing.result()
    finally:
        drawing.cancel()
        disconnected.cancel()
