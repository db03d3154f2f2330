"""Examples of receipts and replays."""

from __future__ import annotations

from service.examples.jobs import job
from service.examples.shared import CREATED, EXPLANATION_ID, SHA, Example

_REPLAY_ID = "rpl_01kaajz0q8w6r5n1t9zq"
_REPLAY_JOB_ID = "job_01kaajz0r2m4v6x8z0bd"


def _replay_job(state: str) -> Example:
    return job(_REPLAY_JOB_ID, "replay", "sample", f"/v1/replays/{_REPLAY_ID}", state)


WAITING_REPLAY: Example = {
    "id": _REPLAY_ID,
    "explanation": EXPLANATION_ID,
    "stage": "final",
    "answer_sha256": SHA,
    "job": _replay_job("queued"),
    "report": None,
    "created_at": CREATED,
    "links": {
        "self": f"/v1/replays/{_REPLAY_ID}",
        "explanation": f"/v1/explanations/{EXPLANATION_ID}",
    },
}
REPLAY: Example = {
    **WAITING_REPLAY,
    "job": {
        **_replay_job("succeeded"),
        "result": {"kind": "replay", "replay": _REPLAY_ID, "outcome": "differs"},
    },
    "report": {
        "outcome": "differs",
        "reason": None,
        "compared_values": 412,
        "difference_count": 1,
        "differences": [
            {
                "pointer": "/answers/0/counterfactuals/0/confidence",
                "graph": 0,
                "recorded": 0.8912034,
                "repeated": 0.8911871,
            }
        ],
        "changed_versions": {"torch_geometric": ["2.6.1", "2.7.0"]},
        "seconds": 1.84,
    },
}
