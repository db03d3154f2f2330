"""Takes no message before the child process can run it."""

from __future__ import annotations

from typing import Any

from celery import bootsteps
from celery.worker.consumer.tasks import Tasks


class WaitForChild(bootsteps.StartStopStep):  # type: ignore[misc]
    """Leaves messages to other workers while the child imports torch.

    Celery takes a message as soon as the parent runs. A job whose worker was killed would wait for
    the start of the replacement, although another worker is idle.
    """

    requires = (Tasks,)

    def start(self, parent: Any) -> None:
        qos = parent.task_consumer.channel.qos  # new after each lost connection to the broker
        can_consume = qos.can_consume
        pool = parent.pool._pool
        # The queues of the children that have reported that they are up.
        qos.can_consume = lambda: bool(pool._all_inqueues) and can_consume()
