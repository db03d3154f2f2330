"""Examples of jobs and their events."""

from __future__ import annotations

from typing import Any

from service.examples.shared import (
    CREATED,
    DENOISER_ID,
    DONE,
    EXPLANATION_ID,
    GNN_ID,
    JOB_ID,
    METADATA,
    SET_ID,
    SHA,
    STARTED,
    TRAIN_JOB_ID,
    WITNESS_SET_ID,
    Example,
)


def job(id_: str, kind: str, queue: str, result_link: str, state: str, **changes: Any) -> Example:
    at = f"/v1/jobs/{id_}"
    ended = state not in ("queued", "running")
    example: Example = {
        "id": id_,
        "kind": kind,
        "queue": queue,
        "state": state,
        "attempt": 0 if state == "queued" else 1,
        "max_attempts": 3,
        "progress": None,
        "waiting_for": None,
        "trainings": [],
        "seconds_left": None,
        "cancel_requested": False,
        "error": None,
        "result": None,
        "retry_of": None,
        "subject": _subject(),
        "metadata": {},
        "created_at": CREATED,
        "started_at": None if state == "queued" else STARTED,
        "finished_at": DONE if ended else None,
        "links": {
            "self": at,
            "events": f"{at}/events",
            "cancel": None if ended else f"{at}/cancel",
            "retry": f"{at}/retry" if ended and state != "succeeded" else None,
            "result": result_link,
        },
    }
    return {**example, **changes}


def _subject(**ids: str) -> Example:
    others = dict.fromkeys(
        ("dataset", "denoiser", "witness_set", "explanation", "evaluation", "comparison")
    )
    return {"gnn": GNN_ID, **others, **ids}


def train_job(state: str, progress: Example | None) -> Example:
    subject = _subject(dataset=SET_ID, denoiser=DENOISER_ID)
    result_link = f"/v1/denoisers/{DENOISER_ID}"
    return job(
        TRAIN_JOB_ID, "train", "train", result_link, state, subject=subject, progress=progress
    )


def explanation_job(state: str, **changes: Any) -> Example:
    subject = _subject(
        dataset=SET_ID,
        denoiser=DENOISER_ID,
        witness_set=WITNESS_SET_ID,
        explanation=EXPLANATION_ID,
    )
    result_link = f"/v1/explanations/{EXPLANATION_ID}"
    return job(
        JOB_ID,
        "counterfactual",
        "sample",
        result_link,
        state,
        subject=subject,
        metadata=METADATA,
        **changes,
    )


PROGRESS: Example = {
    "phase": "training",
    "step": 420,
    "total": 2000,
    "metrics": {"loss": 0.231, "validity": 0.64},
}
TRAIN_JOB = {**train_job("running", PROGRESS), "seconds_left": 95.0}
WAITING_JOB = explanation_job(
    "queued",
    waiting_for=TRAIN_JOB_ID,
    progress=PROGRESS,
    trainings=[
        {
            "job": TRAIN_JOB_ID,
            "kind": "train",
            "state": "running",
            "progress": PROGRESS,
            "seconds_left": 95.0,
        }
    ],
    seconds_left=95.4,
)
CANCELED_JOB = {**explanation_job("canceled"), "cancel_requested": True}
RETRY_JOB = {
    **explanation_job("queued", retry_of=JOB_ID),
    "id": "job_01kaajx2c8w6r5n1t9zq",
    "links": {
        "self": "/v1/jobs/job_01kaajx2c8w6r5n1t9zq",
        "events": "/v1/jobs/job_01kaajx2c8w6r5n1t9zq/events",
        "cancel": "/v1/jobs/job_01kaajx2c8w6r5n1t9zq/cancel",
        "retry": None,
        "result": f"/v1/explanations/{EXPLANATION_ID}",
    },
}
EVENTS = (
    "id: 41\r\nevent: state\r\n"
    'data: {"state":"running","attempt":1,"waiting_for":null,"cancel_requested":false,'
    '"error":null,"at":"2026-11-16T09:30:00.120Z"}\r\n\r\n'
    "id: 42\r\nevent: progress\r\n"
    'data: {"phase":"training","step":420,"total":2000,"metrics":{"loss":0.231},'
    '"at":"2026-11-16T09:30:00.900Z"}\r\n\r\n'
    "id: 43\r\nevent: answer\r\n"
    f'data: {{"stage":"provisional","sha256":"{SHA}","explanation":"{EXPLANATION_ID}",'
    '"at":"2026-11-16T09:30:01.480Z"}\r\n\r\n'
)
