"""Tells API processes that a job has ended; a request that misses the message polls."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import redis
from redis.client import PubSub

from store.queue.redis_urls import for_redis_py

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 5.0  # after a failure, so that a broker outage does not slow down every job


class JobNotifications:
    """A Redis channel, used to publish or to receive; its methods never raise broker errors."""

    def __init__(self, redis_url: str) -> None:
        self._redis = redis.Redis.from_url(
            for_redis_py(redis_url),
            socket_timeout=1,
            socket_connect_timeout=1,
            decode_responses=True,
        )
        # All databases of a Redis server share their channels; deployments must not.
        database = self._redis.connection_pool.connection_kwargs.get("db") or 0
        self._channel = f"d4explain:{database}:ended"
        self._paused_until = 0.0
        self._subscription: PubSub | None = None

    def publish(self, job_ids: Sequence[str]) -> None:
        if not job_ids or time.monotonic() < self._paused_until:
            return
        try:
            self._redis.publish(self._channel, " ".join(job_ids))
        except (OSError, redis.RedisError) as error:
            self._paused_until = time.monotonic() + _PAUSE_SECONDS
            log.info("cannot publish ended jobs: %s", error)

    def receive(self, seconds: float) -> set[str]:
        """Waits up to `seconds` for ids of ended jobs; returns an empty set on timeout."""
        try:
            if self._subscription is None:
                pool = self._redis.connection_pool
                self._subscription = PubSub(pool, ignore_subscribe_messages=True)
                self._subscription.subscribe(self._channel)
            message = self._subscription.get_message(timeout=seconds)
        except (OSError, redis.RedisError) as error:
            log.debug("cannot receive ended jobs: %s", error)
            self._subscription = None
            time.sleep(seconds)
            return set()
        return set() if message is None else set(message["data"].split())

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
        self._redis.close()
