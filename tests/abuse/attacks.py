"""The attacks on an API without keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tests.abuse import bombs
from tests.abuse.exchange import MIB, exchange, get, numbers, post, trickle
from tests.abuse.stored import Stored


def attacks(port: int, stored: Stored) -> list[tuple[str, Callable[[], Awaitable[Any]]]]:
    drawing = f"/v1/explanations/{stored.drawings}?graph="
    large = f"/v1/explanations/{stored.large}?format="
    wait = get(f"/v1/jobs/{stored.waiting_job}", "\r\nPrefer: wait=60")
    events = get(f"/v1/jobs/{stored.waiting_job}/events")
    size = 31 * MIB

    def many(
        count: int, head: Callable[[int], str], **options: Any
    ) -> Callable[[], Awaitable[Any]]:
        return lambda: asyncio.gather(
            *(exchange(port, number, head(number), **options) for number in range(count))
        )

    def head_of_100_mb() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * MIB

    def slowly(start: str, count: int = 1000) -> Callable[[], Awaitable[Any]]:
        return lambda: asyncio.gather(*(trickle(port, number, start) for number in range(count)))

    def upload(
        path: str, make: Callable[[], list[tuple[str, bytes]]]
    ) -> Callable[[], Awaitable[Any]]:
        """Sends each of the bodies, with its media type, four times at once."""
        return lambda: asyncio.gather(
            *(
                exchange(port, number, post(path, len(body), media_type), lambda b=body: iter([b]))
                for number, (media_type, body) in enumerate(make() * 4)
            )
        )

    forms = ("json", "svg", "graphml", "cytoscape", "pyg")
    return [
        ("40 drawings of 480 nodes", many(40, lambda i: get(f"{drawing}{i}&format=svg"))),
        (
            "40 abandoned Cytoscape documents",
            many(40, lambda i: get(f"{drawing}{i}&format=cytoscape"), hold_seconds=0.2),
        ),
        ("every format of 4,096 nodes", many(len(forms), lambda i: get(large + forms[i]))),
        (
            "8 results of 40 MB",
            many(8, lambda _: get(f"/v1/explanations/{stored.heavy}")),
        ),
        ("256 abandoned waits", many(256, lambda _: wait, hold_seconds=0.1)),
        ("256 held waits", many(256, lambda _: wait, hold_seconds=4.0)),
        ("300 event streams", many(300, lambda _: events, hold_seconds=4.0)),
        (
            "64 bodies of 31 MB",
            many(64, lambda _: post("/v1/datasets", size), body=numbers(size)),
        ),
        (
            "64 bodies that are never sent",
            many(64, lambda _: post("/v1/datasets", size), hold_seconds=4.0),
        ),
        (
            "4 heads of 100 MB",
            many(4, lambda _: get("/livez"), body=head_of_100_mb, head_ends=False),
        ),
        ("1,000 slow heads", slowly("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")),
        (
            "1,000 slow bodies",
            slowly(post("/v1/datasets", size) + "\r\nHost: localhost\r\n\r\n["),
        ),
        ("npz bombs", upload("/v1/datasets/large?name=bomb", bombs.large_graphs)),
        ("zip bombs", upload("/v1/gnns", bombs.archives)),
        ("specs of huge widths", upload("/v1/gnns", bombs.wide_specs)),
    ]
