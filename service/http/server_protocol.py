"""Adds a size limit and a deadline for request headers to uvicorn's HTTP protocol."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service.http.problems import MEDIA_TYPE, problem

MAX_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 10.0
_DRAIN_SECONDS = 1.0


class BoundedHttpProtocol(HttpToolsProtocol):
    """Rejects requests whose headers are too long (431) or too slow (408)."""

    _head_bytes = 0
    _is_in_head = True  # False while a request's body arrives
    _is_rejected = False
    _head_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_rejected:
            return
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_deadline is None:  # first bytes of a further request on this connection
                self._expect_head()
        super().data_received(data)
        if self._is_in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._reject(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                "headers-too-large",
                f"The request line and headers have more than {MAX_HEAD_BYTES:,} bytes.",
            )

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._head_bytes = 0
        self._stop_deadline()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_in_head = True

    @property
    def _is_responding(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self) -> None:
        self._head_deadline = self.loop.call_later(HEAD_SECONDS, self._on_head_timeout)

    def _stop_deadline(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _on_head_timeout(self) -> None:
        if self._is_responding:  # uvicorn may have paused reading until this response is sent
            self._expect_head()
            return
        self._reject(
            HTTPStatus.REQUEST_TIMEOUT,
            "headers-too-slow",
            f"The request headers were incomplete after {HEAD_SECONDS:g} s.",
        )

    def _reject(self, status: HTTPStatus, slug: str, detail: str) -> None:
        """Answers, then ignores further data for a moment, so that the client can read why."""
        if self._is_rejected or self.transport.is_closing():
            return
        self._is_rejected = True
        self._stop_deadline()
        if self._is_responding:  # do not write into another response
            self.transport.close()
            return
        body = bytes(problem(status, slug, detail).body)
        self.transport.write(
            STATUS_LINE[status]
            + f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n".encode()
            + b"connection: close\r\n\r\n"
            + body
        )
        self.loop.call_later(_DRAIN_SECONDS, self.transport.close)
