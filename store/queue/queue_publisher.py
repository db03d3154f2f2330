"""Tells workers that a job is queued; the job itself is in the database."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Sequence
from itertools import groupby
from typing import Protocol
from uuid import uuid4

import redis

from store.jobs import Announcement
from store.queue.celery_config import TASK_NAME
from store.queue.redis_urls import for_redis_py

_EPOCH_KEY = "d4explain:epoch"
_TIMEOUT_SECONDS = 2
_BROKER_ERRORS = (OSError, redis.RedisError)
_PRIORITY_SEPARATOR = "\x06\x16"  # between queue and priority in the names of kombu's lists
_NO_CALLBACKS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


class BrokerDown(Exception):  # noqa: N818 - named for what happened
    """The broker cannot be reached; the job stays queued and is announced later."""


class Publisher(Protocol):
    """The part of a broker that the dispatcher uses."""

    def publish(self, announced: Sequence[Announcement]) -> None: ...

    def epoch(self) -> str: ...

    def close(self) -> None: ...


class QueuePublisher:
    """Writes Celery messages to the broker's lists; every call returns or fails in seconds.

    A pooled kombu producer would cost a quarter of the throughput of submissions (decision 12). A
    test compares these messages with those of `send_task`.
    """

    def __init__(self, redis_url: str) -> None:
        self._redis = redis.Redis.from_url(
            for_redis_py(redis_url),
            socket_timeout=_TIMEOUT_SECONDS,
            socket_connect_timeout=_TIMEOUT_SECONDS,
            decode_responses=True,
        )

    def publish(self, announced: Sequence[Announcement]) -> None:
        """Sends one message per job in one round trip; if it fails, some may have been sent."""
        try:
            with self._redis.pipeline(transaction=False) as pipeline:
                for name, jobs in groupby(announced, _list_name):
                    pipeline.lpush(name, *map(_message, jobs))
                pipeline.execute()
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
        self._redis.close()


def _list_name(job: Announcement) -> str:
    queue = job.queue.value
    return queue if job.priority == 0 else f"{queue}{_PRIORITY_SEPARATOR}{job.priority}"


def _message(job: Announcement) -> str:
    """A message of Celery's protocol 2 in kombu's envelope for Redis."""
    task_id = str(uuid4())
    arguments = json.dumps([[job.job_id], {}, _NO_CALLBACKS])
    message = {
        "body": base64.b64encode(arguments.encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": TASK_NAME,
            "id": task_id,
            "root_id": task_id,
            "parent_id": None,
            "group": None,
            "group_index": None,
            "shadow": None,
            "eta": None,
            "expires": None,
            "retries": 0,
            "timelimit": [None, None],
            "argsrepr": repr([job.job_id]),
            "kwargsrepr": "{}",
            "origin": "d4explain",
            "ignore_result": True,
            "replaced_task_nesting": 0,
            "stamped_headers": None,
            "stamps": {},
        },
        "properties": {
            "correlation_id": task_id,
            "reply_to": "",
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": job.queue.value},
            "priority": job.priority,
            "body_encoding": "base64",
            "delivery_tag": str(uuid4()),
        },
    }
    return json.dumps(message)
