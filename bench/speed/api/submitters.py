"""Clients that submit one explanation after the other, in a process of their own.

`python -m bench.speed.submitters PORT CLIENTS SECONDS FIRST_SEED [RATE] < body.json` prints what
came of it as JSON. Real clients are on other machines, and what these cost is taken from the cores
that are measured: they write bytes that are ready onto connections that stay open, and read as much
of an answer as tells its status and its end. The rest of it is looked at when all is over.

Without a rate each client asks again as soon as it is answered. With one, requests are due at even
intervals, whether or not those before are answered, and the time of each counts from when it was
due: a service that falls behind shows it.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any

_TIMEOUT = 30.0  # seconds for one answer
_LATE = 60.0  # seconds that the process may take beyond those it was given
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Submitted:
    seconds: float  # from the first request to the last answer
    latencies: list[float]  # seconds, of those accepted
    ids: list[str]  # of explanations that were answered with 202
    refusals: list[str]

    @property
    def per_second(self) -> float:
        return len(self.ids) / self.seconds

    def quantile(self, share: float) -> float:
        """The smallest latency that this share of the answers do not exceed."""
        ordered = sorted(self.latencies)
        return ordered[math.ceil(share * len(ordered)) - 1]


def submitted(
    body: dict[str, Any],
    port: int,
    *,
    clients: int,
    seconds: float,
    first_seed: int,
    rate: float | None = None,
) -> Submitted:
    """What came of it when another process submitted for so long; every seed is used once."""
    numbers = [port, clients, seconds, first_seed, *([] if rate is None else [rate])]
    done = subprocess.run(
        [sys.executable, "-m", "bench.speed.api.submitters", *map(str, numbers)],
        input=json.dumps(body).encode(),
        capture_output=True,
        check=True,
        timeout=seconds + _LATE,
    )
    return Submitted(**json.loads(done.stdout))


@dataclass
class Answers:
    latencies: list[float] = field(default_factory=list)
    accepted: list[bytes] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


class Requests:
    """What is to be asked, and when; shared by all clients."""

    def __init__(
        self, body: dict[str, Any], first_seed: int, seconds: float, rate: float | None
    ) -> None:
        # Only the seed differs, so that bodies cost nothing to make.
        self._text = json.dumps({key: value for key, value in body.items() if key != "seed"})[:-1]
        self._seed = first_seed
        self._rate = rate
        self._began = time.perf_counter()
        self._until = self._began + seconds
        self._count = 0

    async def next(self) -> tuple[bytes, float] | None:
        """A whole request and when it is due, which is now or was before; None: time is over."""
        number, self._count = self._count, self._count + 1
        now = time.perf_counter()
        due = now if self._rate is None else self._began + number / self._rate
        if max(due, now) > self._until:
            return None
        if due > now:
            await asyncio.sleep(due - now)
        body = f'{self._text}, "seed": {self._seed + number}}}'.encode()
        head = (
            b"POST /v1/explanations HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        return head + body, due


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bytes] | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        """The whole answer, head and body."""
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
            self._answer.set_exception(OSError("the answer does not say its length"))
        elif len(self._received) >= end + len(_HEAD_END) + int(length[1]):
            self._answer.set_result(self._received)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the connection was closed"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def submit(port: int, requests: Requests, answers: Answers) -> None:
    """One client, until time is over."""
    loop = asyncio.get_running_loop()
    connection: Connection | None = None
    while (asked := await requests.next()) is not None:
        request, due = asked
        try:
            async with asyncio.timeout(_TIMEOUT):
                if connection is None:
                    _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
                answer = await connection.ask(request)
        except OSError as error:  # a timeout is one
            answers.refusals.append(f"no answer: {type(error).__name__} {error}")
            if connection is not None:
                connection.close()  # the next request opens another one
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
) -> Submitted:
    began = time.perf_counter()
    requests, answers = Requests(body, first_seed, seconds, rate), Answers()
    await asyncio.gather(*(submit(port, requests, answers) for _ in range(clients)))
    took = time.perf_counter() - began
    ids = [json.loads(one)["id"] for one in answers.accepted]
    return Submitted(took, answers.latencies, ids, answers.refusals)


def main(arguments: Sequence[str]) -> None:
    port, clients, seconds, first_seed, *rate = arguments
    came = asyncio.run(
        submit_all(
            json.load(sys.stdin),
            int(port),
            clients=int(clients),
            seconds=float(seconds),
            first_seed=int(first_seed),
            rate=float(rate[0]) if rate else None,
        )
    )
    json.dump(asdict(came), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
