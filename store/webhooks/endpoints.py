"""Webhooks: those that admins register, and those that belong to one request."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, exists, func, insert, select
from sqlalchemy.orm import Session

from d4explain.contracts.webhooks import DeliveryState, WebhookEvent
from store.database import webhook_outbox
from store.database.identifiers import new_id
from store.database.lists import caller_metadata
from store.database.lists.filters import NO_FILTERS, Filters
from store.database.lists.paging import Page, page_of
from store.database.sessions import read_clock
from store.database.tables import Job
from store.database.tables.base import JsonObject
from store.database.tables.webhooks import Webhook, WebhookDelivery
from store.errors import Conflict, NotFound

SECRET_PREFIX = "whsec_"
MAX_WEBHOOKS = 50  # of a tenant: the end of each job writes a notification for each of them
OVERLAP_SECONDS = 24 * 3600.0  # in which both secrets sign after a rotation
_SECRET_BYTES = 32


@dataclass(frozen=True)
class RequestWebhook:
    """The webhook that a request brings: only for the resource that the request creates."""

    url: str
    secret: str


def new_secret() -> str:
    """In the form of Standard Webhooks."""
    random = secrets.token_bytes(_SECRET_BYTES)
    return SECRET_PREFIX + base64.b64encode(random).decode()


def is_secret(text: str) -> bool:
    """Whether it is a secret of Standard Webhooks: 24 to 64 bytes in base64, with the prefix."""
    try:
        decoded = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        return False
    return text.startswith(SECRET_PREFIX) and 24 <= len(decoded) <= 64


def create(
    session: Session,
    *,
    tenant: str,
    url: str,
    events: Sequence[WebhookEvent] | None = None,
    description: str | None = None,
    metadata: JsonObject | None = None,
) -> Webhook:
    known = select(func.count()).select_from(Webhook).where(*_registered(tenant))
    if (session.scalar(known) or 0) >= MAX_WEBHOOKS:
        raise Conflict(
            f"there are {MAX_WEBHOOKS} webhooks, and there cannot be more; delete one first"
        )
    webhook = Webhook(
        id=new_id("whk"),
        tenant_id=tenant,
        created_at=read_clock(session),
        url=url,
        secret=new_secret(),
        events=_stored(events),
        description=description,
        enabled=True,
        subject_id=None,
        failures=0,
        caller_metadata=metadata or None,
    )
    session.add(webhook)
    session.flush()
    caller_metadata.write(session, [webhook])
    return webhook


def add_all(session: Session, requested: Sequence[tuple[RequestWebhook, Job]]) -> None:
    """Adds webhooks of requests, each with a job; one that has ended is notified of at once.

    Call it in the transaction that creates or locks what the job works on.
    """
    if not requested:
        return
    at = read_clock(session)
    rows = [
        {
            "id": new_id("whk"),
            "tenant_id": job.tenant_id,
            "created_at": at,
            "url": webhook.url,
            "secret": webhook.secret,
            "enabled": True,
            "subject_id": webhook_outbox.subject_of(job),
            "failures": 0,
        }
        for webhook, job in requested
    ]
    session.connection().execute(insert(Webhook), rows)
    for row, (_, job) in zip(rows, requested, strict=True):
        if job.state.is_terminal:
            webhook_outbox.notify(session, [session.get_one(Webhook, row["id"])], [job])


def get(session: Session, webhook_id: str, tenant: str, *, lock: bool = False) -> Webhook:
    """A registered webhook."""
    query = select(Webhook).where(Webhook.id == webhook_id, *_registered(tenant))
    if lock:
        query = query.with_for_update()
    webhook = session.scalar(query.execution_options(populate_existing=True))
    if webhook is None:
        raise NotFound("webhook", webhook_id)
    return webhook


def page(
    session: Session,
    tenant: str,
    cursor: str | None = None,
    limit: int = 50,
    *,
    enabled: bool | None = None,
    filters: Filters = NO_FILTERS,
) -> Page[Webhook]:
    query = filters.applied_to(select(Webhook).where(*_registered(tenant)), Webhook, tenant)
    if enabled is not None:
        query = query.where(Webhook.enabled == enabled)
    return page_of(session, query, Webhook, cursor, limit)


def set_events(webhook: Webhook, events: Sequence[WebhookEvent] | None) -> None:
    webhook.events = _stored(events)


def set_url(webhook: Webhook, url: str) -> None:
    """The failures of the old URL do not delay the new one."""
    webhook.url = url
    webhook.failures = 0
    webhook.paused_until = None


def rotate(session: Session, webhook_id: str, tenant: str) -> Webhook:
    """Gives the webhook a new secret; for a while the old one signs, too."""
    webhook = get(session, webhook_id, tenant, lock=True)
    webhook.previous_secret = webhook.secret
    webhook.previous_secret_until = read_clock(session) + OVERLAP_SECONDS
    webhook.secret = new_secret()
    session.flush()
    return webhook


def remove(session: Session, webhook_id: str, tenant: str) -> None:
    """Deletes the webhook with its deliveries, also those that were not sent yet."""
    webhook = get(session, webhook_id, tenant, lock=True)
    session.execute(delete(WebhookDelivery).where(WebhookDelivery.webhook_id == webhook.id))
    session.delete(webhook)
    session.flush()
    caller_metadata.forget(session, [webhook.id])


def forget(
    session: Session, tenant: str, *, subjects: Sequence[str], jobs: Sequence[str] = ()
) -> None:
    """Deletes the webhooks of requests for deleted resources, and notifications of deleted jobs.

    A worker that is sending one of them finishes its attempt.
    """
    if jobs:
        session.execute(
            delete(WebhookDelivery)
            .where(WebhookDelivery.job_id.in_(jobs), WebhookDelivery.tenant_id == tenant)
            .execution_options(synchronize_session=False)
        )
    session.execute(
        delete(Webhook)
        .where(Webhook.subject_id.in_(subjects), Webhook.tenant_id == tenant)
        .execution_options(synchronize_session=False)
    )


def delete_old(session: Session, before: float) -> None:
    """Deletes ended deliveries, and webhooks of requests with nothing left to send."""
    session.execute(
        delete(WebhookDelivery)
        .where(
            WebhookDelivery.state != DeliveryState.PENDING,
            WebhookDelivery.ended_at < before,
        )
        .execution_options(synchronize_session=False)
    )
    has_deliveries = exists().where(WebhookDelivery.webhook_id == Webhook.id)
    session.execute(
        delete(Webhook)
        .where(Webhook.subject_id.is_not(None), Webhook.created_at < before, ~has_deliveries)
        .execution_options(synchronize_session=False)
    )


def _registered(tenant: str) -> tuple[ColumnElement[bool], ...]:
    return (Webhook.tenant_id == tenant, Webhook.subject_id.is_(None))


def _stored(events: Sequence[WebhookEvent] | None) -> list[str] | None:
    return None if events is None else sorted({event.value for event in events})
