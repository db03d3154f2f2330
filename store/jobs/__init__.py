"""The job functions that service and worker use.

queued → running → succeeded | failed | canceled | expired; the job of a dead worker is requeued.
A queued job with a lease is reserved: a worker will begin it soon unless it is canceled.
"""

from __future__ import annotations

from d4explain.contracts.job_states import EventType, JobKind, JobState, Queue
from store.database.tables import Job, JobEvent
from store.jobs.cancellation import cancel
from store.jobs.claims import (
    Beat,
    Claim,
    begin,
    cancel_running,
    claim,
    expire,
    fail,
    give_back,
    heartbeat,
    held,
    record_checkpoint,
    record_progress,
    release,
    reserve_matching,
    succeed,
)
from store.jobs.fair_groups import FairGroup, Waiting, group_of, is_another_waiting, waiting_groups
from store.jobs.job_events import events
from store.jobs.reaper import (
    Announcement,
    announce_again,
    announce_all_again,
    due,
    is_anything_due,
    is_anything_to_reap,
    never_announced,
    reap,
)
from store.jobs.submission import Priority, get, get_all, page, submit
from store.jobs.time_left import TrainingQueue

__all__ = [
    "Announcement",
    "Beat",
    "Claim",
    "EventType",
    "FairGroup",
    "Job",
    "JobEvent",
    "JobKind",
    "JobState",
    "Priority",
    "Queue",
    "TrainingQueue",
    "Waiting",
    "announce_again",
    "announce_all_again",
    "begin",
    "cancel",
    "cancel_running",
    "claim",
    "due",
    "events",
    "expire",
    "fail",
    "get",
    "get_all",
    "give_back",
    "group_of",
    "heartbeat",
    "held",
    "is_another_waiting",
    "is_anything_due",
    "is_anything_to_reap",
    "never_announced",
    "page",
    "reap",
    "record_checkpoint",
    "record_progress",
    "release",
    "reserve_matching",
    "submit",
    "succeed",
    "waiting_groups",
]
