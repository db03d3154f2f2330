from __future__ import annotations

import asyncio
import threading
import time

import pytest

from service.drawing.drawing_queue import Drawing, DrawingAbandoned, Drawings
from service.http.problems import ProblemError


class SlowRenderer:
    """Renders until `finish` is set; records the drawings that were started and abandoned."""

    def __init__(self):
        self.finish = threading.Event()
        self.started, self.abandoned = [], []

    def draw(self, name, size=10):
        def run(check):
            self.started.append(name)
            try:
                while not self.finish.wait(0.005):
                    check()
            except DrawingAbandoned:
                self.abandoned.append(name)
                raise
            return Drawing(name.encode().ljust(size), "image/svg+xml")

        return run


@pytest.fixture
def renderer():
    renderer = SlowRenderer()
    yield renderer
    renderer.finish.set()


async def until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def request(drawings, renderer, name, **size):
    return asyncio.ensure_future(drawings.get(name, renderer.draw(name, **size)))


def test_the_same_drawing_is_computed_once(renderer):
    async def run():
        drawings = Drawings()
        requests = [request(drawings, renderer, "a") for _ in range(20)]
        await until(lambda: renderer.started)
        renderer.finish.set()
        first = {(await one).content for one in requests}
        return first, (await request(drawings, renderer, "a")).content

    first, again = asyncio.run(run())
    assert first == {again}
    assert renderer.started == ["a"]


def test_few_drawings_run_concurrently_and_other_threads_stay_free(renderer):
    async def run():
        drawings = Drawings(threads=2)
        requests = [request(drawings, renderer, str(i)) for i in range(50)]
        await until(lambda: len(renderer.started) == 2)
        await asyncio.sleep(0.05)
        assert len(renderer.started) == 2
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "answered"), 1) == "answered"
        renderer.finish.set()
        return await asyncio.gather(*requests)

    assert len(asyncio.run(run())) == 50


def test_a_full_queue_answers_503_with_retry_after(renderer):
    async def run():
        drawings = Drawings(threads=1, max_waiting=2)
        requests = [request(drawings, renderer, str(i)) for i in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ProblemError) as rejected:
            await drawings.get("more", renderer.draw("more"))
        renderer.finish.set()
        await asyncio.gather(*requests)
        return rejected.value

    rejected = asyncio.run(run())
    assert rejected.status == 503
    assert int(rejected.headers["Retry-After"]) > 0


def test_a_slow_drawing_times_out_and_is_abandoned(renderer):
    async def run():
        drawings = Drawings(threads=1, timeout_seconds=0.1)
        with pytest.raises(ProblemError) as rejected:
            await drawings.get("a", renderer.draw("a"))
        await until(lambda: renderer.abandoned == ["a"])
        return rejected.value

    assert asyncio.run(run()).status == 503


def test_disconnecting_ends_the_computation_or_leaves_the_queue(renderer):
    async def run():
        drawings = Drawings(threads=1)
        running = request(drawings, renderer, "running")
        await until(lambda: renderer.started)
        waiting = request(drawings, renderer, "waiting")
        remaining = request(drawings, renderer, "remaining")
        await asyncio.sleep(0.02)
        waiting.cancel()
        running.cancel()
        await until(lambda: renderer.started == ["running", "remaining"])
        renderer.finish.set()
        await remaining

    asyncio.run(run())
    assert renderer.abandoned == ["running"]


def test_a_drawing_continues_while_one_client_remains(renderer):
    async def run():
        drawings = Drawings()
        first, second = (request(drawings, renderer, "a") for _ in range(2))
        await until(lambda: renderer.started)
        first.cancel()
        await asyncio.sleep(0.05)
        renderer.finish.set()
        return (await second).content.strip()

    assert asyncio.run(run()) == b"a"
    assert renderer.started == ["a"]
    assert not renderer.abandoned


def test_an_abandoned_drawing_can_be_requested_again(renderer):
    async def run():
        drawings = Drawings(threads=1)
        abandoned = request(drawings, renderer, "a")
        await until(lambda: renderer.started)
        abandoned.cancel()
        await asyncio.sleep(0)
        again = request(drawings, renderer, "a")
        await until(lambda: renderer.started == ["a", "a"])
        renderer.finish.set()
        return (await again).content.strip()

    assert asyncio.run(run()) == b"a"


def test_the_cache_is_bounded(renderer):
    renderer.finish.set()

    async def run():
        drawings = Drawings(cache_bytes=250)
        for name in ("a", "b", "a", "c", "a", "b"):
            await drawings.get(name, renderer.draw(name, size=100))
        await drawings.get("huge", renderer.draw("huge", size=300))
        await drawings.get("b", renderer.draw("b"))

    asyncio.run(run())
    # c evicted b, the least recently used
    assert renderer.started == ["a", "b", "c", "b", "huge"]


def test_every_client_gets_the_error_and_it_is_not_cached():
    calls = []

    def broken(_):
        calls.append(1)
        raise ValueError("broken")

    async def run():
        drawings = Drawings()
        requests = [drawings.get("a", broken) for _ in range(3)]
        errors = await asyncio.gather(*requests, return_exceptions=True)
        assert [str(error) for error in errors] == ["broken"] * 3
        with pytest.raises(ValueError, match="broken"):
            await drawings.get("a", broken)

    asyncio.run(run())
    assert len(calls) == 2
