"""What a parent passes to the child process that it spawns: environment variables and a signal."""

from __future__ import annotations

import signal

QUEUES_VARIABLE = "D4_WORKER_QUEUES"  # the queues of this worker, comma-separated
PARENT_VARIABLE = "D4_WORKER_PARENT"  # the process id of the parent
SHUTDOWN_SIGNAL = signal.SIGUSR2  # the parent shuts down: release the running job

# One thread of the child waits for these signals; all other threads block them.
HANDLED_SIGNALS = frozenset({SHUTDOWN_SIGNAL, signal.SIGTERM})
