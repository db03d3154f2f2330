"""Reads the bytes of request bodies and checks their Content-Type."""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO, BinaryIO

import anyio.to_thread
from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from d4explain.contracts.errors import quoted
from service.http.faults import Fault, Faults, pointer
from service.http.problems import ProblemError

JSON = "application/json"
LARGE_BODY_BYTES = 1024 * 1024  # parsing this much blocks other threads for 30 ms
FORM = "multipart/form-data"
MAX_TEXT_PART = 1024 * 1024  # a spec of 256 layers has some ten kilobytes


async def json_body(request: Request) -> bytes:
    require_content_type(request, JSON)
    return await request.body()


@dataclass(frozen=True)
class PostedBody:
    """A body: its bytes if it is small, otherwise the file it was written to."""

    content: bytes | Path
    size: int
    sha256: bytes

    @classmethod
    def of(cls, content: bytes) -> PostedBody:
        return cls(content, len(content), hashlib.sha256(content).digest())

    def open(self) -> BinaryIO:
        if isinstance(self.content, bytes):
            return io.BytesIO(self.content)
        return self.content.open("rb")

    def read(self) -> bytes:
        with self.open() as file:
            return file.read()


@asynccontextmanager
async def posted_json(request: Request) -> AsyncIterator[PostedBody]:
    """A JSON body that may be large; its file is deleted after the block."""
    require_content_type(request, JSON)
    async with spooled_body(request) as body:
        yield body


@asynccontextmanager
async def spooled_body(request: Request) -> AsyncIterator[PostedBody]:
    """The body; a body larger than `LARGE_BODY_BYTES` goes to a temporary file."""
    digest = hashlib.sha256()
    size = 0
    chunks: list[bytes] = []
    with ExitStack() as open_files:
        file: IO[bytes] | None = None

        async def write() -> None:
            nonlocal file
            if file is None:
                file = open_files.enter_context(tempfile.NamedTemporaryFile(buffering=0))
            await anyio.to_thread.run_sync(file.write, b"".join(chunks))
            chunks.clear()

        async for chunk in request.stream():
            digest.update(chunk)
            size += len(chunk)
            chunks.append(chunk)
            if sum(map(len, chunks)) > LARGE_BODY_BYTES:
                await write()
        if file is None:
            yield PostedBody(b"".join(chunks), size, digest.digest())
            return
        await write()
        yield PostedBody(Path(file.name), size, digest.digest())


@dataclass(frozen=True)
class FormParts:
    """The parts of a form. Texts may arrive as files, as with curl's `-F spec=@spec.json`."""

    texts: dict[str, bytes]
    files: dict[str, bytes]


async def form_body(
    request: Request, texts: set[str], files: set[str], optional: set[str]
) -> FormParts:
    """Reads the named parts, each once; only `optional` ones may be missing."""
    require_content_type(request, FORM)
    parser = MultiPartParser(
        request.headers,
        request.stream(),
        max_files=len(texts | files) + 1,
        max_fields=len(texts | files) + 1,
        max_part_size=MAX_TEXT_PART,
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError) as error:
        detail = f"Cannot read the form: {getattr(error, 'message', 'it has no boundary')}"
        raise ProblemError(HTTPStatus.BAD_REQUEST, "malformed-form", detail) from error
    try:
        faults = Faults()
        parts: dict[str, bytes] = {}
        for name, value in form.multi_items():
            if name not in texts | files:
                faults.add(pointer(name), "is not a known field")
            elif name in parts:
                faults.add(pointer(name), "is given more than once")
            elif isinstance(value, UploadFile):
                parts[name] = await value.read()
                if name in texts and len(parts[name]) > MAX_TEXT_PART:
                    faults.add(pointer(name), f"is longer than {MAX_TEXT_PART:,} bytes")
            elif name in files:
                faults.add(pointer(name), "should be a file")
                parts[name] = b""
            else:
                parts[name] = value.encode("utf-8", "replace")
        for name in sorted((texts | files) - optional - parts.keys()):
            faults.add(pointer(name), "is required")
        faults.raise_if_any()
    finally:
        await form.close()
    return FormParts(
        {name: parts[name] for name in texts & parts.keys()},
        {name: parts[name] for name in files & parts.keys()},
    )


def require_content_type(request: Request, *allowed: str, hint: str = "") -> str:
    """The body's Content-Type; rejects other types, with the hint, and encoded bodies."""
    sent = request.headers.get("content-type", "").split(";")[0].strip().lower()
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if sent in allowed and encoding == "identity":
        return sent
    if sent in allowed:
        header, value, expected, hint = "Content-Encoding", encoding, "identity", ""
    else:
        header, value, expected = "Content-Type", sent, " or ".join(allowed)
    problem = f"Unsupported {header} {quoted(value)}" if value else f"Missing {header}"
    raise ProblemError(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "unsupported-media-type",
        f"{problem}; expected {expected}. {hint}".strip(),
        [Fault(header, f"should be {expected}", "header")],
        {"Accept": ", ".join(allowed)} if header == "Content-Type" else None,
    )
