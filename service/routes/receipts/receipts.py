"""Signed receipts of answers, and the keys that verify them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from d4explain.contracts.receipts.envelopes import Envelope
from service import examples
from service.context import ContextOf
from service.explanation_documents import stored_receipt
from service.http.openapi import IF_NONE_MATCH, problem_responses, response
from service.http.principals import Reader
from service.http.responses import json_response, with_etag
from service.resources import SigningKeyResource, SigningKeys
from service.routes.receipts.replays import ReplayQuery
from service.submission.resource_ids import checked_id
from store import signing
from store.catalogue import replays
from store.database.clock import timestamp

router = APIRouter(tags=["explanations"])


@router.get(
    "/v1/explanations/{explanation_id}/receipt",
    summary="The signed receipt of an answer",
    description="A DSSE envelope with an in-toto statement: its subject is the answer document, by "
    "its SHA-256, and its predicate has the answer's receipt. `d4explain verify` checks it offline "
    "with a public key of `/v1/signing-keys`.",
    responses={
        200: response("The envelope.", Envelope, examples.ENVELOPE),
        304: response("Not modified."),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
    openapi_extra={"parameters": [IF_NONE_MATCH]},
)
def get_receipt(
    request: Request,
    context: ContextOf,
    principal: Reader,
    explanation_id: str,
    query: Annotated[ReplayQuery, Query()],
) -> Response:
    checked_id("explanation", explanation_id)
    with context.store.database.reading() as session:
        answer = replays.recorded_answer(session, explanation_id, principal.tenant, query.stage)
    # Reading compares the stored bytes with the digest that the worker's fenced commit recorded.
    receipt = stored_receipt(context.store.artifacts.of(principal.tenant), answer.digest)
    envelope = context.signer.receipt(
        principal.tenant, explanation_id, answer.stage, answer.digest, receipt
    )
    return with_etag(request, json_response(envelope))


@router.get(
    "/v1/signing-keys",
    summary="The public keys that verify receipts",
    description="Newest first. Keys of earlier times stay here, so that receipts signed by them "
    "can be verified.",
    responses={
        200: response("The keys.", SigningKeys, examples.SIGNING_KEYS),
        **problem_responses(),
    },
)
def list_signing_keys(context: ContextOf, _: Reader) -> Response:
    current = context.signer.key_id
    with context.store.database.reading() as session:
        keys = [
            SigningKeyResource(
                id=row.id,
                algorithm="Ed25519",
                public_key=row.public_key,
                current=row.id == current,
                first_seen_at=timestamp(row.first_seen_at),
            )
            for row in signing.published(session)
        ]
    return json_response(SigningKeys(keys=keys))
