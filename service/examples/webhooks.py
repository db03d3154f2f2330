"""Examples of webhooks."""

from __future__ import annotations

from service.examples.explanations import EXPLANATION
from service.examples.jobs import TRAIN_JOB
from service.examples.shared import CREATED, DENOISER_ID, GNN_ID, METADATA, SET_ID, Example

_WEBHOOK_ID = "whk_01k9xw3e8p2m5t7c4q6z"
_SECRET = "whsec_ZXhhbXBsZSBzZWNyZXQgb2YgdGhlIHNlcnZpY2UuLi4="
REQUEST_WEBHOOK: Example = {
    "url": "https://hooks.example.org/d4explain?question=17",
    "secret": _SECRET,
}
WEBHOOK_IN: Example = {
    "url": "https://hooks.example.org/d4explain",
    "events": ["explanation.succeeded", "explanation.failed"],
    "description": "the dashboard",
}
WEBHOOK: Example = {
    **WEBHOOK_IN,
    "id": _WEBHOOK_ID,
    "enabled": True,
    "failures": 0,
    "metadata": {},
    "previous_secret_until": None,
    "created_at": CREATED,
}
NEW_WEBHOOK: Example = {**WEBHOOK, "secret": _SECRET}
WEBHOOK_PATCH: Example = {"enabled": False}
PENDING_DELIVERY: Example = {
    "id": "msg_01k9xw3f1n8r4d6s2v0y",
    "webhook": _WEBHOOK_ID,
    "event": "explanation.succeeded",
    "job": TRAIN_JOB["id"],
    "state": "pending",
    "attempts": 1,
    "history": [{"at": CREATED, "status": 503, "failure": "status", "seconds": 0.041}],
    "next_attempt_at": CREATED,
    "body": {
        "type": "explanation.succeeded",
        "timestamp": CREATED,
        "data": {
            "id": EXPLANATION["id"],
            "kind": "counterfactual",
            "state": "succeeded",
            "url": f"/v1/explanations/{EXPLANATION['id']}",
            "job": TRAIN_JOB["id"],
            "result_stage": "final",
            "gnn": GNN_ID,
            "dataset": SET_ID,
            "denoiser": DENOISER_ID,
            "metadata": METADATA,
        },
    },
    "created_at": CREATED,
    "ended_at": None,
}
DELIVERY: Example = {
    **PENDING_DELIVERY,
    "state": "delivered",
    "attempts": 2,
    "history": [
        *PENDING_DELIVERY["history"],
        {"at": CREATED, "status": 204, "failure": None, "seconds": 0.012},
    ],
    "next_attempt_at": None,
    "ended_at": CREATED,
}
