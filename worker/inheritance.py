"""What the parent tells its child through the environment, which is all that spawn hands down."""

from __future__ import annotations

QUEUES = "D4_WORKER_QUEUES"  # served by this worker, comma-separated
PARENT = "D4_WORKER_PARENT"  # process id
