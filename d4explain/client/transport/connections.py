"""The two ways to do I/O: a blocking connection, whose coroutines never suspend, and asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import httpx

from d4explain.client.errors import RefusedError
from d4explain.client.transport.events import Event, read_events, read_events_async

Value = TypeVar("Value")
_CHUNK_BYTES = 2**20


class FileChunks:
    """The content of a file in chunks; each attempt reads it from the start."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        with open(self._path, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    async def read_in_thread(self) -> AsyncIterator[bytes]:
        with open(self._path, "rb") as file:
            while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
                yield chunk


@dataclass(frozen=True)
class ConnectionOptions:
    """How both clients connect."""

    url: str
    timeout: float  # seconds
    proxy: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold a key

    def for_httpx(self, transport: object) -> dict[str, Any]:
        # Ignore proxies from the environment: the server is usually on this machine.
        return {
            "base_url": self.url,
            "timeout": self.timeout,
            "headers": dict(self.headers),
            "proxy": self.proxy,
            "transport": transport,
            "trust_env": False,
        }


class Connection(Protocol):
    async def request(self, method: str, path: str, **request: Any) -> httpx.Response: ...

    def events(
        self, path: str, headers: Mapping[str, str], timeout: httpx.Timeout
    ) -> AsyncGenerator[Event]:
        """Server-sent events; raises `RefusedError`, or an error of httpx if the stream breaks."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    async def call(self, function: Callable[..., Value], *args: Any) -> Value:
        """The value of a function that takes long, such as an export."""
        ...

    async def close(self) -> None: ...


class BlockingConnection:
    def __init__(
        self, options: ConnectionOptions, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._http = httpx.Client(**options.for_httpx(transport))

    async def request(self, method: str, path: str, **request: Any) -> httpx.Response:
        return self._http.request(method, path, **request)

    async def events(
        self, path: str, headers: Mapping[str, str], timeout: httpx.Timeout
    ) -> AsyncGenerator[Event]:
        with self._http.stream("GET", path, headers=headers, timeout=timeout) as answer:
            if answer.is_error:
                answer.read()
                raise RefusedError.from_response(answer)
            for event in read_events(answer):
                yield event

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def call(self, function: Callable[..., Value], *args: Any) -> Value:
        return function(*args)

    async def close(self) -> None:
        self._http.close()


class AsyncConnection:
    def __init__(
        self, options: ConnectionOptions, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._http = httpx.AsyncClient(**options.for_httpx(transport))

    async def request(self, method: str, path: str, **request: Any) -> httpx.Response:
        if isinstance(request.get("content"), FileChunks):
            request["content"] = request["content"].read_in_thread()
        return await self._http.request(method, path, **request)

    async def events(
        self, path: str, headers: Mapping[str, str], timeout: httpx.Timeout
    ) -> AsyncGenerator[Event]:
        async with self._http.stream("GET", path, headers=headers, timeout=timeout) as answer:
            if answer.is_error:
                await answer.aread()
                raise RefusedError.from_response(answer)
            async for event in read_events_async(answer):
                yield event

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def call(self, function: Callable[..., Value], *args: Any) -> Value:
        return await asyncio.to_thread(function, *args)

    async def close(self) -> None:
        await self._http.aclose()
