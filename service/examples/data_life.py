"""Examples of holds, quotas and retention times."""

from __future__ import annotations

from service.examples.shared import EXPLANATION_ID, GNN_ID, SET_ID, Example

METADATA_PATCH: Example = {"metadata": {"reviewed": True, "run": None}}
HOLD_IN: Example = {"reason": "Audit 2026-118"}
HOLD: Example = {
    "resource": EXPLANATION_ID,
    "reason": "Audit 2026-118",
    "protects": [GNN_ID, SET_ID],
    "key_id": None,
    "created_at": "2026-11-18T09:30:00.000Z",
}
HOLDS: Example = {"items": [HOLD]}
QUOTAS: Example = {
    "jobs": {"limit": 1000, "used": 12},
    "work_seconds": {"limit": None, "used": 340.5},
    "stored_bytes": {"limit": 10_000_000_000, "used": 52_428_800},
    "requests_per_second": None,
}
RETENTION_IN: Example = {"explanations": 90, "jobs": 30}
RETENTION: Example = {"explanations": 90, "jobs": 30, "networks": None, "datasets": None}
