"""Drawings of results: few at once, each computed once, ended when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from http import HTTPStatus

import anyio
import anyio.to_thread
from anyio import CancelScope, CapacityLimiter
from fastapi import Request
from starlette.requests import ClientDisconnect

from service.http.problems import ProblemError
from service.http.waiting import until_disconnected

# A drawing is mostly computed in Python, of which only one thread runs at a time.
_AT_ONCE = 2
_MOST_WAITING = 64
_MOST_SECONDS = 8.0
_RETRY_AFTER = "5"  # seconds
_CACHE_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Drawing:
    """One graph of a result, written in one format."""

    content: bytes
    media_type: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


class DrawingAbandoned(Exception):  # noqa: N818 - it ends a computation, nothing is wrong
    """Nobody waits for the drawing any more."""


Check = Callable[[], None]  # raises `DrawingAbandoned` in a computation that is to end
Draw = Callable[[Check], Drawing]


@dataclass
class _Pending:
    """A drawing that is computed, or waits for its turn."""

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
        self.scope.cancel()  # leaves the queue; a running thread ends by `check`


class Drawings:
    """Draws in threads of its own, so that other requests never wait for one."""

    def __init__(
        self,
        at_once: int = _AT_ONCE,
        most_waiting: int = _MOST_WAITING,
        most_seconds: float = _MOST_SECONDS,
        cache_bytes: int = _CACHE_BYTES,
    ) -> None:
        self._limiter = CapacityLimiter(at_once)
        self._most = at_once + most_waiting
        self._most_seconds = most_seconds
        self._pending: dict[Hashable, _Pending] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._cache = _Cache(cache_bytes)

    async def get(self, key: Hashable, draw: Draw) -> Drawing:
        """The drawing `key`, from memory or by `draw`; requests for the same one share it."""
        known = self._cache.get(key)
        if known is not None:
            return known
        pending = self._pending.get(key) or self._begin(key, draw)
        pending.clients += 1
        try:
            with anyio.move_on_after(self._most_seconds):
                await pending.done.wait()
        finally:
            pending.clients -= 1
            if pending.clients == 0 and not pending.done.is_set():
                self._forget(key, pending)
                pending.abandon()
        if pending.error is not None:
            raise pending.error
        if pending.drawing is None:
            raise _overloaded(f"No drawing within {self._most_seconds:g} seconds")
        return pending.drawing

    def _begin(self, key: Hashable, draw: Draw) -> _Pending:
        if len(self._pending) >= self._most:
            raise _overloaded(f"{self._most} drawings are being computed or wait already")
        pending = self._pending[key] = _Pending()
        # A task of its own: the client who asked first may go before the others.
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
        except Exception as error:  # for the clients, who raise it
            pending.error = error
        finally:
            self._forget(key, pending)
            pending.done.set()

    def _forget(self, key: Hashable, pending: _Pending) -> None:
        if self._pending.get(key) is pending:
            del self._pending[key]


class _Cache:
    """The drawings used last, up to a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[Hashable, Drawing] = OrderedDict()

    def get(self, key: Hashable) -> Drawing | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, drawing: Drawing) -> None:
        if key in self._kept or len(drawing.content) > self._most_bytes:
            return
        self._kept[key] = drawing
        self._bytes += len(drawing.content)
        while self._bytes > self._most_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest.content)


def _overloaded(reason: str) -> ProblemError:
    return ProblemError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "overloaded",
        f"{reason}; try again in {_RETRY_AFTER} seconds.",
        headers={"Retry-After": _RETRY_AFTER},
    )


async def drawn_unless_disconnected(
    request: Request, drawings: Drawings, key: Hashable, draw: Draw
) -> Drawing:
    """As `Drawings.get`; raises `ClientDisconnect` if the client leaves before."""
    drawing = asyncio.ensure_future(drawings.get(key, draw))
    left = asyncio.ensure_future(until_disconnected(request))
    try:
        await asyncio.wait({drawing, left}, return_when=asyncio.FIRST_COMPLETED)
        if not drawing.done():
            raise ClientDisconnect
        return drawing.result()
    finally:
        drawing.cancel()
        left.cancel()
