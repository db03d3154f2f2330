"""Jobs, as service and worker use them.

queued → running → succeeded | failed | canceled | expired; a silent worker's job is queued again.
"""

from __future__ import annotations

from store.cancellation import cancel, retry
from store.claims import (
    Beat,
    Claim,
    cancel_running,
    claim,
    expire,
    fail,
    heartbeat,
    held,
    record_checkpoint,
    record_progress,
    release,
    succeed,
)
from store.job_events import events
from store.job_states import EventType, JobKind, JobState, Queue
from store.reaper import (
    announce_again,
    announce_all_again,
    due,
    is_anything_due,
    is_anything_to_reap,
    reap,
)
from store.submission import Priority, get, page, submit
from store.tables import Job, JobEvent

__all__ = [
    "Beat",
    "Claim",
    "EventType",
    "Job",
    "JobEvent",
    "JobKind",
    "JobState",
    "Priority",
    "Queue",
    "announce_again",
    "announce_all_again",
    "cancel",
    "cancel_running",
    "claim",
    "due",
    "events",
    "expire",
    "fail",
    "get",
    "heartbeat",
    "held",
    "is_anything_due",
    "is_anything_to_reap",
    "page",
    "reap",
    "record_checkpoint",
    "record_progress",
    "release",
    "retry",
    "submit",
    "succeed",
]
