"""The tables of webhooks: where notifications go, and the notifications themselves."""

from __future__ import annotations

from sqlalchemy import Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from d4explain.contracts.webhooks import DeliveryState, WebhookEvent
from store.database.clock import now
from store.database.tables.base import ID, JsonObject, JsonObjects, JsonTexts, Resource


class Webhook(Resource):
    """A URL to notify of the ends of jobs: registered by an admin, or part of one request."""

    __tablename__ = "webhooks"
    __table_args__ = (
        Index("webhooks_by_time", "tenant_id", "created_at", "id"),
        Index("webhooks_by_subject", "tenant_id", "subject_id"),
    )

    url: Mapped[str] = mapped_column(Text)
    # Workers sign with the secret, so it cannot be stored as a hash.
    secret: Mapped[str] = mapped_column(String(128))
    # Signs as well for a while after a rotation.
    previous_secret: Mapped[str | None] = mapped_column(String(128))
    previous_secret_until: Mapped[float | None]
    events: Mapped[JsonTexts | None]  # None: all
    description: Mapped[str | None] = mapped_column(Text)
    enabled: Mapped[bool] = mapped_column(default=True)
    # The explanation, denoiser, GNN or job of the request; None if an admin registered the webhook.
    subject_id: Mapped[str | None] = mapped_column(ID)
    failures: Mapped[int] = mapped_column(default=0)  # attempts since the last success
    # After a failure, nothing is sent until then.
    paused_until: Mapped[float | None]
    caller_metadata: Mapped[JsonObject | None]  # see `store.database.lists.caller_metadata`


class WebhookDelivery(Resource):
    """One notification, written when the job ends; its id is the `webhook-id` that is sent.

    No foreign keys: the end of a job neither fails nor waits because of a webhook.
    """

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        Index("webhook_deliveries_by_time", "tenant_id", "created_at", "id"),
        Index("webhook_deliveries_by_webhook", "webhook_id", "created_at"),
        Index("webhook_deliveries_by_job", "job_id"),
        Index("webhook_deliveries_due", "state", "next_attempt_at", "tenant_id", "fair_group"),
    )

    webhook_id: Mapped[str] = mapped_column(ID)
    # Deliveries of a group share the connections that a worker uses for it.
    fair_group: Mapped[str] = mapped_column(String(300))
    event: Mapped[WebhookEvent]
    job_id: Mapped[str] = mapped_column(ID)
    body: Mapped[str] = mapped_column(Text)  # JSON; the signature is of these bytes
    state: Mapped[DeliveryState] = mapped_column(default=DeliveryState.PENDING)
    asked_at: Mapped[float] = mapped_column(default=now())  # created or, if later, asked for again
    attempts: Mapped[int] = mapped_column(default=0)  # begun ones; the fencing token
    history: Mapped[JsonObjects] = mapped_column(default=list)  # [{at, status, failure, seconds}]
    next_attempt_at: Mapped[float] = mapped_column(default=now())
    lease_until: Mapped[float | None]  # of the worker that is sending it
    ended_at: Mapped[float | None]
