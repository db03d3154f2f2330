from __future__ import annotations

from typing import Annotated

import typer

from d4explain.cli.options import (
    CreatedAfter,
    CreatedBefore,
    Json,
    Limit,
    Metadata,
    MetadataChanges,
    MetadataFilter,
    Url,
    list_filters,
    parse_changes,
    parse_settings,
    times,
)
from d4explain.cli.output.resource_tables import print_fields, print_list, short_time
from d4explain.cli.output.terminal import messages, output, print_json, print_line
from d4explain.client.client import Client
from d4explain.client.operations.webhooks import WebhookChanges
from d4explain.client.resources import NewWebhook, Webhook, WebhookDelivery
from d4explain.contracts.webhooks import DeliveryState, WebhookEvent
from d4explain.errors import CommandError

app = typer.Typer(
    help="Register webhooks, and see and repeat what was sent to them.", no_args_is_help=True
)
WebhookId = Annotated[str, typer.Argument(metavar="WEBHOOK", help="whk_…")]
DeliveryId = Annotated[str, typer.Argument(metavar="DELIVERY", help="msg_…")]
Events = Annotated[
    list[WebhookEvent] | None,
    typer.Option("--event", help="Notify of this event; may be repeated. Default: all."),
]
Description = Annotated[str | None, typer.Option(help="What the webhook is for.")]


@app.command("create")
def create(
    receiver: Annotated[str, typer.Argument(metavar="RECEIVER", help="https://…")],
    *,
    event: Events = None,
    description: Description = None,
    metadata: Metadata = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Register a URL to notify when jobs end; prints its id and its secret, once."""
    with Client(url) as client:
        created = client.create_webhook(
            receiver, event or None, description, parse_settings(metadata)
        )
    _show_secret(created, as_json)


@app.command("list")
def list_webhooks(
    *,
    enabled: Annotated[
        bool | None,
        typer.Option("--enabled/--disabled", help="Only those; both by default."),
    ] = None,
    metadata: MetadataFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 20,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List the newest webhooks."""
    filters = list_filters(metadata, created_after, created_before)
    with Client(url) as client:
        print_list(
            client.webhooks(enabled=enabled, **filters),
            {
                "webhook": lambda item: item.id,
                "url": lambda item: item.url,
                "state": _state,
                "events": _events,
                "description": lambda item: item.description,
            },
            limit=limit,
            as_json=as_json,
            nothing="no webhooks",
        )


@app.command("show")
def show(webhook: WebhookId, as_json: Json = False, url: Url = None) -> None:
    """Show one webhook."""
    with Client(url) as client:
        found = client.webhook(webhook)
    if as_json:
        print_json(found)
        return
    print_fields(
        {
            "webhook": found.id,
            "url": found.url,
            "state": _state(found),
            "events": _events(found),
            "description": found.description,
            "old secret until": short_time(found.previous_secret_until),
            "created": short_time(found.created_at),
            "metadata": found.metadata,
        }
    )


@app.command("change")
def change(
    webhook: WebhookId,
    *,
    receiver: Annotated[str | None, typer.Option(help="The new URL.")] = None,
    event: Events = None,
    description: Description = None,
    enable: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether anything is sent.")
    ] = None,
    metadata: MetadataChanges = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Change, disable or enable a webhook."""
    changes: WebhookChanges = {}
    if receiver is not None:
        changes["url"] = receiver
    if event:
        changes["events"] = event
    if description is not None:
        changes["description"] = description
    if enable is not None:
        changes["enabled"] = enable
    if metadata:
        changes["metadata"] = parse_changes(metadata)
    if not changes:
        raise CommandError("nothing to change", hint="give one of the options; see --help")
    with Client(url) as client:
        changed = client.change_webhook(webhook, **changes)
    print_json(changed) if as_json else print_line(f"changed {changed.id}")


@app.command("rotate")
def rotate(webhook: WebhookId, as_json: Json = False, url: Url = None) -> None:
    """Give a webhook a new secret; for 24 hours, the old one signs as well."""
    with Client(url) as client:
        _show_secret(client.rotate_webhook(webhook), as_json)


@app.command("delete")
def delete(webhook: WebhookId, as_json: Json = False, url: Url = None) -> None:
    """Delete a webhook with the log of what was sent to it."""
    with Client(url) as client:
        client.delete_webhook(webhook)
    print_json({"deleted": webhook}) if as_json else print_line(f"deleted {webhook}")


@app.command("deliveries")
def list_deliveries(
    *,
    webhook: Annotated[str | None, typer.Option(help="Only those to this webhook.")] = None,
    state: Annotated[DeliveryState | None, typer.Option(help="Only those in this state.")] = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 20,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List the newest notifications."""
    with Client(url) as client:
        print_list(
            client.webhook_deliveries(
                webhook=webhook,
                state=state and state.value,
                **times(created_after, created_before),
            ),
            {
                "delivery": lambda item: item.id,
                "event": lambda item: item.event,
                "job": lambda item: item.job,
                "state": lambda item: item.state,
                "attempts": lambda item: item.attempts,
                "last": _last_attempt,
                "created": lambda item: short_time(item.created_at),
            },
            limit=limit,
            as_json=as_json,
            nothing="no notifications",
        )


@app.command("delivery")
def show_delivery(delivery: DeliveryId, as_json: Json = False, url: Url = None) -> None:
    """Show one notification with its attempts."""
    with Client(url) as client:
        found = client.webhook_delivery(delivery)
    if as_json:
        print_json(found)
        return
    print_fields(
        {
            "delivery": found.id,
            "webhook": found.webhook,
            "event": found.event,
            "job": found.job,
            "state": found.state,
            "next attempt": short_time(found.next_attempt_at),
            "ended": short_time(found.ended_at),
        }
    )
    for attempt in found.history:
        outcome = attempt.failure or "delivered"
        status = "" if attempt.status is None else f", status {attempt.status}"
        output().print(f"{attempt.at}: {outcome}{status}, {attempt.seconds:g} s")


@app.command("redeliver")
def redeliver(delivery: DeliveryId, as_json: Json = False, url: Url = None) -> None:
    """Send a notification again, with the same id."""
    with Client(url) as client:
        asked = client.redeliver(delivery)
    print_json(asked) if as_json else print_line(f"{asked.id} will be sent again")


def _show_secret(webhook: NewWebhook, as_json: bool) -> None:
    if as_json:
        print_json(webhook)
        return
    print_line(webhook.id)
    print_line(webhook.secret)
    messages().print("[dim]keep the secret: it is shown only once", soft_wrap=True)


def _state(webhook: Webhook) -> str:
    if not webhook.enabled:
        return "disabled"
    return f"{webhook.failures} failures in a row" if webhook.failures else "enabled"


def _events(webhook: Webhook) -> str:
    return "all" if webhook.events is None else " ".join(webhook.events)


def _last_attempt(delivery: WebhookDelivery) -> str:
    if not delivery.history:
        return ""
    last = delivery.history[-1]
    return f"{last.failure or 'delivered'} {last.status or ''}".rstrip()
