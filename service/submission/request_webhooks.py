"""The webhook that a request can bring, for the end of what it asks for."""

from __future__ import annotations

from service.schemas import RequestWebhookIn
from store.outgoing_urls import check_webhook_url
from store.settings import Settings
from store.webhooks.endpoints import RequestWebhook


def checked_webhook(
    posted: RequestWebhookIn | None, settings: Settings, at: str = "/webhook"
) -> RequestWebhook | None:
    """The webhook, if the deployment allows its URL."""
    if posted is None:
        return None
    check_webhook_url(posted.url, settings, f"{at}/url")
    return RequestWebhook(posted.url, posted.secret)
