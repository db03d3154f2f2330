"""Tells workers that a job is there; the job itself is in the database."""

from __future__ import annotations

import secrets
from typing import Protocol

import redis
from kombu.exceptions import OperationalError

from store.celery_config import TASK_NAME, broker_app
from store.redis_urls import for_redis_py

_EPOCH_KEY = "d4explain:epoch"


class BrokerDown(Exception):  # noqa: N818 - named for what happened
    """The broker cannot be reached; the job stays queued and is announced later."""


class Bell(Protocol):
    """What the dispatcher needs of a broker."""

    def ring(self, job_id: str, queue: str, priority: int) -> None: ...

    def epoch(self) -> str: ...

    def close(self) -> None: ...


class Doorbell:
    """Rings through Celery's Redis transport; every call answers or fails within seconds."""

    def __init__(self, redis_url: str) -> None:
        self._app = broker_app("d4explain.doorbell", redis_url)
        self._redis = redis.Redis.from_url(
            for_redis_py(redis_url),
            socket_timeout=2,
            socket_connect_timeout=2,
            decode_responses=True,
        )

    def ring(self, job_id: str, queue: str, priority: int) -> None:
        try:
            self._app.send_task(
                TASK_NAME, args=[job_id], queue=queue, priority=priority, retry=False
            )
        except (OSError, redis.RedisError, OperationalError) as error:
            raise BrokerDown(str(error)) from error

    def epoch(self) -> str:
        """Stays the same for as long as the broker remembers; a new one means it lost messages."""
        try:
            known = self._redis.get(_EPOCH_KEY)
            if known is None:  # others may do the same now: the first one's word stays
                self._redis.set(_EPOCH_KEY, secrets.token_hex(16), nx=True)
                known = self._redis.get(_EPOCH_KEY)
            return str(known)
        except (OSError, redis.RedisError) as error:
            raise BrokerDown(str(error)) from error

    def ping(self) -> bool:
        try:
            return bool(self._redis.ping())
        except (OSError, redis.RedisError):
            return False

    def close(self) -> None:
        self._redis.close()
        self._app.close()
