"""Clients that submit explanations from a separate process.

`python -m bench.speed.api.submitters PORT CLIENTS SECONDS FIRST_SEED [RATE] < body.json` prints the
submissions as JSON; they have the key in `D4_API_KEY`, if there is one. The clients stand for other
machines but share the measured cores, so they cost little: they write prepared bytes to open
connections and parse answers only at the end.

Without a rate, each client submits again after its last answer. With a rate, requests are scheduled
at even intervals and timed from their schedule, so that a slow service shows its delay.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any

_TIMEOUT = 30.0  # seconds for one answer
_GRACE = 60.0  # seconds that the process may exceed its duration
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Submissions:
    seconds: float  # from the first request to the last answer
    latencies: list[float]  # seconds, of those accepted
    ids: list[str]  # of explanations accepted with 202
    refusals: list[str]

    @property
    def per_second(self) -> float:
        return len(self.ids) / self.seconds

    def quantile(self, share: float) -> float:
        """The latency that this share of the answers does not exceed."""
        ordered = sorted(self.latencies)
        return ordered[math.ceil(share * len(ordered)) - 1]


def run_submitters(
    body: dict[str, Any],
    port: int,
    *,
    clients: int,
    seconds: float,
    first_seed: int,
    rate: float | None = None,
    key: str = "",
) -> Submissions:
    """Submit from another process for this long; every seed is used once."""
    arguments = [port, clients, seconds, first_seed, *([] if rate is None else [rate])]
    finished = subprocess.run(
        [sys.executable, "-m", "bench.speed.api.submitters", *map(str, arguments)],
        input=json.dumps(body).encode(),
        env={**os.environ, "D4_API_KEY": key},
        capture_output=True,
        check=True,
        timeout=seconds + _GRACE,
    )
    return Submissions(**json.loads(finished.stdout))


@dataclass
class Answers:
    latencies: list[float] = field(default_factory=list)
    accepted: list[bytes] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


class Requests:
    """The schedule of requests, shared by all clients."""

    def __init__(
        self,
        body: dict[str, Any],
        first_seed: int,
        seconds: float,
        rate: float | None,
        *,
        key: str = "",
    ) -> None:
        self._authorization = f"Authorization: Bearer {key}\r\n".encode() if key else b""
        # Only the seed differs, so building a body is cheap.
        self._text = json.dumps({key: value for key, value in body.items() if key != "seed"})[:-1]
        self._seed = first_seed
        self._rate = rate
        self._started = time.perf_counter()
        self._deadline = self._started + seconds
        self._count = 0

    async def next(self) -> tuple[bytes, float] | None:
        """The next request and its scheduled time; None after the time limit."""
        number, self._count = self._count, self._count + 1
        now = time.perf_counter()
        due = now if self._rate is None else self._started + number / self._rate
        if max(due, now) > self._deadline:
            return None
        if due > now:
            await asyncio.sleep(due - now)
        body = f'{self._text}, "seed": {self._seed + number}}}'.encode()
        head = (
            b"POST /v1/explanations HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (self._authorization, len(body))
        )
        return head + body, due


class Connection(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bytes] | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        """Send a request; the future holds the whole answer."""
        assert self._transport is not None
        self._received = b""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(_HEAD_END)
        if end < 0 or self._answer is None or self._answer.done():
            return
        length = _LENGTH.search(self._received, 0, end)
        if length is None:
            self._answer.set_exception(OSError("The answer has no Content-Length."))
        elif len(self._received) >= end + len(_HEAD_END) + int(length[1]):
            self._answer.set_result(self._received)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("The connection was closed."))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def submit(port: int, requests: Requests, answers: Answers) -> None:
    """Run one client until the time limit."""
    loop = asyncio.get_running_loop()
    connection: Connection | None = None
    while (scheduled := await requests.next()) is not None:
        request, due = scheduled
        try:
            async with asyncio.timeout(_TIMEOUT):
                if connection is None:
                    _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
                answer = await connection.ask(request)
        except OSError as error:  # TimeoutError is an OSError
            answers.refusals.append(f"no answer: {type(error).__name__} {error}")
            if connection is not None:
                connection.close()  # the next request reconnects
                connection = None
            continue
        head, _, body = answer.partition(_HEAD_END)
        if head.startswith(b"HTTP/1.1 %d " % HTTPStatus.ACCEPTED):
            answers.latencies.append(time.perf_counter() - due)
            answers.accepted.append(body)
        else:
            answers.refusals.append(f"{head[9:12].decode()}: {body[:200].decode(errors='replace')}")
    if connection is not None:
        connection.close()


async def submit_all(
    body: dict[str, Any],
    port: int,
    *,
    clients: int,
    seconds: float,
    first_seed: int,
    rate: float | None,
    key: str = "",
) -> Submissions:
    started = time.perf_counter()
    requests, answers = Requests(body, first_seed, seconds, rate, key=key), Answers()
    await asyncio.gather(*(submit(port, requests, answers) for _ in range(clients)))
    seconds_taken = time.perf_counter() - started
    ids = [json.loads(body)["id"] for body in answers.accepted]
    return Submissions(seconds_taken, answers.latencies, ids, answers.refusals)


def main(arguments: Sequence[str]) -> None:
    port, clients, seconds, first_seed, *rate = arguments
    submissions = asyncio.run(
        submit_all(
            json.load(sys.stdin),
            int(port),
            clients=int(clients),
            seconds=float(seconds),
            first_seed=int(first_seed),
            rate=float(rate[0]) if rate else None,
            key=os.environ.get("D4_API_KEY", ""),
        )
    )
    json.dump(asdict(submissions), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
