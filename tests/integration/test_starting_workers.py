"""A worker whose child process is still starting takes no job from others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis

from store.jobs import Announcement, Queue
from store.jobs.submission import JOB_FORMAT
from store.queue.celery_config import message_queue
from store.queue.queue_publisher import QueuePublisher
from tests.processes import Stack, WorkerProcess, opened_stack


@pytest.fixture
def own_stack(tmp_path: Path) -> Iterator[Stack]:
    with opened_stack(tmp_path) as running:
        yield running


def stopped_child(stack: Stack, worker: WorkerProcess) -> psutil.Process:
    """The child of a worker, stopped before it is ready."""
    found: list[psutil.Process] = []

    def has_child() -> bool:
        # The other process that billiard starts is its resource tracker.
        found[:] = [one for one in worker.children() if "spawn_main" in " ".join(one.cmdline())]
        return bool(found)

    stack.until(has_child, "the child has started", 60)
    found[0].suspend()
    return found[0]


def test_a_message_waits_for_a_ready_child(own_stack: Stack) -> None:
    stack = own_stack
    child = stopped_child(stack, stack.start_worker("light"))
    publisher = QueuePublisher(stack.broker.url)
    publisher.publish([Announcement("job_unknown", 0, Queue.LIGHT, 0, JOB_FORMAT)])
    publisher.close()
    queue = message_queue(Queue.LIGHT, JOB_FORMAT)
    with redis.Redis.from_url(stack.broker.url) as broker:
        # The parent has connected; it asks the broker for messages in less than a second.
        stack.until(lambda: len(broker.client_list()) > 3, "the parent has connected", 60)
        time.sleep(2)
        assert broker.llen(queue) == 1
        child.resume()
        stack.until(lambda: broker.llen(queue) == 0, "the message is taken", 90)
