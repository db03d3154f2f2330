"""Requests and event streams of one API, with errors as exceptions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from d4explain.client.errors import RefusedError, UnreachableError
from d4explain.client.events import Event, read_events

ATTEMPTS = 4  # of one request while nobody answers, or the API says 503
LONGEST_PAUSE_SECONDS = 10.0  # between two attempts, whatever `Retry-After` says
SILENCE_SECONDS = 45.0  # the server sends a ping more often than this
UNAVAILABLE = 503
_CHUNK = 2**20


class FileChunks:
    """A file that is sent piece by piece, and from its beginning again if it has to be."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        with open(self._path, "rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk


class Wire:
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
        # Proxies of the environment are for the internet, not for a server on this machine.
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
        accept: tuple[int, ...] = (),  # error statuses that are an answer too
        **request: Any,
    ) -> httpx.Response:
        """One request; sent again while nobody answers and after 503.

        A POST has a key that makes this safe: the API carries it out once.
        """
        sent = dict(headers or {})
        if method == "POST":
            sent["Idempotency-Key"] = str(uuid.uuid4())
        attempt = 1
        while True:
            try:
                answer = self._http.request(method, path, headers=sent, **request)
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
            time.sleep(min(pause, LONGEST_PAUSE_SECONDS))
            attempt += 1

    def get(self, path: str, **query: Any) -> Any:
        return self.send("GET", path, params=query or None).json()

    def items(self, path: str, **query: Any) -> Iterator[Any]:
        """All items of a paged list."""
        while True:
            page = self.get(path, **query)
            yield from page["items"]
            if not page.get("next_cursor"):
                return
            query["cursor"] = page["next_cursor"]

    def events(self, path: str, after: str | None, seconds: float | None) -> Generator[Event]:
        """Server-sent events for at most `seconds`; a broken stream raises httpx's errors."""
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = after
        ends = None if seconds is None else time.monotonic() + seconds
        silence = SILENCE_SECONDS if seconds is None else min(SILENCE_SECONDS, seconds)
        timeout = httpx.Timeout(10.0, read=silence)
        with self._http.stream("GET", path, headers=headers, timeout=timeout) as answer:
            if answer.is_error:
                answer.read()
                raise RefusedError.from_response(answer)
            for event in read_events(answer.iter_lines()):
                yield event
                if ends is not None and time.monotonic() > ends:
                    return


def _retry_after(answer: httpx.Response) -> float | None:
    """Seconds; None if the API does not say, or says a date, which it never does."""
    said = answer.headers.get("Retry-After", "")
    return float(said) if said.isascii() and said.isdigit() else None
