"""Examples of the health routes."""

from __future__ import annotations

from service.examples.shared import DONE, Example

_NO_ROOM = (
    "only 3.1 MiB are free for artifacts; 32 MiB are kept for running jobs; "
    "new work is refused until there is room"
)
READY: Example = {
    "status": "ready",
    "accepts_submissions": True,
    "reasons": [],
    "checks": {
        "database": {"ok": True, "detail": "answers"},
        "disk": {"ok": True, "detail": "has room"},
        "broker": {"ok": True, "detail": "answers"},
        "workers": {"ok": True, "detail": "every queue is served"},
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
    "reasons": [f"disk: {_NO_ROOM}"],
    "checks": {**READY["checks"], "disk": {"ok": False, "detail": _NO_ROOM}},
}
