"""Sends requests to one API, retries them and reads event streams; raises errors as exceptions."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import httpx

from d4explain.client.errors import RefusedError, UnreachableError
from d4explain.client.transport.connections import Connection
from d4explain.client.transport.events import Event

ATTEMPTS = 4  # per request, if the API is unreachable or has no capacity
MAX_PAUSE_SECONDS = 60.0  # between two attempts, even if `Retry-After` says more
MAX_SILENCE_SECONDS = 45.0  # the server sends pings more often than this
# Pings are no events, so a caller with a deadline must not wait for the next one.
MAX_SILENCE_BEFORE_DEADLINE = 10.0  # less than the server's pause between pings
UNAVAILABLE = 503
IDEMPOTENCY_KEY = "Idempotency-Key"
RETRIED = frozenset({429, UNAVAILABLE})  # refused for now: the same request may succeed later


class HttpTransport:
    def __init__(self, url: str, connection: Connection, attempts: int = ATTEMPTS) -> None:
        self.url = url
        self.connection = connection
        self._attempts = attempts

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (),  # error statuses to return instead of raising
        **request: Any,
    ) -> httpx.Response:
        """Send a request; retry it if the API is unreachable or answers 429 or 503.

        An idempotency key makes it safe to retry a POST: the API executes it once.
        """
        all_headers = dict(headers or {})
        if method == "POST":
            all_headers.setdefault(IDEMPOTENCY_KEY, str(uuid.uuid4()))
        attempt = 1
        while True:
            try:
                answer = await self.connection.request(method, path, headers=all_headers, **request)
            except httpx.InvalidURL as error:
                raise UnreachableError(self.url, str(error)) from error
            except httpx.TransportError as error:
                if attempt == self._attempts:
                    reason = str(error) or type(error).__name__
                    raise UnreachableError(self.url, reason) from error
                pause = 0.1 * 2**attempt
            else:
                if not answer.is_error or answer.status_code in accept:
                    return answer
                if answer.status_code not in RETRIED or attempt == self._attempts:
                    raise RefusedError.from_response(answer)
                pause = _retry_after(answer) or 0.1 * 2**attempt
            await self.connection.sleep(min(pause, MAX_PAUSE_SECONDS))
            attempt += 1

    async def get(self, path: str, **query: Any) -> Any:
        return (await self.send("GET", path, params=query or None)).json()

    async def items(self, path: str, **query: Any) -> AsyncIterator[Any]:
        """All items of a paginated list; a parameter that is None is left out."""
        query = {name: value for name, value in query.items() if value is not None}
        while True:
            page = await self.get(path, **query)
            for item in page["items"]:
                yield item
            if not page.get("next_cursor"):
                return
            query["cursor"] = page["next_cursor"]

    async def events(
        self, path: str, after: str | None, seconds: float | None
    ) -> AsyncGenerator[Event]:
        """Server-sent events for at most `seconds`; a broken stream raises an error of httpx."""
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = after
        deadline = None if seconds is None else time.monotonic() + seconds
        silence = (
            MAX_SILENCE_SECONDS if seconds is None else min(MAX_SILENCE_BEFORE_DEADLINE, seconds)
        )
        timeout = httpx.Timeout(10.0, read=silence)
        async with aclosing(self.connection.events(path, headers, timeout)) as events:
            async for event in events:
                yield event
                if deadline is not None and time.monotonic() > deadline:
                    return


def _retry_after(answer: httpx.Response) -> float | None:
    """The seconds in `Retry-After`, if any; the API never sends a date."""
    value = answer.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else None


def idempotency_header(key: str | None) -> dict[str, str]:
    """For a request that is to be executed once, also if another process sends it again."""
    return {} if key is None else {IDEMPOTENCY_KEY: key}
