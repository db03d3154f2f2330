"""Tells those who wait that jobs have ended; whoever does not hear it finds out by looking."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import redis
from redis.client import PubSub

from store.queue.redis_urls import for_redis_py

log = logging.getLogger(__name__)

_SILENT_SECONDS = 5.0  # after a failure: a broker that is away shall not hold up every ending


class JobNotifications:
    """One end of a channel of the broker, to strike or to listen; nothing that it does raises."""

    def __init__(self, redis_url: str) -> None:
        self._redis = redis.Redis.from_url(
            for_redis_py(redis_url),
            socket_timeout=1,
            socket_connect_timeout=1,
            decode_responses=True,
        )
        # Channels are the same in all databases of a server, deployments are not.
        database = self._redis.connection_pool.connection_kwargs.get("db") or 0
        self._channel = f"d4explain:{database}:ended"
        self._silent_until = 0.0
        self._heard: PubSub | None = None

    def strike(self, job_ids: Sequence[str]) -> None:
        if not job_ids or time.monotonic() < self._silent_until:
            return
        try:
            self._redis.publish(self._channel, " ".join(job_ids))
        except (OSError, redis.RedisError) as error:
            self._silent_until = time.monotonic() + _SILENT_SECONDS
            log.info("nobody is told that jobs have ended: %s", error)

    def heard(self, seconds: float) -> set[str]:
        """Jobs that have ended, as soon as that is heard; none after `seconds`."""
        try:
            if self._heard is None:
                pool = self._redis.connection_pool
                self._heard = PubSub(pool, ignore_subscribe_messages=True)
                self._heard.subscribe(self._channel)
            message = self._heard.get_message(timeout=seconds)
        except (OSError, redis.RedisError) as error:
            log.debug("nothing is heard: %s", error)
            self._heard = None
            time.sleep(seconds)
            return set()
        return set() if message is None else set(message["data"].split())

    def close(self) -> None:
        if self._heard is not None:
            self._heard.close()
        self._redis.close()
