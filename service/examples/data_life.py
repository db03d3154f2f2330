"""Examples of holds."""

from __future__ import annotations

from service.examples.shared import EXPLANATION_ID, GNN_ID, SET_ID, Example

HOLD_IN: Example = {"reason": "Audit 2026-118"}
HOLD: Example = {
    "resource": EXPLANATION_ID,
    "reason": "Audit 2026-118",
    "protects": [GNN_ID, SET_ID],
    "key_id": None,
    "created_at": "2026-11-18T09:30:00.000Z",
}
HOLDS: Example = {"items": [HOLD]}
