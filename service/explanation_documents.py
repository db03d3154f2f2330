"""The whole document of an explanation: its result's stored bytes are passed on as they are."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import BinaryIO

import anyio.to_thread
from starlette.responses import Response, StreamingResponse

from service.context import Context, in_thread
from service.http.responses import entity_tag
from service.resources import ExplanationSummary, explanation_summary
from store import jobs
from store.artifacts.files import Artifacts
from store.catalogue import explanations
from store.store import Store

_SMALL = 2**20  # bytes that are sent at once
_CHUNK = 2**18
_JSON = "application/json"


class ExplanationDocument:
    """An explanation as it is stored: all but its result, and where that is."""

    def __init__(self, summary: ExplanationSummary, result_digest: str | None) -> None:
        self.summary = summary
        self.result_digest = result_digest

    @cached_property
    def head(self) -> bytes:
        """The JSON up to the value of `result`."""
        return self.summary.model_dump_json().encode()[:-1] + b',"result":'

    @property
    def etag(self) -> str:
        return entity_tag(self.head, (self.result_digest or "").encode())


def read_document(store: Store, explanation_id: str) -> ExplanationDocument:
    with store.database.reading() as session:
        explanation = explanations.get(session, explanation_id)
        summary = explanation_summary(explanation, jobs.get(session, explanation.job_id))
        return ExplanationDocument(summary, explanation.result_digest)


async def document_reply(
    context: Context,
    document: ExplanationDocument,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The document; a large result is sent in chunks, neither parsed nor held in memory."""
    if document.result_digest is None:
        return Response(document.head + b"null}", status, headers, media_type=_JSON)
    result = await anyio.to_thread.run_sync(
        _checked, context.store.artifacts, document.result_digest, limiter=context.result_readers
    )
    if isinstance(result, bytes):
        return Response(document.head + result + b"}", status, headers, media_type=_JSON)
    length = len(document.head) + _size(result) + 1
    sized = {**(headers or {}), "Content-Length": str(length)}
    return StreamingResponse(_chunks(document.head, result), status, sized, media_type=_JSON)


def _checked(artifacts: Artifacts, digest: str) -> bytes | BinaryIO:
    """The artifact, checked against its digest; the caller closes the file of a large one."""
    file = artifacts.open_large(digest)
    if _size(file) > _SMALL:
        return file
    with file:
        return file.read()


async def _chunks(head: bytes, file: BinaryIO) -> AsyncIterator[bytes]:
    with file:
        yield head
        while chunk := await in_thread(file.read, _CHUNK):
            yield chunk
    yield b"}"


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size
