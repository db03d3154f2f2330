"""Bodies and resources of webhooks and of their deliveries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from d4explain.contracts.webhooks import DeliveryState, SendFailure, WebhookEvent
from service.metadata_models import Metadata, MetadataChanges, StoredMetadata
from service.resources import Resource
from service.schemas import Body, Description, WebhookUrl
from store.database.clock import timestamp
from store.database.tables.webhooks import Webhook, WebhookDelivery

# The names of `WebhookEvent`: a strict body accepts no names of an enum.
EventName = Literal[
    "explanation.succeeded",
    "explanation.failed",
    "explanation.canceled",
    "explanation.expired",
    "job.succeeded",
    "job.failed",
    "job.canceled",
    "job.expired",
    "evaluation.succeeded",
    "evaluation.failed",
    "evaluation.canceled",
    "evaluation.expired",
    "comparison.succeeded",
    "comparison.failed",
    "comparison.canceled",
    "comparison.expired",
]
Events = Annotated[list[EventName], Field(min_length=1, max_length=len(WebhookEvent))]


class WebhookIn(Body):
    """A URL to notify when jobs of this tenant end."""

    url: WebhookUrl
    events: Events | None = Field(None, description="Which ends to notify of; all if not given.")
    description: Description | None = None
    metadata: Metadata = Field(default_factory=dict)


class WebhookPatch(Body):
    """Changes of a webhook; omitted fields stay unchanged."""

    url: WebhookUrl | None = None
    events: Events | None = Field(
        None, description="Replaces the list; null means all. Pending notifications stay."
    )
    description: Description | None = None
    enabled: bool | None = None
    metadata: MetadataChanges = Field(default_factory=dict)


class WebhookResource(Resource):
    """A registered webhook, without its secret."""

    id: str
    url: str
    events: list[WebhookEvent] | None
    description: str | None
    enabled: bool
    failures: int
    previous_secret_until: str | None
    metadata: StoredMetadata
    created_at: str


class NewSecretResource(WebhookResource):
    """A webhook with its secret, which is shown only now."""

    secret: str


class DeliveryAttempt(Resource):
    """One attempt to deliver a notification."""

    at: str
    status: int | None
    failure: SendFailure | None
    seconds: float


class DeliveryResource(Resource):
    """A notification and the attempts to deliver it."""

    id: str
    webhook: str
    event: WebhookEvent
    job: str
    state: DeliveryState
    attempts: int
    history: list[DeliveryAttempt]
    next_attempt_at: str | None
    body: dict[str, Any]
    created_at: str
    ended_at: str | None


def named_events(names: Sequence[EventName] | None) -> list[WebhookEvent] | None:
    return None if names is None else [WebhookEvent(name) for name in names]


def webhook_resource(webhook: Webhook) -> WebhookResource:
    return WebhookResource(**_fields(webhook))


def new_secret_resource(webhook: Webhook) -> NewSecretResource:
    return NewSecretResource(**_fields(webhook), secret=webhook.secret)


def delivery_resource(delivery: WebhookDelivery) -> DeliveryResource:
    is_pending = delivery.state is DeliveryState.PENDING
    return DeliveryResource(
        id=delivery.id,
        webhook=delivery.webhook_id,
        event=delivery.event,
        job=delivery.job_id,
        state=delivery.state,
        attempts=delivery.attempts,
        history=[
            DeliveryAttempt(**{**attempt, "at": timestamp(attempt["at"])})
            for attempt in delivery.history
        ],
        next_attempt_at=timestamp(delivery.next_attempt_at) if is_pending else None,
        body=json.loads(delivery.body),
        created_at=timestamp(delivery.created_at),
        ended_at=None if delivery.ended_at is None else timestamp(delivery.ended_at),
    )


def _fields(webhook: Webhook) -> dict[str, Any]:
    until = webhook.previous_secret_until
    return {
        "id": webhook.id,
        "url": webhook.url,
        "events": webhook.events,
        "description": webhook.description,
        "enabled": webhook.enabled,
        "failures": webhook.failures,
        "metadata": webhook.caller_metadata or {},
        "previous_secret_until": None if until is None else timestamp(until),
        "created_at": timestamp(webhook.created_at),
    }
