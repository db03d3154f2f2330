"""Writes notifications in the transaction that ends a job, so that none is lost.

`store.webhooks.deliveries` hands them to the workers that send them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import insert, or_, select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind, JobState
from d4explain.contracts.webhooks import WebhookEvent
from store.database.clock import now, timestamp
from store.database.identifiers import new_id
from store.database.tables import Explanation, Job
from store.database.tables.base import JsonObject
from store.database.tables.webhooks import Webhook, WebhookDelivery

_ENDED = "jobs to notify of"  # key in `session.info`; a session lives for one transaction
_EXPLANATIONS = frozenset({JobKind.COUNTERFACTUAL, JobKind.CLASS, JobKind.GLOBAL})
_PARTS = frozenset({JobKind.PROVISIONAL, JobKind.EVALUATION_SHARD})
_EVALUATIONS = {JobKind.EVALUATION: "evaluation", JobKind.COMPARISON: "comparison"}
_MAKERS = _EXPLANATIONS | {JobKind.PROBE, JobKind.TRAIN, JobKind.WITNESSES, *_EVALUATIONS}
_CLOCK = select(now())
_INSERT = insert(WebhookDelivery)


def note_end(session: Session, job: Job) -> None:
    """Remembers a job that ends in this transaction; `write` notifies of it at commit.

    The end of a provisional answer or of a shard is none of the explanation or evaluation.
    """
    if job.kind not in _PARTS:
        session.info.setdefault(_ENDED, {})[job.id] = job


def write(session: Session) -> None:
    """Writes the notifications at the end of a transaction."""
    ended: dict[str, Job] = session.info.pop(_ENDED, {})
    if not ended:
        return
    webhooks = session.scalars(
        select(Webhook).where(
            Webhook.tenant_id.in_({job.tenant_id for job in ended.values()}),
            Webhook.enabled,
            or_(
                Webhook.subject_id.is_(None),
                Webhook.subject_id.in_({subject_of(job) for job in ended.values()}),
            ),
        )
    ).all()
    if webhooks:
        notify(session, webhooks, list(ended.values()))


def notify(session: Session, webhooks: Sequence[Webhook], ended: Sequence[Job]) -> None:
    """Writes the notifications of these jobs that these webhooks are for."""
    explained = {job.subject_id for job in ended if job.kind in _EXPLANATIONS}
    explanations = {
        row.id: row
        for row in session.scalars(select(Explanation).where(Explanation.id.in_(explained)))
    }
    at = float(session.connection().execute(_CLOCK).scalar_one())
    rows = list(_rows(webhooks, ended, explanations, at))
    if rows:
        session.connection().execute(_INSERT, rows)


def subject_of(job: Job) -> str:
    """What the webhook of a request refers to: what the job makes, so that retries count, too.

    Other jobs, such as predictions, only read their subject.
    """
    return job.subject_id if job.kind in _MAKERS and job.subject_id else job.id


def _rows(
    webhooks: Iterable[Webhook],
    ended: Sequence[Job],
    explanations: Mapping[str, Explanation],
    at: float,
) -> Iterator[JsonObject]:
    for webhook in webhooks:
        for job in ended:
            if webhook.tenant_id != job.tenant_id:
                continue
            if webhook.subject_id not in (None, subject_of(job)):
                continue
            event, data = _event(job, explanations.get(subject_of(job)))
            if webhook.events is not None and event not in webhook.events:
                continue
            message = {"type": event, "timestamp": timestamp(job.finished_at or at), "data": data}
            yield {
                "id": new_id("msg"),
                "tenant_id": job.tenant_id,
                "created_at": at,
                "webhook_id": webhook.id,
                "fair_group": _fair_group(webhook),
                "event": event,
                "job_id": job.id,
                "body": json.dumps(message, separators=(",", ":"), ensure_ascii=False),
                "asked_at": at,
                "attempts": 0,
                "history": [],
                "next_attempt_at": max(at, webhook.paused_until or at),
            }


def _fair_group(webhook: Webhook) -> str:
    """A registered webhook, or the host of those that belong to requests."""
    return webhook.id if webhook.subject_id is None else urlsplit(webhook.url).netloc.lower()


def _event(job: Job, explanation: Explanation | None) -> tuple[WebhookEvent, dict[str, Any]]:
    """What ended and how; neither graphs nor texts of errors."""
    inputs = {"gnn": job.gnn_id, "dataset": job.dataset_id, "denoiser": job.denoiser_id}
    if job.kind in _EVALUATIONS:
        what = _EVALUATIONS[job.kind]
        data: dict[str, Any] = {
            **{"id": job.subject_id, "kind": what, "state": job.state},
            **{"url": f"/v1/{what}s/{job.subject_id}", "job": job.id},
            **inputs,
            "metadata": job.caller_metadata or {},
        }
        return _named(what, job.state), data
    if explanation is None:
        data = {
            **{"id": job.id, "kind": job.kind, "state": job.state, "url": f"/v1/jobs/{job.id}"},
            **inputs,
            "metadata": job.caller_metadata or {},
        }
        return _named("job", job.state), data
    state = explanation.state_after(job.state)
    data = {
        **{"id": explanation.id, "kind": explanation.kind, "state": state},
        **{"url": f"/v1/explanations/{explanation.id}", "job": job.id},
        "result_stage": explanation.result_stage,
        **inputs,
        "metadata": explanation.caller_metadata or {},
    }
    return _named("explanation", state), data


def _named(what: str, state: JobState) -> WebhookEvent:
    return WebhookEvent(f"{what}.{state}")
