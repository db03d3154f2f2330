"""uvicorn's HTTP protocol with a limit and a deadline for the head of a request."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service.http.problems import MEDIA_TYPE, problem

MAX_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 10.0
_DRAIN_SECONDS = 1.0


class BoundedHttpProtocol(HttpToolsProtocol):
    """Refuses a request whose line and headers are too long (431) or do not come (408)."""

    _head_bytes = 0
    _is_in_head = True  # until the headers of the next request are complete
    _is_refused = False
    _head_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_deadline is None:  # the first bytes on a connection that was kept open
                self._expect_head()
        super().data_received(data)
        if self._is_in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                "headers-too-large",
                f"The request's line and headers have more than {MAX_HEAD_BYTES:,} bytes.",
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
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self) -> None:
        self._head_deadline = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _stop_deadline(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _head_is_late(self) -> None:
        if self._is_answering:  # reading may be paused until this answer has been sent
            self._expect_head()
            return
        self._refuse(
            HTTPStatus.REQUEST_TIMEOUT,
            "headers-too-slow",
            f"The request's headers were not complete after {HEAD_SECONDS:g} s.",
        )

    def _refuse(self, status: HTTPStatus, slug: str, detail: str) -> None:
        """Answers, then drops what still arrives for a moment, so that the client sees why."""
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        self._stop_deadline()
        if self._is_answering:  # this would end up in the middle of another answer
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
