"""Asks a running worker through the broker: a call is answered within seconds or not at all.

A call is a list entry with an id; its body and its answer are keys that expire. If nobody waits for
an answer any more, its body is gone, and the worker that takes the entry skips it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import redis
import redis.asyncio

from d4explain.contracts.worker_calls import CallKind
from store.queue.redis_urls import for_redis_py

log = logging.getLogger(__name__)

# Asks a call of some kind with a body; None if nobody has answered within some seconds.
AskWorker = Callable[[CallKind, str, float], Awaitable[str | None]]

_ANSWER_SECONDS = 30  # an answer that nobody reads expires
_PAUSE_SECONDS = 1.0  # after a failure of the broker


def _list_of(kind: CallKind) -> str:
    return f"d4explain:calls:{kind}"


def _body_of(call_id: str) -> str:
    return f"d4explain:call:{call_id}:body"


def _answer_of(call_id: str) -> str:
    return f"d4explain:call:{call_id}:answer"


class WorkerCalls:
    """The side of the API; belongs to one event loop."""

    def __init__(self, redis_url: str) -> None:
        self._redis = redis.asyncio.Redis.from_url(
            for_redis_py(redis_url), socket_connect_timeout=1, decode_responses=True
        )

    async def ask(self, kind: CallKind, body: str, seconds: float) -> str | None:
        """The answer; None if no worker answered in time or the broker is unavailable."""
        call_id = secrets.token_hex(10)
        try:
            async with self._redis.pipeline(transaction=True) as sent:
                sent.set(_body_of(call_id), body, px=int(1000 * seconds))
                sent.lpush(_list_of(kind), call_id)
                sent.expire(_list_of(kind), _ANSWER_SECONDS)
                await sent.execute()
            async with asyncio.timeout(seconds + 1):
                answered = await self._redis.blpop([_answer_of(call_id)], timeout=seconds)
        except (OSError, TimeoutError, redis.RedisError) as error:
            log.info("could not ask a worker: %s", error)
            return None
        except asyncio.CancelledError:  # the client has left
            await asyncio.shield(self._forget(call_id))
            raise
        return None if answered is None else str(answered[1])

    async def close(self) -> None:
        await self._redis.aclose()

    async def _forget(self, call_id: str) -> None:
        try:
            await self._redis.delete(_body_of(call_id))
        except (OSError, redis.RedisError):
            log.debug("could not withdraw a call; it expires")


async def nobody_answers(kind: CallKind, body: str, seconds: float) -> None:
    """Without a broker there are no workers."""


@dataclass(frozen=True)
class Call:
    id: str
    kind: CallKind
    body: str


class CallReceiver:
    """The side of a worker; belongs to one thread. Outages of the broker only delay it."""

    def __init__(self, redis_url: str, kinds: Sequence[CallKind]) -> None:
        self._redis = redis.Redis.from_url(
            for_redis_py(redis_url), socket_connect_timeout=1, decode_responses=True
        )
        self._kinds = {_list_of(kind): kind for kind in kinds}

    def receive(self, seconds: float) -> Call | None:
        """Waits up to `seconds` for a call that somebody still waits for."""
        try:
            taken = self._redis.brpop(list(self._kinds), timeout=seconds)
            if taken is None:
                return None
            listed, call_id = (str(part) for part in taken)
            with self._redis.pipeline() as sent:
                sent.get(_body_of(call_id))
                sent.delete(_body_of(call_id))
                body, _ = sent.execute()
        except (OSError, redis.RedisError) as error:
            log.debug("cannot receive calls: %s", error)
            time.sleep(_PAUSE_SECONDS)
            return None
        return None if body is None else Call(call_id, self._kinds[listed], body)

    def answer(self, call: Call, text: str) -> None:
        try:
            key = _answer_of(call.id)
            with self._redis.pipeline() as sent:
                sent.rpush(key, text)
                sent.expire(key, _ANSWER_SECONDS)
                sent.execute()
        except (OSError, redis.RedisError) as error:
            log.info("could not answer a call: %s", error)
