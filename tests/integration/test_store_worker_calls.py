"""Calls to workers through a real broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING

from d4explain.contracts.worker_calls import CallKind
from store.queue.worker_calls import Call, CallReceiver, WorkerCalls

if TYPE_CHECKING:
    from tests.processes import Stack

KIND = CallKind.WHAT_IF


def answering(receiver: CallReceiver, act: Callable[[Call], None]) -> Thread:
    def run() -> None:
        call = receiver.receive(10)
        assert call is not None
        act(call)

    thread = Thread(target=run)
    thread.start()
    return thread


def test_a_call_gets_the_answer_of_a_worker(stack: Stack) -> None:
    receiver = CallReceiver(stack.broker.url, [KIND])
    thread = answering(receiver, lambda call: receiver.answer(call, f"{call.body}!"))

    async def ask() -> str | None:
        calls = WorkerCalls(stack.broker.url)
        try:
            return await calls.ask(KIND, "hello", 10)
        finally:
            await calls.close()

    assert asyncio.run(ask()) == "hello!"
    thread.join()


def test_a_call_that_nobody_answers_ends_and_is_skipped_later(stack: Stack) -> None:
    async def ask() -> str | None:
        calls = WorkerCalls(stack.broker.url)
        try:
            waiting = asyncio.ensure_future(calls.ask(KIND, "left", 10))
            await asyncio.sleep(0.2)
            waiting.cancel()  # the client has left
            await asyncio.wait([waiting])
            return await calls.ask(KIND, "hello", 0.2)
        finally:
            await calls.close()

    assert asyncio.run(ask()) is None
    receiver = CallReceiver(stack.broker.url, [KIND])
    time.sleep(0.3)
    assert [receiver.receive(1), receiver.receive(1)] == [None, None]


def test_without_a_broker_there_is_no_answer(stack: Stack) -> None:
    stack.broker.kill()

    async def ask() -> str | None:
        return await WorkerCalls(stack.broker.url).ask(KIND, "hello", 1)

    began = time.monotonic()
    assert asyncio.run(ask()) is None
    assert CallReceiver(stack.broker.url, [KIND]).receive(0.1) is None
    assert time.monotonic() - began < 10
