"""Drawings: few at once, each once, ended when nobody waits any more."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from service.drawing.drawing_queue import Drawing, DrawingAbandoned, Drawings
from service.http.problems import ProblemError


class Painter:
    """Draws for as long as it is held; counts what it began and what was abandoned."""

    def __init__(self):
        self.go_on = threading.Event()
        self.begun, self.abandoned = [], []

    def draw(self, name, size=10):
        def run(check):
            self.begun.append(name)
            try:
                while not self.go_on.wait(0.005):
                    check()
            except DrawingAbandoned:
                self.abandoned.append(name)
                raise
            return Drawing(name.encode().ljust(size), "image/svg+xml")

        return run


@pytest.fixture
def painter():
    painter = Painter()
    yield painter
    painter.go_on.set()


async def until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def asked(drawings, painter, name, **size):
    return asyncio.ensure_future(drawings.get(name, painter.draw(name, **size)))


def test_the_same_drawing_is_computed_once(painter):
    async def run():
        drawings = Drawings()
        together = [asked(drawings, painter, "a") for _ in range(20)]
        await until(lambda: painter.begun)
        painter.go_on.set()
        first = {(await one).content for one in together}
        return first, (await asked(drawings, painter, "a")).content

    first, again = asyncio.run(run())
    assert first == {again}
    assert painter.begun == ["a"]


def test_few_are_computed_at_once_and_other_threads_are_free(painter):
    async def run():
        drawings = Drawings(at_once=2)
        asking = [asked(drawings, painter, str(i)) for i in range(50)]
        await until(lambda: len(painter.begun) == 2)
        await asyncio.sleep(0.05)
        assert len(painter.begun) == 2
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "answered"), 1) == "answered"
        painter.go_on.set()
        return await asyncio.gather(*asking)

    assert len(asyncio.run(run())) == 50


def test_too_many_are_refused_and_told_when_to_come_back(painter):
    async def run():
        drawings = Drawings(at_once=1, most_waiting=2)
        asking = [asked(drawings, painter, str(i)) for i in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ProblemError) as refused:
            await drawings.get("more", painter.draw("more"))
        painter.go_on.set()
        await asyncio.gather(*asking)
        return refused.value

    refused = asyncio.run(run())
    assert refused.status == 503
    assert int(refused.headers["Retry-After"]) > 0


def test_nobody_waits_for_long(painter):
    async def run():
        drawings = Drawings(at_once=1, most_seconds=0.1)
        with pytest.raises(ProblemError) as refused:
            await drawings.get("a", painter.draw("a"))
        await until(lambda: painter.abandoned == ["a"])
        return refused.value

    assert asyncio.run(run()).status == 503


def test_who_leaves_ends_the_computation_and_leaves_the_queue(painter):
    async def run():
        drawings = Drawings(at_once=1)
        running = asked(drawings, painter, "running")
        await until(lambda: painter.begun)
        waiting = asked(drawings, painter, "waiting")
        stays = asked(drawings, painter, "stays")
        await asyncio.sleep(0.02)
        waiting.cancel()
        running.cancel()
        await until(lambda: painter.begun == ["running", "stays"])
        painter.go_on.set()
        await stays

    asyncio.run(run())
    assert painter.abandoned == ["running"]


def test_a_drawing_goes_on_while_one_client_is_left(painter):
    async def run():
        drawings = Drawings()
        first, second = (asked(drawings, painter, "a") for _ in range(2))
        await until(lambda: painter.begun)
        first.cancel()
        await asyncio.sleep(0.05)
        painter.go_on.set()
        return (await second).content.strip()

    assert asyncio.run(run()) == b"a"
    assert painter.begun == ["a"]
    assert not painter.abandoned


def test_a_drawing_that_was_left_can_be_asked_for_again(painter):
    async def run():
        drawings = Drawings(at_once=1)
        left = asked(drawings, painter, "a")
        await until(lambda: painter.begun)
        left.cancel()
        await asyncio.sleep(0)
        again = asked(drawings, painter, "a")
        await until(lambda: painter.begun == ["a", "a"])
        painter.go_on.set()
        return (await again).content.strip()

    assert asyncio.run(run()) == b"a"


def test_memory_for_drawings_is_bounded(painter):
    painter.go_on.set()

    async def run():
        drawings = Drawings(cache_bytes=250)
        for name in ("a", "b", "a", "c", "a", "b"):
            await drawings.get(name, painter.draw(name, size=100))
        await drawings.get("huge", painter.draw("huge", size=300))
        await drawings.get("b", painter.draw("b"))

    asyncio.run(run())
    # c took the place of b, the one that was not used for longest
    assert painter.begun == ["a", "b", "c", "b", "huge"]


def test_faults_are_told_to_all_and_not_kept():
    calls = []

    def broken(_):
        calls.append(1)
        raise ValueError("broken")

    async def run():
        drawings = Drawings()
        together = [drawings.get("a", broken) for _ in range(3)]
        found = await asyncio.gather(*together, return_exceptions=True)
        assert [str(error) for error in found] == ["broken"] * 3
        with pytest.raises(ValueError, match="broken"):
            await drawings.get("a", broken)

    asyncio.run(run())
    assert len(calls) == 2
