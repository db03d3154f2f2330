"""Limits concurrent requests of each kind, in total and per client.

Waits, event streams and large uploads have their own limits, so that they cannot block other
requests. One client gets at most half of what the others leave of a limit, so that a few clients
cannot take it all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.problems import ProblemError, problem

HEALTH_PATHS = frozenset({"/livez", "/readyz", "/metrics"})
_STREAM_SUFFIX = "/events"
_SLOT = "d4explain.request_slot"
_RETRY_HEADERS = {"Retry-After": "1"}


class RequestKind(StrEnum):
    REQUEST = "requests"
    WAIT = "waiting requests"
    STREAM = "event streams"
    UPLOAD = "uploads of large graphs"


@dataclass(frozen=True)
class Capacity:
    """Limits of concurrent requests of each kind."""

    requests: int = 256
    waits: int = 256
    streams: int = 512
    uploads: int = 4  # each may take a gigabyte of temporary disk space

    def of(self, kind: RequestKind) -> int:
        return {
            RequestKind.REQUEST: self.requests,
            RequestKind.WAIT: self.waits,
            RequestKind.STREAM: self.streams,
            RequestKind.UPLOAD: self.uploads,
        }[kind]


class Slots:
    """Counts the slots of one limit that each client holds."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._taken: Counter[str] = Counter()
        self._total = 0

    def is_full(self) -> bool:
        return self._total >= self.limit

    def limit_for(self, client: str) -> int:
        """Half of what others leave: n greedy clients leave 1/2ⁿ of the limit free."""
        left = self.limit - (self._total - self._taken[client])
        return max(1, left // 2)

    def is_full_for(self, client: str) -> bool:
        return self._taken[client] >= self.limit_for(client)

    def take(self, client: str) -> None:
        self._taken[client] += 1
        self._total += 1

    def free(self, client: str) -> None:
        self._total -= 1
        self._taken[client] -= 1
        if not self._taken[client]:
            del self._taken[client]


class RequestSlot:
    """The slot that a request holds; while it waits for a job, it holds a waiting slot instead."""

    def __init__(self, slots: dict[RequestKind, Slots], kind: RequestKind, client: str) -> None:
        self._slots = slots
        self._kind = kind
        self._client = client

    @contextmanager
    def waiting(self) -> Iterator[bool]:
        """False if no slot for waiting is free; the route then answers without waiting."""
        waits = self._slots[RequestKind.WAIT]
        if waits.is_full() or waits.is_full_for(self._client):
            yield False
            return
        waits.take(self._client)
        self._slots[self._kind].free(self._client)
        try:
            yield True
        finally:
            self._slots[self._kind].take(self._client)
            waits.free(self._client)


class Admission:
    """Middleware that rejects requests beyond the limits; health routes always pass."""

    def __init__(self, app: ASGIApp, capacity: Capacity, upload_path: str) -> None:
        self.app = app
        self.upload_path = upload_path
        self.slots = {kind: Slots(capacity.of(kind)) for kind in RequestKind}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH_PATHS:
            await self.app(scope, receive, send)
            return
        kind, client = self._kind(scope), client_of(scope)
        slots = self.slots[kind]
        rejection = _rejection(kind, slots, client)
        if rejection is not None:
            response = problem(
                rejection.status, rejection.slug, rejection.detail, (), _RETRY_HEADERS
            )
            await response(scope, receive, send)
            return
        slots.take(client)
        scope[_SLOT] = RequestSlot(self.slots, kind, client)
        try:
            await self.app(scope, receive, send)
        finally:
            slots.free(client)

    def _kind(self, scope: Scope) -> RequestKind:
        if scope["path"].endswith(_STREAM_SUFFIX):
            return RequestKind.STREAM
        return RequestKind.UPLOAD if scope["path"] == self.upload_path else RequestKind.REQUEST


def client_of(scope: Scope) -> str:
    """The client's address; all clients of a Unix socket count as one."""
    client = scope.get("client")
    return str(client[0]) if client else "local"


def slot_of(request: Request) -> RequestSlot:
    slot = request.scope[_SLOT]
    assert isinstance(slot, RequestSlot)
    return slot


def _rejection(kind: RequestKind, slots: Slots, client: str) -> ProblemError | None:
    if slots.is_full():
        detail = f"The service already has {slots.limit} {kind}, its limit; try again in a moment."
        return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", detail)
    if slots.is_full_for(client):
        detail = (
            f"This client already has {slots.limit_for(client)} {kind}, its limit at the moment; "
            "try again when one of them has ended."
        )
        return ProblemError(HTTPStatus.TOO_MANY_REQUESTS, "too-many-requests", detail)
    return None
