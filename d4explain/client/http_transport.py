"""Sends requests to one API, retries them and reads event streams; raises errors as exceptions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from d4explain.client.errors import RefusedError, UnreachableError
from d4explain.client.events import Event, read_events

ATTEMPTS = 4  # per request, if the API is unreachable or answers 503
MAX_PAUSE_SECONDS = 10.0  # between two attempts, even if `Retry-After` says more
MAX_SILENCE_SECONDS = 45.0  # the server sends pings more often than this
UNAVAILABLE = 503
_CHUNK_BYTES = 2**20


class FileChunks:
    """The content of a file in chunks; each attempt reads it from the start."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        with open(self._path, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk


class HttpTransport:
    def __init__(
        self,
        url: str,
        *,
        timeout: float,
        attempts: int = ATTEMPTS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._attempts = attempts
        # Ignore proxies from the environment: the server is usually on this machine.
        self._http = httpx.Client(
            base_url=self.url, timeout=timeout, transport=transport, trust_env=False
        )

    def close(self) -> None:
        self._http.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (),  # error statuses to return instead of raising
        **request: Any,
    ) -> httpx.Response:
        """Send a request; retry it if the API is unreachable or answers 503.

        An idempotency key makes it safe to retry a POST: the API executes it once.
        """
        all_headers = dict(headers or {})
        if method == "POST":
            all_headers["Idempotency-Key"] = str(uuid.uuid4())
        attempt = 1
        while True:
            try:
                answer = self._http.request(method, path, headers=all_headers, **request)
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
                if answer.status_code != UNAVAILABLE or attempt == self._attempts:
                    raise RefusedError.from_response(answer)
                pause = _retry_after(answer) or 0.1 * 2**attempt
            time.sleep(min(pause, MAX_PAUSE_SECONDS))
            attempt += 1

    def get(self, path: str, **query: Any) -> Any:
        return self.send("GET", path, params=query or None).json()

    def items(self, path: str, **query: Any) -> Iterator[Any]:
        """All items of a paginated list."""
        while True:
            page = self.get(path, **query)
            yield from page["items"]
            if not page.get("next_cursor"):
                return
            query["cursor"] = page["next_cursor"]

    def events(self, path: str, after: str | None, seconds: float | None) -> Generator[Event]:
        """Server-sent events for at most `seconds`; a broken stream raises an error of httpx."""
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = after
        deadline = None if seconds is None else time.monotonic() + seconds
        silence = MAX_SILENCE_SECONDS if seconds is None else min(MAX_SILENCE_SECONDS, seconds)
        timeout = httpx.Timeout(10.0, read=silence)
        with self._http.stream("GET", path, headers=headers, timeout=timeout) as answer:
            if answer.is_error:
                answer.read()
                raise RefusedError.from_response(answer)
            for event in read_events(answer):
                yield event
                if deadline is not None and time.monotonic() > deadline:
                    return


def _retry_after(answer: httpx.Response) -> float | None:
    """The seconds in `Retry-After`, if any; the API never sends a date."""
    value = answer.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else None
