"""Examples of the health routes."""

from __future__ import annotations

from service.examples.shared import DONE, Example

_DISK_FULL = (
    "only 3.1 MiB are free for artifacts; 32 MiB are kept for running jobs; "
    "the API rejects new work until there is space"
)
READY: Example = {
    "status": "ready",
    "accepts_submissions": True,
    "reasons": [],
    "checks": {
        "database": {"ok": True, "detail": "available"},
        "disk": {"ok": True, "detail": "has space"},
        "broker": {"ok": True, "detail": "available"},
        "workers": {"ok": True, "detail": "every queue has a worker"},
    },
    "workers": [
        {
            "name": "worker-1",
            "queues": ["sample", "light"],
            "device": "cpu",
            "seen_at": DONE,
        }
    ],
    "queues": {"train": {"queued": 1, "waiting": 0, "running": 1}},
}
NOT_READY: Example = {
    **READY,
    "status": "not ready",
    "accepts_submissions": False,
    "reasons": [f"disk: {_DISK_FULL}"],
    "checks": {**READY["checks"], "disk": {"ok": False, "detail": _DISK_FULL}},
}
