"""What a parent hands to the child that it spawns: environment variables and a signal."""

from __future__ import annotations

import signal

QUEUES = "D4_WORKER_QUEUES"  # served by this worker, comma-separated
PARENT = "D4_WORKER_PARENT"  # process id
SHUTDOWN = signal.SIGUSR2  # the parent shuts down: give up the running job

# A thread of the child waits for these; no other thread may get them.
LISTENED = frozenset({SHUTDOWN, signal.SIGTERM})
