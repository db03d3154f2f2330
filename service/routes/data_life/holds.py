"""Holds: an admin protects a resource, and what it needs, from deletion."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import Response

from d4explain.contracts.requests import CounterfactualRequest
from service import examples
from service.context import ContextOf, run_in_thread
from service.http.bodies import json_body
from service.http.json_bodies import parse_model
from service.http.openapi import json_request, problem_responses, response
from service.http.principals import Admin, Principal, Reader
from service.http.responses import json_response
from service.resources import HoldList, HoldResource
from service.schemas import HoldIn
from service.submission.resource_ids import checked_id
from store.catalogue import explanations
from store.catalogue.data_life import holds
from store.catalogue.data_life.holds import Held, Protected
from store.database.clock import timestamp
from store.store import Store

router = APIRouter(tags=["data life"])


class Noun(StrEnum):
    """The resources that can be put on hold, as they are called in paths."""

    EXPLANATIONS = "explanations"
    GNNS = "gnns"
    DATASETS = "datasets"
    DENOISERS = "denoisers"
    JOBS = "jobs"
    EVALUATIONS = "evaluations"
    COMPARISONS = "comparisons"


_KINDS = {
    Noun.EXPLANATIONS: Held.EXPLANATION,
    Noun.GNNS: Held.GNN,
    Noun.DATASETS: Held.DATASET,
    Noun.DENOISERS: Held.DENOISER,
    Noun.JOBS: Held.JOB,
    Noun.EVALUATIONS: Held.EVALUATION,
    Noun.COMPARISONS: Held.COMPARISON,
}


@router.get(
    "/v1/holds",
    summary="List all holds, newest first",
    responses={
        200: response("All holds of the tenant.", HoldList, examples.HOLDS),
        **problem_responses(),
    },
)
def list_holds(context: ContextOf, principal: Reader) -> Response:
    with context.store.database.reading() as session:
        found = holds.everything(session, tenant=principal.tenant)
    return json_response(HoldList(items=[_resource(hold) for hold in found]))


@router.get(
    "/v1/{noun}/{resource_id}/hold",
    summary="The hold of a resource",
    responses={
        200: response("The hold.", HoldResource, examples.HOLD),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
)
def get_hold(context: ContextOf, principal: Reader, noun: Noun, resource_id: str) -> Response:
    kind = _KINDS[noun]
    with context.store.database.reading() as session:
        id_ = checked_id(kind.value, resource_id)
        return json_response(_resource(holds.get(session, kind, id_, tenant=principal.tenant)))


@router.put(
    "/v1/{noun}/{resource_id}/hold",
    summary="Put a resource on hold",
    description="Nobody can delete a resource on hold, and no retention time deletes it. The hold "
    "also protects what the resource needs to be repeated: GNN, reference set, denoiser, witnesses "
    "and judges of an explanation. Repeating the request changes the reason.",
    responses={
        200: response("The hold.", HoldResource, examples.HOLD),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=json_request(HoldIn, {"audit": examples.HOLD_IN}),
)
async def put_hold(
    request: Request, context: ContextOf, principal: Admin, noun: Noun, resource_id: str
) -> Response:
    posted = parse_model(await json_body(request), HoldIn)
    hold = await run_in_thread(
        put, context.store, principal, _KINDS[noun], resource_id, posted.reason
    )
    return json_response(_resource(hold))


@router.delete(
    "/v1/{noun}/{resource_id}/hold",
    summary="End the hold of a resource",
    status_code=204,
    responses={204: response("Ended."), **problem_responses(HTTPStatus.NOT_FOUND)},
)
def delete_hold(context: ContextOf, principal: Admin, noun: Noun, resource_id: str) -> Response:
    kind = _KINDS[noun]
    with context.store.database.transaction() as session:
        id_ = checked_id(kind.value, resource_id)
        holds.remove(session, kind, id_, tenant=principal.tenant)
    return Response(status_code=204)


def put(store: Store, principal: Principal, kind: Held, id_: str, reason: str) -> Protected:
    checked_id(kind.value, id_)
    judges = _judges(store, principal.tenant, id_) if kind is Held.EXPLANATION else ()
    with store.database.transaction() as session:
        return holds.put(
            session,
            kind,
            id_,
            reason,
            tenant=principal.tenant,
            key_id=principal.key_id,
            judges=judges,
        )


def _judges(store: Store, tenant: str, explanation_id: str) -> tuple[str, ...]:
    """The GNNs that the request names as judges."""
    with store.database.reading() as session:
        explanation = explanations.get(session, explanation_id, tenant)
    if explanation.kind != "counterfactual":
        return ()
    stored = store.artifacts.of(tenant).get(explanation.request_digest)
    judges = CounterfactualRequest.model_validate_json(stored).judges
    return () if judges == "none" else tuple(judges)


def _resource(hold: Protected) -> HoldResource:
    return HoldResource(
        resource=hold.held_id,
        reason=hold.reason,
        protects=list(hold.needed),
        key_id=hold.key_id,
        created_at=timestamp(hold.created_at),
    )
