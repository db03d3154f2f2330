"""Requests about webhooks and what was sent to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from d4explain.client.options import ListFilters, Metadata, TimeFilters, list_query
from d4explain.client.resources import NewWebhook, Webhook, WebhookDelivery
from d4explain.client.transport.http_transport import HttpTransport
from d4explain.client.transport.operation import Listing, Operation
from d4explain.contracts.webhooks import DeliveryState, WebhookEvent

_WEBHOOKS = "/v1/webhooks"
_DELIVERIES = "/v1/webhook-deliveries"
Events = Sequence[WebhookEvent | str]


class WebhookChanges(TypedDict, total=False):
    """What can change after the registration; `events` is None for all."""

    url: str
    events: Events | None
    description: str | None
    enabled: bool
    metadata: Mapping[str, str | int | float | bool | None]  # merged; None removes a key


class WebhookOperations:
    _transport: HttpTransport

    @Operation
    async def create_webhook(
        self,
        url: str,
        events: Events | None = None,
        description: str | None = None,
        metadata: Metadata | None = None,
    ) -> NewWebhook:
        """Register a URL to notify when jobs end, by default of all events.

        Keep the `secret` of the result: the API shows it only once.
        """
        body: dict[str, Any] = {"url": url, "description": description}
        if events is not None:
            body["events"] = list(events)
        if metadata:
            body["metadata"] = dict(metadata)
        answer = await self._transport.send("POST", _WEBHOOKS, json=body)
        return NewWebhook.model_validate(answer.json())

    @Operation
    async def webhook(self, webhook_id: str) -> Webhook:
        """One registered webhook."""
        return Webhook.model_validate(await self._transport.get(f"{_WEBHOOKS}/{webhook_id}"))

    @Listing
    async def webhooks(
        self, *, enabled: bool | None = None, **filters: Unpack[ListFilters]
    ) -> AsyncIterator[Webhook]:
        """All registered webhooks, or those of filters; newest first."""
        async for item in self._transport.items(_WEBHOOKS, enabled=enabled, **list_query(filters)):
            yield Webhook.model_validate(item)

    @Operation
    async def change_webhook(self, webhook_id: str, **changes: Unpack[WebhookChanges]) -> Webhook:
        """Change the URL, the events or the description of a webhook, disable or enable it."""
        path = f"{_WEBHOOKS}/{webhook_id}"
        answer = await self._transport.send("PATCH", path, json=changes)
        return Webhook.model_validate(answer.json())

    @Operation
    async def rotate_webhook(self, webhook_id: str) -> NewWebhook:
        """Give a webhook a new secret; for 24 hours, the old one signs as well."""
        answer = await self._transport.send("POST", f"{_WEBHOOKS}/{webhook_id}/rotate")
        return NewWebhook.model_validate(answer.json())

    @Operation
    async def delete_webhook(self, webhook_id: str) -> None:
        """Delete a webhook with the log of what was sent to it."""
        await self._transport.send("DELETE", f"{_WEBHOOKS}/{webhook_id}")

    @Listing
    async def webhook_deliveries(
        self,
        *,
        webhook: str | None = None,
        state: DeliveryState | str | None = None,
        **times: Unpack[TimeFilters],
    ) -> AsyncIterator[WebhookDelivery]:
        """All notifications, or those to a webhook, in a state or of a time; newest first."""
        query = {"webhook": webhook, "state": state, **list_query(times)}
        async for item in self._transport.items(_DELIVERIES, **query):
            yield WebhookDelivery.model_validate(item)

    @Operation
    async def webhook_delivery(self, delivery_id: str) -> WebhookDelivery:
        """One notification with its attempts."""
        answer = await self._transport.get(f"{_DELIVERIES}/{delivery_id}")
        return WebhookDelivery.model_validate(answer)

    @Operation
    async def redeliver(self, delivery_id: str) -> WebhookDelivery:
        """Send a notification again, with the same id."""
        answer = await self._transport.send("POST", f"{_DELIVERIES}/{delivery_id}/redeliver")
        return WebhookDelivery.model_validate(answer.json())
