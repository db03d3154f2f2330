"""Notifications on their way: claimed by a worker, sent, recorded, and sent again after failures.

A claimed delivery has a lease. If its worker dies, another one sends it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from sqlalchemy import ColumnElement, or_, select, tuple_, update
from sqlalchemy.orm import Session

from d4explain.contracts.webhooks import DeliveryState, SendFailure
from store.database.lists.filters import NO_FILTERS, Filters
from store.database.lists.paging import Page, page_of
from store.database.origins import UNKNOWN, Origin, of_jobs
from store.database.sessions import now, read_clock
from store.database.tables.base import JsonObject
from store.database.tables.webhooks import Webhook, WebhookDelivery
from store.errors import Conflict, NotFound

FIRST_PAUSE_SECONDS = 2.0  # between the first two attempts; then twice as long each time
MAX_PAUSE_SECONDS = 900.0
_MAX_HISTORY = 20  # attempts that the log shows
_CANDIDATES = 8  # rows read per free place: some may belong to groups without one

Group = tuple[str, str]  # a tenant and a `fair_group`


@dataclass(frozen=True)
class Full:
    """Tenants and groups to which the worker sends enough at the moment."""

    tenants: Sequence[str] = ()
    groups: Sequence[Group] = ()


@dataclass(frozen=True)
class ClaimedDelivery:
    """The right to send a notification; `attempt` is the fencing token."""

    id: str
    attempt: int
    group: Group
    webhook_id: str
    url: str
    secrets: tuple[str, ...]  # all of them sign
    body: str
    claimed_at: float
    job_id: str
    origin: Origin = UNKNOWN  # of the job


@dataclass(frozen=True)
class AttemptResult:
    """How an attempt ended; `failure` is None if it was delivered."""

    delivery: ClaimedDelivery
    seconds: float
    status: int | None
    failure: SendFailure | None


def pause_after(failures: int, rng: Random) -> float:
    """Seconds until the next attempt: exponential, and spread so that attempts do not coincide."""
    longest = min(FIRST_PAUSE_SECONDS * 2 ** (min(failures, 32) - 1), MAX_PAUSE_SECONDS)
    return rng.uniform(longest / 2, longest)


def is_anything_due(session: Session, full: Full) -> bool:
    """Whether `claim` would find a delivery; reads only."""
    found = session.scalar(
        select(WebhookDelivery.id)
        .join(Webhook, Webhook.id == WebhookDelivery.webhook_id)
        .where(*_is_due(full))
        .limit(1)
    )
    return found is not None


def claim(
    session: Session,
    *,
    places: int,
    full: Full,
    take_place: Callable[[Group, bool], bool],
    lease_seconds: float,
) -> list[ClaimedDelivery]:
    """Claims due deliveries, oldest first, as long as `take_place` has one for their group.

    It is also told whether the last attempt at a registered webhook failed.
    """
    candidates = session.execute(
        select(WebhookDelivery, Webhook)
        .join(Webhook, Webhook.id == WebhookDelivery.webhook_id)
        .where(*_is_due(full))
        .order_by(WebhookDelivery.next_attempt_at)
        .limit(places * _CANDIDATES)
        .with_for_update(of=WebhookDelivery, skip_locked=True)
        .execution_options(populate_existing=True)
    ).all()
    at = read_clock(session)
    claimed: list[ClaimedDelivery] = []
    for delivery, webhook in candidates:
        if len(claimed) == places:
            break
        group = delivery.tenant_id, delivery.fair_group
        is_failing = webhook.subject_id is None and webhook.failures > 0
        if not take_place(group, is_failing):
            continue
        delivery.attempts += 1
        delivery.lease_until = at + lease_seconds
        claimed.append(
            ClaimedDelivery(
                id=delivery.id,
                attempt=delivery.attempts,
                group=group,
                webhook_id=webhook.id,
                url=webhook.url,
                secrets=_secrets(webhook, at),
                body=delivery.body,
                claimed_at=at,
                job_id=delivery.job_id,
            )
        )
    session.flush()
    found = of_jobs(session, [one.job_id for one in claimed])
    return [replace(one, origin=found.get(one.job_id, UNKNOWN)) for one in claimed]


def record(
    session: Session, results: Sequence[AttemptResult], *, retry_seconds: float, rng: Random
) -> None:
    """Writes how attempts ended. An attempt that lost its lease to another one is ignored."""
    # In a fixed order, so that workers cannot deadlock.
    for result in sorted(results, key=lambda one: (one.delivery.webhook_id, one.delivery.id)):
        _record(session, result, retry_seconds, rng)


def give_up_overdue(session: Session, retry_seconds: float) -> int:
    """Gives up deliveries that nobody attempted in time, such as those of disabled webhooks."""
    overdue = (
        update(WebhookDelivery)
        .where(
            WebhookDelivery.state == DeliveryState.PENDING,
            WebhookDelivery.asked_at < now() - retry_seconds,
            _has_no_lease(),
        )
        .values(state=DeliveryState.GIVEN_UP, ended_at=now())
        .returning(WebhookDelivery.id)
        .execution_options(synchronize_session=False)
    )
    return len(session.scalars(overdue).all())


def get(session: Session, delivery_id: str, tenant: str) -> WebhookDelivery:
    return _found(session, delivery_id, tenant, lock=False)


def page(
    session: Session,
    tenant: str,
    cursor: str | None = None,
    limit: int = 50,
    *,
    webhook_id: str | None = None,
    state: DeliveryState | None = None,
    filters: Filters = NO_FILTERS,
) -> Page[WebhookDelivery]:
    query = select(WebhookDelivery).where(WebhookDelivery.tenant_id == tenant)
    query = filters.applied_to(query, WebhookDelivery, tenant)
    if webhook_id is not None:
        query = query.where(WebhookDelivery.webhook_id == webhook_id)
    if state is not None:
        query = query.where(WebhookDelivery.state == state)
    return page_of(session, query, WebhookDelivery, cursor, limit)


def redeliver(session: Session, delivery_id: str, tenant: str) -> WebhookDelivery:
    """Sends a notification again, with the same id; also one that was delivered."""
    delivery = _found(session, delivery_id, tenant, lock=True)
    webhook = session.get(Webhook, delivery.webhook_id)
    if webhook is None or not webhook.enabled:
        is_what = "was deleted" if webhook is None else "is disabled"
        raise Conflict(f"delivery {delivery.id} cannot be sent: its webhook {is_what}")
    at = read_clock(session)
    if delivery.lease_until is not None and delivery.lease_until >= at:
        raise Conflict(f"delivery {delivery.id} is being sent now")
    delivery.state = DeliveryState.PENDING
    delivery.asked_at = delivery.next_attempt_at = at
    delivery.ended_at = None
    session.flush()
    return delivery


def _record(session: Session, result: AttemptResult, retry_seconds: float, rng: Random) -> None:
    claimed = result.delivery
    webhook = session.scalar(
        select(Webhook)
        .where(Webhook.id == claimed.webhook_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    delivery = session.scalar(
        select(WebhookDelivery)
        .where(
            WebhookDelivery.id == claimed.id,
            WebhookDelivery.attempts == claimed.attempt,
            WebhookDelivery.lease_until.is_not(None),
        )
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if webhook is None or delivery is None:
        return
    at = read_clock(session)
    delivery.lease_until = None
    delivery.history = [*delivery.history, _entry(result)][-_MAX_HISTORY:]
    if result.failure is None:
        delivery.state = DeliveryState.DELIVERED
        delivery.ended_at = at
        webhook.failures, webhook.paused_until = 0, None
        session.flush()
        return
    webhook.failures += 1
    webhook.paused_until = at + pause_after(webhook.failures, rng)
    recent = sum(entry["at"] >= delivery.asked_at for entry in delivery.history)
    delivery.next_attempt_at = at + pause_after(max(1, recent), rng)
    if delivery.next_attempt_at > delivery.asked_at + retry_seconds:
        delivery.state = DeliveryState.GIVEN_UP
        delivery.ended_at = at
    session.flush()
    _pause(session, webhook)


def _pause(session: Session, webhook: Webhook) -> None:
    """Postpones what waits for the webhook, so that nobody looks at it before the pause is over."""
    session.execute(
        update(WebhookDelivery)
        .where(
            WebhookDelivery.webhook_id == webhook.id,
            WebhookDelivery.state == DeliveryState.PENDING,
            WebhookDelivery.next_attempt_at < webhook.paused_until,
            WebhookDelivery.lease_until.is_(None),
        )
        .values(next_attempt_at=webhook.paused_until)
        .execution_options(synchronize_session=False)
    )


def _entry(result: AttemptResult) -> JsonObject:
    return {
        "at": result.delivery.claimed_at,
        "status": result.status,
        "failure": result.failure,
        "seconds": round(result.seconds, 3),
    }


def _secrets(webhook: Webhook, at: float) -> tuple[str, ...]:
    until = webhook.previous_secret_until
    if webhook.previous_secret is None or until is None or until <= at:
        return (webhook.secret,)
    return webhook.secret, webhook.previous_secret


def _is_due(full: Full) -> tuple[ColumnElement[bool], ...]:
    group = tuple_(WebhookDelivery.tenant_id, WebhookDelivery.fair_group)
    return (
        WebhookDelivery.state == DeliveryState.PENDING,
        WebhookDelivery.next_attempt_at <= now(),
        _has_no_lease(),
        Webhook.enabled.is_(True),
        WebhookDelivery.tenant_id.not_in(full.tenants),
        group.not_in(full.groups),
    )


def _has_no_lease() -> ColumnElement[bool]:
    return or_(WebhookDelivery.lease_until.is_(None), WebhookDelivery.lease_until < now())


def _found(session: Session, delivery_id: str, tenant: str, *, lock: bool) -> WebhookDelivery:
    query = select(WebhookDelivery).where(
        WebhookDelivery.id == delivery_id, WebhookDelivery.tenant_id == tenant
    )
    if lock:
        query = query.with_for_update()
    delivery = session.scalar(query.execution_options(populate_existing=True))
    if delivery is None:
        raise NotFound("delivery", delivery_id)
    return delivery
