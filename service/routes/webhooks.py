"""Webhooks: registered URLs, and the log of what was sent to them and to those of requests."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from d4explain.contracts.webhooks import DeliveryState
from service import examples
from service.context import ContextOf, run_in_thread
from service.http.bodies import json_body
from service.http.idempotency import (
    Created,
    Submission,
    already_created,
    create_once,
    submission_of,
)
from service.http.json_bodies import parse_model
from service.http.openapi import IDEMPOTENCY_KEY, json_request, problem_responses, response
from service.http.pagination import (
    METADATA_FILTER,
    ListQuery,
    TimedQuery,
    converted_page,
    read_page,
)
from service.http.principals import Admin
from service.http.responses import json_response, page_response
from service.resources import PageOf
from service.submission.resource_ids import checked_id
from service.webhook_models import (
    DeliveryResource,
    NewSecretResource,
    WebhookIn,
    WebhookPatch,
    WebhookResource,
    delivery_resource,
    named_events,
    new_secret_resource,
    webhook_resource,
)
from store.catalogue import metadata_changes
from store.outgoing_urls import check_webhook_url
from store.store import Store
from store.webhooks import deliveries, endpoints

router = APIRouter(tags=["webhooks"])


class WebhooksQuery(ListQuery):
    enabled: bool | None = Field(None, description="Only enabled, or only disabled ones.")


class DeliveriesQuery(TimedQuery):
    webhook: str | None = Field(
        None, max_length=64, description="Only those to this registered webhook."
    )
    state: DeliveryState | None = None


@router.post(
    "/v1/webhooks",
    summary="Register a webhook",
    description="Workers send a signed POST to the URL when an explanation or another job of this "
    "tenant ends (docs/webhooks.md). The host must be in `D4_WEBHOOK_HOSTS`. A tenant can have 50 "
    "webhooks. The response is the only one with the secret; a repeated request with the same "
    "`Idempotency-Key` shows it again.",
    status_code=201,
    responses={
        201: response("The webhook with its secret.", NewSecretResource, examples.NEW_WEBHOOK),
        **problem_responses(HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=json_request(WebhookIn, {"explanations": examples.WEBHOOK_IN}, IDEMPOTENCY_KEY),
)
async def create_webhook(request: Request, context: ContextOf, principal: Admin) -> Response:
    body = await json_body(request)
    submission = submission_of(request, principal.tenant, body)
    created = await run_in_thread(create, context.store, body, submission, principal.tenant)
    webhook = await run_in_thread(_new_secret, context.store, created.id, principal.tenant)
    headers = {"Location": f"/v1/webhooks/{created.id}", **created.headers}
    return json_response(webhook, 201, headers)


@router.get(
    "/v1/webhooks",
    summary="List registered webhooks, newest first",
    responses={
        200: response("A page.", PageOf[WebhookResource], examples.page(examples.WEBHOOK)),
        **problem_responses(),
    },
    openapi_extra={"parameters": [METADATA_FILTER]},
)
def list_webhooks(
    request: Request,
    context: ContextOf,
    principal: Admin,
    query: Annotated[WebhooksQuery, Query()],
) -> Response:
    with context.store.database.reading() as session:
        rows = read_page(
            lambda: endpoints.page(
                session,
                principal.tenant,
                query.cursor,
                query.limit,
                enabled=query.enabled,
                filters=query.filters,
            )
        )
    page = converted_page(rows, webhook_resource)
    return page_response(request, page, query.link_parameters())


@router.get(
    "/v1/webhooks/{webhook_id}",
    summary="One registered webhook",
    responses={
        200: response("The webhook.", WebhookResource, examples.WEBHOOK),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
)
def get_webhook(context: ContextOf, principal: Admin, webhook_id: str) -> Response:
    with context.store.database.reading() as session:
        webhook = endpoints.get(session, checked_id("webhook", webhook_id), principal.tenant)
    return json_response(webhook_resource(webhook))


@router.patch(
    "/v1/webhooks/{webhook_id}",
    summary="Change, disable or enable a webhook",
    description="A disabled webhook gets no new notifications. Pending ones wait until it is "
    "enabled, and are given up after `D4_WEBHOOK_RETRY_HOURS`.",
    responses={
        200: response("The changed webhook.", WebhookResource, examples.WEBHOOK),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=json_request(WebhookPatch, {"disable": examples.WEBHOOK_PATCH}),
)
async def change_webhook(
    request: Request, context: ContextOf, principal: Admin, webhook_id: str
) -> Response:
    body = await json_body(request)
    checked_id("webhook", webhook_id)
    return json_response(
        await run_in_thread(change, context.store, webhook_id, body, principal.tenant)
    )


@router.delete(
    "/v1/webhooks/{webhook_id}",
    summary="Delete a webhook",
    description="Deletes its log of deliveries, too; pending notifications are not sent.",
    status_code=204,
    responses={204: response("Deleted."), **problem_responses(HTTPStatus.NOT_FOUND)},
)
def delete_webhook(context: ContextOf, principal: Admin, webhook_id: str) -> Response:
    with context.store.database.transaction() as session:
        endpoints.remove(session, checked_id("webhook", webhook_id), principal.tenant)
    return Response(status_code=204)


@router.post(
    "/v1/webhooks/{webhook_id}/rotate",
    summary="Give a webhook a new secret",
    description="For 24 hours, both secrets sign every notification. The response is the only one "
    "with the new secret.",
    responses={
        200: response("The webhook with its secret.", NewSecretResource, examples.NEW_WEBHOOK),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
)
def rotate_webhook(context: ContextOf, principal: Admin, webhook_id: str) -> Response:
    with context.store.database.transaction() as session:
        webhook = endpoints.rotate(session, checked_id("webhook", webhook_id), principal.tenant)
        return json_response(new_secret_resource(webhook))


@router.get(
    "/v1/webhook-deliveries",
    summary="List notifications, newest first",
    description="Those to registered webhooks and to the webhooks of requests. Ended ones are kept "
    "for 30 days.",
    responses={
        200: response("A page.", PageOf[DeliveryResource], examples.page(examples.DELIVERY)),
        **problem_responses(),
    },
)
def list_deliveries(
    request: Request,
    context: ContextOf,
    principal: Admin,
    query: Annotated[DeliveriesQuery, Query()],
) -> Response:
    with context.store.database.reading() as session:
        rows = read_page(
            lambda: deliveries.page(
                session,
                principal.tenant,
                query.cursor,
                query.limit,
                webhook_id=query.webhook,
                state=query.state,
                filters=query.filters,
            )
        )
    page = converted_page(rows, delivery_resource)
    return page_response(request, page, query.link_parameters())


@router.get(
    "/v1/webhook-deliveries/{delivery_id}",
    summary="One notification with its attempts",
    responses={
        200: response("The notification.", DeliveryResource, examples.DELIVERY),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
)
def get_delivery(context: ContextOf, principal: Admin, delivery_id: str) -> Response:
    with context.store.database.reading() as session:
        delivery = deliveries.get(session, checked_id("delivery", delivery_id), principal.tenant)
    return json_response(delivery_resource(delivery))


@router.post(
    "/v1/webhook-deliveries/{delivery_id}/redeliver",
    summary="Send a notification again",
    description="With the same `webhook-id`, at once; also one that was delivered or given up.",
    status_code=202,
    responses={
        202: response("It will be sent.", DeliveryResource, examples.PENDING_DELIVERY),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def redeliver(context: ContextOf, principal: Admin, delivery_id: str) -> Response:
    with context.store.database.transaction() as session:
        checked_id("delivery", delivery_id)
        delivery = deliveries.redeliver(session, delivery_id, principal.tenant)
        resource = delivery_resource(delivery)
    headers = {"Location": f"/v1/webhook-deliveries/{delivery_id}", "Retry-After": "1"}
    return json_response(resource, 202, headers)


def create(store: Store, body: bytes, submission: Submission, tenant: str) -> Created:
    created = already_created(store, submission)
    if created is not None:
        return created
    posted = parse_model(body, WebhookIn)
    check_webhook_url(posted.url, store.settings, "/url")
    return create_once(
        store,
        submission,
        lambda session: (
            endpoints.create(
                session,
                url=posted.url,
                events=named_events(posted.events),
                description=posted.description,
                metadata=posted.metadata,
                tenant=tenant,
            ).id
        ),
    )


def change(store: Store, webhook_id: str, body: bytes, tenant: str) -> WebhookResource:
    patch = parse_model(body, WebhookPatch)
    if patch.url is not None:
        check_webhook_url(patch.url, store.settings, "/url")
    with store.database.transaction() as session:
        webhook = endpoints.get(session, webhook_id, tenant, lock=True)
        if patch.url is not None:
            endpoints.set_url(webhook, patch.url)
        if "events" in patch.model_fields_set:
            endpoints.set_events(webhook, named_events(patch.events))
        if "description" in patch.model_fields_set:
            webhook.description = patch.description
        if patch.enabled is not None:
            webhook.enabled = patch.enabled
        if patch.metadata:
            webhook = metadata_changes.change(session, webhook, patch.metadata)
        return webhook_resource(webhook)


def _new_secret(store: Store, webhook_id: str, tenant: str) -> NewSecretResource:
    with store.database.reading() as session:
        return new_secret_resource(endpoints.get(session, webhook_id, tenant))
