"""Links that open one explanation without a key, for an iframe or an image on another page."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from d4explain.contracts.scopes import TokenKind
from service import examples
from service.access_models import (
    LinkIn,
    LinkResource,
    NewLinkResource,
    link_resource,
    new_link_resource,
)
from service.context import ContextOf, run_in_thread
from service.http.bodies import json_body
from service.http.json_bodies import parse_model
from service.http.openapi import json_request, problem_responses, response
from service.http.pagination import PageQuery, converted_page, read_page
from service.http.principals import Principal, Reader
from service.http.responses import json_response, page_response
from service.resources import PageOf
from service.submission.resource_ids import checked_id
from store.access import temporary_tokens
from store.catalogue import explanations
from store.store import Store

router = APIRouter(tags=["explanations"])


@router.post(
    "/v1/explanations/{explanation_id}/links",
    summary="Make a link to an explanation",
    description="Who has the link can read this explanation, its answers and drawings "
    "(`&format=svg`), and nothing else, until it expires: after `seconds`, at most 7 days, or with "
    "the key that made it. The response is the only one with the link.",
    status_code=201,
    responses={
        201: response("The link.", NewLinkResource, examples.NEW_LINK),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=json_request(LinkIn, {"an hour": {"seconds": 3600}}),
)
async def create_link(
    request: Request, context: ContextOf, principal: Reader, explanation_id: str
) -> Response:
    body = await json_body(request)
    checked_id("explanation", explanation_id)
    link = await run_in_thread(create, context.store, principal, explanation_id, body)
    return json_response(link, 201, {"Location": link.url})


@router.get(
    "/v1/explanations/{explanation_id}/links",
    summary="List the links to an explanation that have not expired, newest first",
    responses={
        200: response("A page.", PageOf[LinkResource], examples.page(examples.LINK)),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
)
def list_links(
    request: Request,
    context: ContextOf,
    principal: Reader,
    explanation_id: str,
    query: Annotated[PageQuery, Query()],
) -> Response:
    tenant = principal.tenant
    with context.store.database.reading() as session:
        explanations.get(session, checked_id("explanation", explanation_id), tenant)
        rows = read_page(
            lambda: temporary_tokens.page(
                session,
                query.cursor,
                query.limit,
                tenant=tenant,
                explanation_id=explanation_id,
            )
        )
    return page_response(request, converted_page(rows, link_resource), query.link_parameters())


@router.delete(
    "/v1/explanations/{explanation_id}/links/{link_id}",
    summary="Remove a link",
    description="It stops working within two seconds.",
    status_code=204,
    responses={204: response("Removed."), **problem_responses(HTTPStatus.NOT_FOUND)},
)
def delete_link(
    context: ContextOf, principal: Reader, explanation_id: str, link_id: str
) -> Response:
    with context.store.database.transaction() as session:
        explanations.get(session, checked_id("explanation", explanation_id), principal.tenant)
        temporary_tokens.end(
            session,
            checked_id("link", link_id),
            principal.tenant,
            explanation_id=explanation_id,
        )
    return Response(status_code=204)


def create(store: Store, principal: Principal, explanation_id: str, body: bytes) -> NewLinkResource:
    posted = parse_model(body, LinkIn)
    with store.database.transaction() as session:
        explanations.get(session, explanation_id, principal.tenant)
        new = temporary_tokens.create(
            session,
            TokenKind.LINK,
            tenant=principal.tenant,
            key_id=principal.key_id,
            seconds=posted.seconds,
            explanation_id=explanation_id,
        )
    return new_link_resource(new)
