"""Sends workers the message that a job is queued; the job itself is in the database."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Protocol

import redis
from kombu.exceptions import KombuError

from store.jobs import Announcement
from store.queue.celery_config import TASK_NAME, broker_app, message_queue
from store.queue.redis_urls import for_redis_py

_EPOCH_KEY = "d4explain:epoch"
_TIMEOUT_SECONDS = 2
_BROKER_ERRORS = (OSError, redis.RedisError, KombuError)
# Fail at once: the dispatcher tries again later, and the job stays queued meanwhile.
_NO_RETRIES = {"max_retries": 0, "interval_start": 0, "interval_step": 0, "interval_max": 0}


class BrokerDown(Exception):  # noqa: N818 - named for what happened
    """The broker cannot be reached; the job stays queued and is announced later."""


class Publisher(Protocol):
    """The part of a broker that the dispatcher uses."""

    def publish(self, announced: Sequence[Announcement]) -> None: ...

    def epoch(self) -> str: ...

    def close(self) -> None: ...


class QueuePublisher:
    """Sends Celery messages through a pooled producer; every call returns or fails in seconds."""

    def __init__(self, redis_url: str) -> None:
        self._app = broker_app("publisher", redis_url)
        options = self._app.conf.broker_transport_options
        self._app.conf.broker_transport_options = {
            **options,
            **_NO_RETRIES,
            "socket_timeout": _TIMEOUT_SECONDS,
        }
        self._redis = redis.Redis.from_url(
            for_redis_py(redis_url),
            socket_timeout=_TIMEOUT_SECONDS,
            socket_connect_timeout=_TIMEOUT_SECONDS,
            decode_responses=True,
        )

    def publish(self, announced: Sequence[Announcement]) -> None:
        """Sends one message per job; if it fails, some messages may have been sent."""
        try:
            with self._app.producer_pool.acquire(block=True, timeout=_TIMEOUT_SECONDS) as producer:
                for job in announced:
                    self._app.send_task(
                        TASK_NAME,
                        args=[job.job_id],
                        queue=message_queue(job.queue, job.format),
                        priority=job.priority,
                        producer=producer,
                        retry=False,
                        ignore_result=True,
                    )
        except _BROKER_ERRORS as error:
            raise BrokerDown(str(error)) from error

    def epoch(self) -> str:
        """A random id stored in the broker; a new id means that the broker lost its messages."""
        try:
            known = self._redis.get(_EPOCH_KEY)
            if known is None:  # several processes may set it at once: the first one wins
                self._redis.set(_EPOCH_KEY, secrets.token_hex(16), nx=True)
                known = self._redis.get(_EPOCH_KEY)
            return str(known)
        except _BROKER_ERRORS as error:
            raise BrokerDown(str(error)) from error

    def ping(self) -> bool:
        try:
            return bool(self._redis.ping())
        except _BROKER_ERRORS:
            return False

    def close(self) -> None:
        self._app.close()
        self._redis.close()
