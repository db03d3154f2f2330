"""Sends explanations with their results; the stored JSON of a result is not parsed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import BinaryIO

import anyio.to_thread
from starlette.responses import Response, StreamingResponse

from d4explain.contracts.receipts.receipt import Receipt
from service.context import Context, run_in_thread
from service.graph_io.json_parts import JsonPart
from service.http.responses import entity_tag
from service.resource_builders import explanation_summary
from service.resources import ExplanationSummary
from store import jobs
from store.artifacts.files import TenantArtifacts
from store.catalogue import explanations
from store.errors import Conflict
from store.store import Store

_MAX_UNCHUNKED_BYTES = 2**20
_CHUNK_BYTES = 2**18
_JSON = "application/json"


class ExplanationDocument:
    """An explanation without its result, and the digest of the result: its newest answer."""

    def __init__(self, tenant: str, summary: ExplanationSummary, result_digest: str | None) -> None:
        self.tenant = tenant
        self.summary = summary
        self.result_digest = result_digest

    @cached_property
    def head(self) -> bytes:
        """The JSON up to the value of `result`."""
        return self.summary.model_dump_json().encode()[:-1] + b',"result":'

    def require_result(self) -> str:
        """The digest of the result; raises Conflict if there is none."""
        if self.result_digest is None:
            state = self.summary.state
            raise Conflict(f"explanation {self.summary.id} is {state}; it has no graph to show")
        return self.result_digest

    @property
    def etag(self) -> str:
        return entity_tag(self.head, (self.result_digest or "").encode())


def read_document(store: Store, tenant: str, explanation_id: str) -> ExplanationDocument:
    summary = read_summary(store, tenant, explanation_id)
    digests = [answer.sha256 for answer in summary.answers if answer.sha256 is not None]
    return ExplanationDocument(tenant, summary, digests[-1] if digests else None)


def read_summary(store: Store, tenant: str, explanation_id: str) -> ExplanationSummary:
    with store.database.reading() as session:
        explanation = explanations.get(session, explanation_id, tenant)
        job = jobs.get(session, explanation.job_id, tenant)
        first = explanation.provisional_job_id
        provisional = None if first is None else jobs.get(session, first, tenant)
        queue = jobs.TrainingQueue.read(session) if job.is_blocked else jobs.TrainingQueue()
        return explanation_summary(explanation, job, provisional, queue)


def stored_receipt(artifacts: TenantArtifacts, digest: str) -> Receipt:
    """The receipt of a stored answer; the rest of the answer is not parsed."""
    with artifacts.open_large(digest) as file:
        answer = JsonPart.whole(file.read())
    return Receipt.model_validate_json(answer.members()["receipt"].text)


async def answer_response(
    context: Context, tenant: str, digest: str, headers: Mapping[str, str] | None = None
) -> Response:
    """The stored JSON of one answer, byte for byte."""
    result = await _opened(context, tenant, digest)
    if isinstance(result, bytes):
        return Response(result, 200, headers, media_type=_JSON)
    all_headers = {**(headers or {}), "Content-Length": str(_size(result))}
    return StreamingResponse(_chunks(b"", result, b""), 200, all_headers, media_type=_JSON)


async def document_response(
    context: Context,
    document: ExplanationDocument,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The whole document; a large result is sent in chunks from its file."""
    if document.result_digest is None:
        return Response(document.head + b"null}", status, headers, media_type=_JSON)
    result = await _opened(context, document.tenant, document.result_digest)
    if isinstance(result, bytes):
        return Response(document.head + result + b"}", status, headers, media_type=_JSON)
    length = len(document.head) + _size(result) + 1
    all_headers = {**(headers or {}), "Content-Length": str(length)}
    chunks = _chunks(document.head, result, b"}")
    return StreamingResponse(chunks, status, all_headers, media_type=_JSON)


async def _opened(context: Context, tenant: str, digest: str) -> bytes | BinaryIO:
    return await anyio.to_thread.run_sync(
        _open_result, context.store.artifacts.of(tenant), digest, limiter=context.result_threads
    )


def _open_result(artifacts: TenantArtifacts, digest: str) -> bytes | BinaryIO:
    """The result, verified against its digest: its bytes, or an open file if it is large."""
    file = artifacts.open_large(digest)
    if _size(file) > _MAX_UNCHUNKED_BYTES:
        return file
    with file:
        return file.read()


async def _chunks(head: bytes, file: BinaryIO, tail: bytes) -> AsyncIterator[bytes]:
    with file:
        yield head
        while chunk := await run_in_thread(file.read, _CHUNK_BYTES):
            yield chunk
    yield tail


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size
