"""Requests of attackers: raw bytes from other addresses, slowly or never completed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

ATTACKERS = ("127.0.0.2", "127.0.0.3")
MIB = 2**20
TIMEOUT_SECONDS = 60.0  # of one attack; the test allows 10 s per response


async def exchange(
    port: int,
    number: int,
    head: str,
    body: Callable[[], Iterator[bytes]] | None = None,
    *,
    hold_seconds: float | None = None,
    head_ends: bool = True,
) -> tuple[int, float]:
    """Sends one request of an attacker; returns status and seconds.

    With `hold_seconds`, it disconnects after this time without reading the response.
    """
    began = time.monotonic()
    status = 0
    address = (ATTACKERS[number % len(ATTACKERS)], 0)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, local_addr=address, limit=2**20
            )
            end = "\r\n\r\n" if head_ends else "\r\nX-Long: "
            writer.write(f"{head}\r\nHost: localhost{end}".encode())
            try:
                for chunk in body() if body else ():
                    writer.write(chunk)
                    await writer.drain()
                if hold_seconds is not None:
                    await asyncio.sleep(hold_seconds)
                    return 0, 0.0
                status = int((await reader.readline()).split()[1])
                while await reader.read(2**20):
                    pass
            finally:
                writer.close()
    except (OSError, IndexError, ValueError):
        pass  # the API refused the request and closed the connection
    except TimeoutError:
        status = -1
    return status, time.monotonic() - began


async def trickle(port: int, number: int, start: str) -> tuple[int, float]:
    """Sends the start of a request, then a byte per second; returns the status and the seconds
    from the last byte to the answer."""
    address = (ATTACKERS[number % len(ATTACKERS)], 0)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=address)
            try:
                writer.write(start.encode())
                answer = asyncio.create_task(reader.readline())
                while True:
                    sent_at = time.monotonic()
                    done, _ = await asyncio.wait({answer}, timeout=1.0)
                    if done:
                        status = int((await answer).split()[1])
                        return status, time.monotonic() - sent_at
                    writer.write(b"1")
            finally:
                writer.close()
    except (OSError, IndexError, ValueError):
        return 0, 0.0  # the connection was closed
    except TimeoutError:
        return -1, TIMEOUT_SECONDS


def get(path: str, headers: str = "") -> str:
    return f"GET {path} HTTP/1.1\r\nConnection: close{headers}"


def post(path: str, size: int, media_type: str = "application/json") -> str:
    return (
        f"POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Type: {media_type}\r\n"
        f"Content-Length: {size}"
    )


def numbers(size: int) -> Callable[[], Iterator[bytes]]:
    """A JSON document of this size that is not a valid reference set."""
    part = b"0," * (MIB // 2)

    def chunks() -> Iterator[bytes]:
        yield b'{"name": "n", "graphs": ['
        left = size - 28
        while left > 0:
            piece = part[: left - left % 2]
            if not piece:
                break
            yield piece
            left -= len(piece)
        yield b" " * left + b"0]}"

    return chunks
