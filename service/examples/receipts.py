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
AUDIT_LINES = (
    '{"action":"create_explanation","at":"2026-11-16T09:30:00.120344+00:00",'
    f'"chain_sha256":"{SHA}","content_sha256":null,"key_id":null,"outcome":"done","position":41,'
    f'"request_id":"req_01kaajz0r2m4v6x8z0bd","resource":"{EXPLANATION_ID}","source":"api",'
    '"tenant":"default"}\n'
)
_PAYLOAD = "eyJfdHlwZSI6Imh0dHBzOi8vaW4tdG90by5pby9TdGF0ZW1lbnQvdjEiLCJzdWJqZWN0IjpbXX0="
ENVELOPE: Example = {
    "payloadType": "application/vnd.in-toto+json",
    "payload": _PAYLOAD,
    "signatures": [{"keyid": SHA, "sig": "c2lnbmF0dXJlIG9mIDY0IGJ5dGVz"}],
}
SIGNING_KEYS: Example = {
    "keys": [
        {
            "id": SHA,
            "algorithm": "Ed25519",
            "public_key": "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA…\n"
            "-----END PUBLIC KEY-----\n",
            "current": True,
            "first_seen_at": CREATED,
        }
    ]
}
